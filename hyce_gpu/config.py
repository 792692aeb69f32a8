"""Every option of the pipeline, checked when it is constructed.

Knows names, ranges and defaults (SPEC.md, section 2). Knows nothing of tensors, models or files.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from hyce_gpu.errors import ConfigError

EPSILON = 1e-12


def _require(condition: bool, name: str, value: object, expected: str) -> None:
    if not condition:
        raise ConfigError(f"{name} must be {expected}, found {value!r}")


def _check(options: object, fractions: tuple[str, ...], counts: Mapping[str, int]) -> None:
    for name in fractions:
        value = getattr(options, name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        _require(is_number and 0 <= value <= 1, name, value, "a number from 0 to 1")
    for name, least in counts.items():
        value = getattr(options, name)
        is_count = isinstance(value, int) and not isinstance(value, bool)
        _require(is_count and value >= least, name, value, f"a whole number of at least {least}")


@dataclass(frozen=True)
class _Options:
    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> Self:
        """Builds the options from a mapping.

        Raises:
            ConfigError: an unknown name (the message gives the nearest one), or a value out of range.
        """
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known options: {', '.join(known)}"
                raise ConfigError(f"unknown option {name!r}{hint}")
        return cls(**options)


@dataclass(frozen=True)
class Config(_Options):
    """Options of the online stage. The defaults are the paper's; see SPEC.md, section 2, for each step."""

    # Entry, expansion and selection (equations 8 to 21).
    entry_entities: int = 5
    expansion_hops: int = 4
    candidate_budget: int = 4096
    beta: float = 0.5
    max_hyperedges: int = 64
    # Restart and propagation (22 to 28).
    alpha: float = 0.5
    restart: float = 0.5
    propagation_steps: int = 10
    # Evidence (29 to 36).
    entity_threshold: float = 0.1
    weight_coverage: float = 0.2
    weight_propagation: float = 0.2
    weight_extraction: float = 0.2
    weight_entry: float = 0.2
    weight_relation: float = 0.2
    evidence_units: int = 15
    # Paths and context (37 to 42).
    overlap_threshold: float = 0.8
    support_threshold: float = 0.6
    context_segments: int = 6

    def __post_init__(self) -> None:
        fractions = (
            "beta", "alpha", "restart", "entity_threshold", "overlap_threshold", "support_threshold",
            "weight_coverage", "weight_propagation", "weight_extraction", "weight_entry", "weight_relation",
        )  # fmt: skip
        counts = {
            "entry_entities": 0, "expansion_hops": 1, "candidate_budget": 1, "max_hyperedges": 1,
            "propagation_steps": 0, "evidence_units": 1, "context_segments": 1,
        }  # fmt: skip
        _check(self, fractions, counts)

    @classmethod
    def paper(cls, **options: Any) -> Config:
        """SPEC.md, section 2, to the letter, with single options changed by name."""
        return cls.from_mapping(options)


@dataclass(frozen=True)
class IndexConfig(_Options):
    """Options of the offline stage (SPEC.md, section 1)."""

    chunk_tokens: int = 256
    chunk_overlap: int = 32
    encode_batch: int = 64
    extract_batch: int = 256

    def __post_init__(self) -> None:
        _check(self, (), {"chunk_tokens": 8, "chunk_overlap": 0, "encode_batch": 1, "extract_batch": 1})
        fits = self.chunk_overlap <= self.chunk_tokens // 2
        _require(fits, "chunk_overlap", self.chunk_overlap, f"at most half of chunk_tokens ({self.chunk_tokens})")
