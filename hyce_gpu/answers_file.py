"""Answers as JSON lines: one line a question, in the questions' order; every line has the same keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hyce_gpu.schema import Answer, ChainStep, EvidenceChain, EvidencePath, Relation, Source


def to_line(answer: Answer) -> str:
    return json.dumps(asdict(answer), ensure_ascii=False)


def from_line(line: str) -> Answer:
    """The answer of a line that `to_line` wrote."""
    row = json.loads(line)
    lists = {name: tuple(row[name]) for name in ("entry", "context", "citations")}
    paths = tuple(_path(path) for path in row["paths"])
    return Answer(**{**row, **lists, "paths": paths, "chains": tuple(_chain(chain) for chain in row["chains"])})


def _chain(row: Mapping[str, Any]) -> EvidenceChain:
    return EvidenceChain(row["score"], tuple(ChainStep(**step) for step in row["steps"]))


def _path(row: Mapping[str, Any]) -> EvidencePath:
    relations = tuple(Relation(**relation) for relation in row["relations"])
    sources = tuple(Source(**source) for source in row["sources"])
    return EvidencePath(**{**row, "entities": tuple(row["entities"]), "relations": relations, "sources": sources})
