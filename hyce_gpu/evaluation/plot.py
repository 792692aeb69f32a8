"""The recall of each method against k as a picture. Knows matplotlib and the summary's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyce_gpu.errors import MissingBackendError, OutputError
from hyce_gpu.evaluation.scores import NO_CONTEXT, RECALL_AT

_MARKERS = "osD^v<>Pph*X"
# As far apart in k as keeps the bars of several methods from covering each other.
_SHIFT = 0.08


def require_matplotlib() -> Any:
    try:
        # The figure alone: pyplot would choose a display.
        from matplotlib import figure
    except ImportError as error:
        raise MissingBackendError(
            f"matplotlib cannot be imported ({error}); install it with: pip install 'hyce-gpu[eval]'"
        ) from error
    return figure


def plot_recall(summary: Mapping[str, Any], path: Path) -> bool:
    """Writes the picture (.png) of the methods that retrieve and have a recall; says whether there was any.

    Raises:
        OutputError: the file cannot be written.
    """
    methods = summary["methods"].items()
    lines = {name: line for name, one in methods if name != NO_CONTEXT and (line := _line(one["measures"]))}
    if not lines:
        return False
    figure = require_matplotlib().Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for place, (name, line) in enumerate(lines.items()):
        _draw(axes, name, line, place, len(lines))
    questions = next(iter(lines.values()))[0]["n"]
    axes.set_title(f"{summary['dataset']['name']}: recall of supporting passages, {questions:,} questions")
    axes.set_xlabel("k (distinct passages)")
    axes.set_ylabel("recall@k, with 95 % bootstrap intervals")
    axes.set_xticks(RECALL_AT)
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", fontsize="small", ncols=2)
    partial = path.with_name(path.name + ".partial")
    try:
        figure.savefig(partial, dpi=150, format="png")
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write the picture {path}: {error.strerror or error}") from error
    return True


def _line(measures: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [measures[f"recall@{k}"] for k in RECALL_AT] if f"recall@{RECALL_AT[0]}" in measures else []


def _draw(axes: Any, name: str, line: Sequence[Mapping[str, Any]], place: int, count: int) -> None:
    shift = (place - (count - 1) / 2) * _SHIFT
    mean = [point["mean"] for point in line]
    below = [max(point["mean"] - point["low"], 0) for point in line]
    above = [max(point["high"] - point["mean"], 0) for point in line]
    axes.errorbar(
        [k + shift for k in RECALL_AT],
        mean,
        (below, above),
        label=name,
        marker=_MARKERS[place % len(_MARKERS)],
        markersize=4,
        linewidth=1.2,
        elinewidth=0.8,
        capsize=2,
    )
