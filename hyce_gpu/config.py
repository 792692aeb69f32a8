"""Every option of the pipeline, checked when it is constructed.

Knows names, ranges and defaults (SPEC.md, section 2). Knows nothing of tensors, models or files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from hyce_gpu.errors import ConfigError, unknown

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
                raise ConfigError(unknown("option", name, known))
        return cls(**options)


METHODS = ("linked", "paper")
CONTEXT_UNITS = ("passage", "segment")

# What `Config.paper` has otherwise; see SPEC.md, section 2, for each step.
_PAPER: Mapping[str, Any] = {
    "method": "paper", "entry_entities": 5, "max_hyperedges": 64, "restart": 0.5, "propagation_steps": 10,
    "weight_entry": 0.2, "weight_propagation": 0.2, "overlap_threshold": 0.8, "context_unit": "segment",
}  # fmt: skip
_PAPER_ONLY = (
    "expansion_hops", "candidate_budget", "beta", "alpha", "entity_threshold", "weight_coverage", "weight_extraction",
    "weight_relation",
)  # fmt: skip
_LINKED_ONLY = (
    "nearest_hyperedges", "nearest_passages", "entry_fanout", "bridge_sources", "bridge_fanout", "passage_share",
    "weight_lexical", "relevance_rank", "relevance_power", "weight_link", "seed_hyperedges", "seed_temperature",
)  # fmt: skip


@dataclass(frozen=True)
class Config(_Options):
    """Options of the online stage. `Config()` is `Config.linked()`, our own method; `Config.paper()` is the paper's."""

    method: str = "linked"
    # Entry (equations 8 to 13), and the sub-hypergraph of a question (19 to 21).
    entry_entities: int = 2
    max_hyperedges: int = 512
    # Candidates of `linked`: the nearest by vector, around entry entities, and over bridges from the best; entities of
    # more passages than the fanout are not followed.
    nearest_hyperedges: int = 256
    nearest_passages: int = 20
    entry_fanout: int = 1000
    bridge_sources: int = 30
    bridge_fanout: int = 50
    # Relevance of `linked`: the passage's share of the similarity, the part of words, and the question's own scale.
    passage_share: float = 0.5
    weight_lexical: float = 0.3
    relevance_rank: int = 400
    relevance_power: float = 1.5
    # Bridges: their weight, and what an entry entity, or one that neither passage is about, counts as a bridge.
    weight_link: float = 1.0
    entry_bridge: float = 0.25
    side_bridge: float = 0.75
    # Expansion and retrieval score of `paper` (14 to 18).
    expansion_hops: int = 4
    candidate_budget: int = 4096
    beta: float = 0.5
    # Restart and propagation (22 to 28); where the walk of `linked` starts.
    alpha: float = 0.5
    restart: float = 0.3
    propagation_steps: int = 4
    seed_hyperedges: int = 30
    seed_temperature: float = 0.05
    # Evidence (29 to 36).
    entity_threshold: float = 0.1
    weight_coverage: float = 0.2
    weight_propagation: float = 0.7
    weight_extraction: float = 0.2
    weight_entry: float = 0.4
    weight_relation: float = 0.2
    evidence_units: int = 15
    # Paths, chains and context (37 to 42).
    overlap_threshold: float = 1.0
    support_threshold: float = 0.6
    chain_hyperedges: int = 4
    context_segments: int = 6
    # What the model reads of a path: its whole passage, or its segment alone.
    context_unit: str = "passage"

    def __post_init__(self) -> None:
        _require(self.method in METHODS, "method", self.method, f"one of {', '.join(METHODS)}")
        _require(
            self.context_unit in CONTEXT_UNITS, "context_unit", self.context_unit, f"one of {', '.join(CONTEXT_UNITS)}"
        )
        fractions = (
            "beta", "alpha", "restart", "entity_threshold", "overlap_threshold", "support_threshold",
            "weight_coverage", "weight_propagation", "weight_extraction", "weight_entry", "weight_relation",
            "passage_share", "weight_lexical", "weight_link", "entry_bridge", "side_bridge",
        )  # fmt: skip
        counts = {
            "entry_entities": 0, "expansion_hops": 1, "candidate_budget": 1, "max_hyperedges": 1,
            "propagation_steps": 0, "evidence_units": 1, "context_segments": 1, "nearest_hyperedges": 0,
            "nearest_passages": 0, "entry_fanout": 0, "bridge_sources": 0, "bridge_fanout": 0, "relevance_rank": 1,
            "seed_hyperedges": 1, "chain_hyperedges": 1,
        }  # fmt: skip
        _check(self, fractions, counts)
        for name in ("relevance_power", "seed_temperature"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            _require(is_number and 0 < value < float("inf"), name, value, "a number above 0")
        self._refuse_the_other_methods_options()

    def _refuse_the_other_methods_options(self) -> None:
        other = _PAPER_ONLY if self.method == "linked" else _LINKED_ONLY
        changed = [one.name for one in fields(self) if one.name in other and getattr(self, one.name) != one.default]
        if changed:
            owner = "paper" if self.method == "linked" else "linked"
            raise ConfigError(f"{changed[0]} is an option of the method {owner!r}; the method here is {self.method!r}")

    @classmethod
    def linked(cls, **options: Any) -> Config:
        """Our method, the default, with single options changed by name."""
        return cls.from_mapping({"method": "linked", **options})

    @classmethod
    def paper(cls, **options: Any) -> Config:
        """SPEC.md, section 2, to the letter, with single options changed by name."""
        return cls.from_mapping({**_PAPER, **options})


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
