"""What of a language model's description decides its replies, and so what may be used again."""

from __future__ import annotations

from collections.abc import Mapping

# Where it runs, and by which version: the same model gives the same replies, as far as any model does.
_WHERE_IT_RUNS = ("path", "device", "engine")


def what_shapes_replies(described: Mapping[str, str]) -> dict[str, str]:
    """The part of `Generator.describe()` that a reply depends on: weights, window and sampling.

    A model that is known by its weights is the same under any name.
    """
    ignored = {*_WHERE_IT_RUNS, *(("model",) if "weights" in described else ())}
    return {name: value for name, value in described.items() if name not in ignored}
