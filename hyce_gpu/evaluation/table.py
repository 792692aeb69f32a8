"""The summary for a person to read, on standard output. Knows layout only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hyce_gpu.evaluation.judge import ACCURACY, FAITHFULNESS, JUDGED, RELEVANCE
from hyce_gpu.evaluation.scores import ANSWERS, RECALL_IN_CONTEXT, RECALLS
from hyce_gpu.report import visible

_SHORT = {
    RECALL_IN_CONTEXT: "R@ctx", "exact_match": "EM", "f1": "F1",
    ACCURACY: "accuracy", RELEVANCE: "relevance", FAITHFULNESS: "faithful",
}  # fmt: skip


def show_summary(summary: Mapping[str, Any], out: Console) -> None:
    """Means with their 95 % intervals, differences of `linked` from the others, and what was not scored."""
    data, methods = summary["dataset"], summary["methods"]
    head = f"{visible(data['name'])}: {data['questions']:,} questions, {data['documents']:,} documents"
    out.print(Text(head, style="bold"))
    measured = {name: one["measures"] for name, one in methods.items()}
    seconds = {name: one["seconds_per_question"]["retrieval"] for name, one in methods.items()}
    # Two tables, since one of all measures is wider than a terminal.
    _show_estimates(measured, RECALLS, out, seconds)
    _show_estimates(measured, (*ANSWERS, *JUDGED), out)
    if any(summary["differences"].values()):
        out.print(Text("linked minus the other method, over the same questions", style="bold"))
        for measures in (RECALLS, (*ANSWERS, *JUDGED)):
            _show_estimates(summary["differences"], measures, out, sign="+")
    _show_counts(summary, out)


def _show_estimates(
    measured: Mapping[str, Mapping[str, Any]],
    measures: Sequence[str],
    out: Console,
    seconds: Mapping[str, float] | None = None,
    sign: str = "",
) -> None:
    """One line a method, one column for each measure that any of them has; nothing where there is none."""
    present = [measure for measure in measures if any(measure in one for one in measured.values())]
    if not present and not seconds:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("method", *map(_short, present), *(["s/question"] if seconds else [])):
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for name, one in measured.items():
        cells = [_cell(one.get(measure), sign) for measure in present]
        table.add_row(name, *cells, *([f"{seconds[name]:.4f}"] if seconds else []))
    out.print(table)


def _show_counts(summary: Mapping[str, Any], out: Console) -> None:
    data = summary["dataset"]
    out.print(
        f"not scored: {data['unlabelled']:,} questions without labelled passages, "
        f"{data['without_expected_answer']:,} without an expected answer"
    )
    for name, one in summary["methods"].items():
        if one["failed"]:
            out.print(f"{name}: {one['failed']:,} failed (scored 0)")
        for measure in JUDGED:
            judged = one["measures"].get(measure, {})
            if judged.get("unparsed"):
                mean = judged["pessimistic_mean"]
                out.print(
                    f"{name}, {measure}: {judged['unparsed']:,} of {judged['n'] + judged['unparsed']:,} replies of the "
                    f"judge unparsed; {mean:.3f} if they count as 0"
                )


def _short(measure: str) -> str:
    return _SHORT.get(measure, measure.replace("recall@", "R@"))


def _cell(estimate: Mapping[str, Any] | None, sign: str) -> str:
    """A mean, and its interval on the line below."""
    if estimate is None or estimate["mean"] is None:
        return "–\n"
    mean, low, high = (f"{estimate[name]:{sign}.3f}" for name in ("mean", "low", "high"))
    return f"{mean}\n{low}–{high}" if not sign else f"{mean}\n{low}, {high}"
