"""The lines of all methods → means with intervals, differences from one method, and what was not scored.

Knows rows and numbers, not files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hyce_gpu.evaluation.bootstrap import estimates
from hyce_gpu.evaluation.judge import JUDGED
from hyce_gpu.evaluation.scores import ANSWERS, RECALLS

COMPARED = "linked"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Results:
    """What one method gave, a line a question."""

    rows: Sequence[Row]
    # The judge's line for each of them; empty where no judge was asked.
    judged: Sequence[Row] = ()

    def column(self, measure: str) -> np.ndarray:
        """The measure of each question [n]; NaN where it has none, or where the judge's reply could not be parsed."""
        if measure in JUDGED:
            values = [row["scores"].get(measure) for row in self.judged] or [None] * len(self.rows)
        else:
            values = [row["measures"].get(measure) for row in self.rows]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    def unparsed(self, measure: str) -> int:
        return sum(row["scores"].get(measure, 0.0) is None for row in self.judged)


def summarise(results: Mapping[str, Results], seed: int) -> dict[str, Any]:
    """ "methods": counts and measures of each; "differences": of `linked` from each other one, question by question."""
    measured = {
        (name, measure): column
        for name, one in results.items()
        for measure in (*RECALLS, *ANSWERS, *JUDGED)
        if len(column := one.column(measure)) and not np.isnan(column).all()
    }
    # Rounding must not blur that equal values differ by nothing, so differences are taken before the means.
    paired = {
        (name, measure): measured[COMPARED, measure] - column
        for (name, measure), column in measured.items()
        if name != COMPARED and (COMPARED, measure) in measured
    }
    found = iter(estimates([*measured.values(), *paired.values()], seed))
    means = {key: asdict(next(found)) for key in measured}
    differences = {key: asdict(next(found)) for key in paired}
    return {
        "methods": {name: _method(name, one, means) for name, one in results.items()},
        "differences": {
            name: {measure: value for (other, measure), value in differences.items() if other == name}
            for name in results
            if COMPARED in results and name != COMPARED
        },
    }


def _method(name: str, one: Results, means: Mapping[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    rows = one.rows
    measures = {measure: value for (owner, measure), value in means.items() if owner == name}
    for measure in JUDGED:
        unparsed = one.unparsed(measure)
        if measure in measures or unparsed:
            measures[measure] = _with_unparsed(measures.get(measure), unparsed)
    return {
        "n": len(rows),
        "status": dict(Counter(row["status"] for row in rows)),
        "failed": sum(row["status"] == "failed" for row in rows),
        "unlabelled": sum(not row["supporting"] for row in rows),
        "without_expected_answer": sum(not row["expected"] for row in rows),
        "unparsed": sum(one.unparsed(measure) for measure in JUDGED),
        "measures": measures,
        "seconds_per_question": {
            part: sum(row["seconds"][part] for row in rows) / max(len(rows), 1) for part in ("retrieval", "answer")
        },
        "usage": dict(sum((Counter(row["usage"]) for row in rows), Counter())),
    }


def _with_unparsed(mean: dict[str, Any] | None, unparsed: int) -> dict[str, Any]:
    """The mean over the parsed replies, beside the one that counts the others as 0."""
    mean = mean or {"n": 0, "mean": None, "low": None, "high": None}
    total = mean["n"] + unparsed
    return {**mean, "unparsed": unparsed, "pessimistic_mean": (mean["mean"] or 0.0) * mean["n"] / total}
