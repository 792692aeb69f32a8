"""Which encoder a store was built with, and whether the one at hand is the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hyce_serving.encoder import Encoder

from hyce_gpu.errors import StoreError

# Fingerprints are rounded to 4 decimals; another device or library version moves them by about that much.
_TOLERANCE = 5e-3


def identity(encoder: Encoder) -> dict[str, Any]:
    """What the manifest keeps of an encoder: name, vector size, and the start of a few fixed sentences' vectors."""
    return {"name": encoder.name, "dimension": encoder.dimension, "fingerprint": encoder.fingerprint()}


def require_same(encoder: Encoder, built_with: Mapping[str, Any], store: str) -> None:
    """Raises:
    StoreError: `encoder` gives other vectors than the one that the store was built with.
    """
    same_size = encoder.dimension == built_with["dimension"]
    expected = np.array(built_with["fingerprint"])
    found = np.array(encoder.fingerprint()) if same_size else None
    if found is None or found.shape != expected.shape or np.abs(found - expected).max() > _TOLERANCE:
        raise StoreError(
            f"the store {store} was built with the encoder {built_with['name']!r} ({built_with['dimension']} numbers), "
            f"{encoder.name!r} ({encoder.dimension}) gives other vectors; leave --encoder out, or index again"
        )
