"""A run of the benchmarks for a person to read: `python benchmarks/report.py NEW.json [OLD.json]`.

Tables on standard output, and NEW.png beside the file where there are batch sizes to plot. Knows pytest-benchmark's
JSON with what `conftest.py` adds to it; measures nothing itself.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hyce_gpu.errors import HyceError, InputError, OutputError
from hyce_gpu.evaluation.plot import require_matplotlib
from hyce_gpu.json_files import read_json_items
from hyce_gpu.report import console, visible

# What the backend of an entry is called that takes one question after the other.
ONE_BY_ONE = "one by one"
WARNING = (
    "new/old is a ratio of medians from two runs: on a noisy machine these are no proof; ratios inside one run are."
)
_NONE = "–"
_MARKERS = "osD^v<>Pph*X"
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@dataclass(frozen=True)
class Entry:
    """One benchmark of a run; times in seconds."""

    group: str
    name: str
    # With the file, so that it is unique in a run.
    fullname: str
    median: float
    iqr: float
    # These three are None where the benchmark left no `extra_info`.
    questions: int | None = None
    backend: str | None = None
    method: str | None = None

    @property
    def rate(self) -> float | None:
        """Questions a second."""
        return self.questions / self.median if self.questions else None

    @property
    def work(self) -> tuple[str, int | None]:
        """What must be equal for two runs to have timed the same."""
        return self.fullname, self.questions


@dataclass(frozen=True)
class Run:
    # Hardware, commit, date and versions: what a figure is worth nothing without.
    facts: Mapping[str, str]
    entries: Sequence[Entry]

    def groups(self) -> Iterator[tuple[str, list[Entry]]]:
        """By name of the group; inside one in the order of the file, which is the order they ran in."""
        for name, entries in groupby(sorted(self.entries, key=lambda entry: entry.group), lambda entry: entry.group):
            yield name, list(entries)


def read_run(path: Path) -> Run:
    """
    Raises:
        InputError: the file cannot be read, or is not what `--benchmark-json` writes; names the entry.
    """
    item = next(read_json_items(path), None)
    if item and item.error:
        raise InputError(f"{item.where}: {item.error}")
    value = item.value if item else None
    if not isinstance(value, dict) or not isinstance(value.get("benchmarks"), list):
        raise InputError(f"{path}: no list of benchmarks in it; expected what pytest writes with --benchmark-json")
    entries = [_entry(one, f"{path}: benchmark {number}") for number, one in enumerate(value["benchmarks"], start=1)]
    return Run(_facts(value), entries)


def _entry(value: Any, where: str) -> Entry:
    try:
        stats, name = value["stats"], str(value["name"])
        median, iqr = float(stats["median"]), float(stats["iqr"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{where}: expected a name and stats with median and iqr ({error!r})") from error
    if not median > 0:
        raise InputError(f"{where}: expected a median above 0 seconds, found {median}")
    group, fullname = str(value.get("group") or "no group"), str(value.get("fullname") or name)
    return Entry(group, name, fullname, median, iqr, **_extra(value.get("extra_info")))


def _extra(info: Any) -> dict[str, Any]:
    """Questions, backend and method, or nothing where any of them is missing: a rate needs its question count."""
    found = {name: info.get(name) for name in ("questions", "backend", "method")} if isinstance(info, dict) else {}
    questions = found.get("questions")
    counted = isinstance(questions, int) and not isinstance(questions, bool) and questions > 0
    return found if counted and all(isinstance(found[name], str) for name in ("backend", "method")) else {}


def _facts(value: Mapping[str, Any]) -> dict[str, str]:
    machine, commit = _part(value, "machine_info"), _part(value, "commit_info")
    memory = machine.get("memory_bytes")
    hardware = [
        _part(machine, "cpu").get("brand_raw", "unknown CPU"),
        f"{machine.get('cores', 'unknown')} cores",
        f"{memory / 2**30:.1f} GiB memory" if isinstance(memory, int) else "unknown memory",
    ]
    versions = {"Python": machine.get("python_version", "unknown"), **_part(machine, "versions")}
    facts = {
        "hardware": ", ".join(map(str, hardware)),
        "commit": f"{commit.get('short', 'unknown')}{' + changes' if commit.get('dirty') else ''}",
        "date": str(value.get("datetime", "unknown"))[:19],
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "settings": ", ".join(f"{name}={setting}" for name, setting in _part(machine, "settings").items()),
    }
    return {name: visible(fact) for name, fact in facts.items() if fact}


def _part(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = value.get(name)
    return part if isinstance(part, dict) else {}


def show(new: Run, old: Run | None, out: Console) -> None:
    """The facts of the run, a table for each group, and what a comparison with the older run is worth."""
    _show_facts(new, old, out)
    before = {entry.work: entry.median for entry in old.entries} if old else None
    for name, entries in new.groups():
        out.print()
        out.print(Text(visible(name), style="bold"))
        out.print(_table(entries, before))
    if before is not None:
        missing = len(before.keys() - {entry.work for entry in new.entries})
        out.print()
        out.print(Text(WARNING, style="yellow"))
        out.print(f"{missing:,} of {len(before):,} benchmarks of the older run have no counterpart in the new one")


def _show_facts(new: Run, old: Run | None, out: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=old is not None)
    for title in ("", "new", *(["old"] if old else [])):
        table.add_column(title)
    runs = [new, old] if old else [new]
    for name in dict.fromkeys(name for run in runs for name in run.facts):
        table.add_row(name, *(Text(run.facts.get(name, _NONE)) for run in runs))
    out.print(table)


def _table(entries: Sequence[Entry], before: Mapping[tuple[str, int | None], float] | None) -> Table:
    measured = _baselines(entries)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("name", overflow="fold")
    for title in ("questions", "median", "IQR", "questions/s"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in (*measured, *([] if before is None else ["new/old"])):
        table.add_column(Text(title), justify="right")
    for entry, label in zip(entries, _labels(entries), strict=True):
        compared = [] if before is None else [_ratio(entry.median, before.get(entry.work))]
        table.add_row(Text(label), *_cells(entry), *(_ratio(entry.rate, rate) for rate in measured.values()), *compared)
    return table


def _cells(entry: Entry) -> tuple[str, ...]:
    if entry.rate is None:
        return _NONE, _time(entry.median), _NONE, _NONE
    return f"{entry.questions:,}", _time(entry.median), _time(entry.iqr), _figure(entry.rate)


def _labels(entries: Sequence[Entry]) -> list[str]:
    """The backend, with the method where the group has several; the test's name where neither is known."""
    several = len({entry.method for entry in entries if entry.method}) > 1
    return [
        visible((f"{entry.method}, " if several else "") + entry.backend if entry.backend else entry.name)
        for entry in entries
    ]


def _baselines(entries: Sequence[Entry]) -> dict[str, float]:
    """Title of the column → questions/s that the group's entries are divided by."""
    timed = [(label, entry) for label, entry in zip(_labels(entries), entries, strict=True) if entry.rate]
    one_by_one = [(label, entry) for label, entry in timed if ONE_BY_ONE in label]
    if not one_by_one:
        return {"× slowest": min(entry.rate for _, entry in timed)} if timed else {}
    same = Counter(label for label, _ in one_by_one)
    return {
        f"× {label}{f' ({entry.questions:,})' if same[label] > 1 else ''}": entry.rate for label, entry in one_by_one
    }


def _ratio(value: float | None, base: float | None) -> str:
    return _NONE if value is None or base is None else _figure(value / base)


def _figure(value: float) -> str:
    """Three significant digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def _time(seconds: float) -> str:
    unit, name = next((unit for unit in _TIME_UNITS if seconds >= unit[0]), _TIME_UNITS[-1])
    return f"{_figure(seconds / unit)} {name}"


def plot(run: Run, path: Path) -> bool:
    """Writes the picture (.png), a panel for each group with several batch sizes; says whether there was any.

    Raises:
        MissingBackendError: matplotlib cannot be imported.
        OutputError: the file cannot be written.
    """
    timed = [(name, [entry for entry in entries if entry.rate]) for name, entries in run.groups()]
    panels = [(name, entries) for name, entries in timed if len({entry.questions for entry in entries}) > 1]
    if not panels:
        return False
    figure = require_matplotlib().Figure(figsize=(6 * len(panels), 5), layout="constrained")
    for axes, (name, entries) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        _draw(axes, name, entries)
    figure.suptitle(f"{run.facts['hardware']}; commit {run.facts['commit']}", fontsize="small")
    partial = path.with_name(path.name + ".partial")
    try:
        figure.savefig(partial, dpi=150, format="png")
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write the picture {path}: {error.strerror or error}") from error
    return True


def _draw(axes: Any, name: str, entries: Sequence[Entry]) -> None:
    labelled = list(zip(_labels(entries), entries, strict=True))
    for place, label in enumerate(dict.fromkeys(label for label, _ in labelled)):
        points = sorted((entry.questions, entry.rate) for other, entry in labelled if other == label)
        if ONE_BY_ONE in label and len(points) == 1:
            # The questions of such an entry are how many were timed, not how many went together.
            axes.axhline(points[0][1], label=label, color=f"C{place}", linestyle="--", linewidth=1.2)
        else:
            marker = _MARKERS[place % len(_MARKERS)]
            axes.plot(*zip(*points, strict=True), label=label, color=f"C{place}", marker=marker, markersize=4)
    axes.set_title(name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    sizes = sorted({entry.questions for entry in entries})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_xlabel("batch size (questions)")
    axes.set_ylabel("questions/s")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("new", type=Path, metavar="NEW.json")
    parser.add_argument("old", type=Path, nargs="?", metavar="OLD.json", help="an older run to compare with")
    options = parser.parse_args(arguments)
    try:
        new, old = read_run(options.new), read_run(options.old) if options.old else None
        show(new, old, console())
        picture = options.new.with_suffix(".png")
        if plot(new, picture):
            print(f"plot: {picture}", file=sys.stderr)
    except HyceError as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
