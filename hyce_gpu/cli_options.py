"""What the commands share: options, values that are given as NAME=VALUE, and the way to a ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyce_gpu.errors import ConfigError

if TYPE_CHECKING:
    from hyce_gpu.indexing import IndexReport

DONE_WITH_FAILURES = 3

StoreOption = Annotated[Path, typer.Option("--store", help="Directory of the store.")]
LlmOption = Annotated[str | None, typer.Option("--llm", help="Hub id or local path of the model that answers.")]
NoLlmOption = Annotated[bool, typer.Option("--no-llm", help="Stop at the evidence.")]
EncoderOption = Annotated[str | None, typer.Option("--encoder", help="sentence-transformers model, Hub id or path.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
LlmSetOption = Annotated[
    list[str] | None,
    typer.Option("--llm-set", metavar="NAME=VALUE", help="An option of the model's engine (docs/llm.md)."),
]
CacheOption = Annotated[
    Path | None, typer.Option(help="Directory of extractions that stores share; by default each store's own.")
]
SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the method.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


def parse_options(options: list[str] | None, flag: str = "--set") -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals:
            raise ConfigError(f"{flag} takes NAME=VALUE, found {option!r}")
        try:
            parsed[name.strip().replace("-", "_")] = json.loads(value)
        except ValueError:
            # A word, such as the name of a method; the options say whether they take one.
            parsed[name.strip().replace("-", "_")] = value
    return parsed


def refuse_both(llm: str | None, no_llm: bool) -> None:
    if llm is not None and no_llm:
        raise typer.BadParameter("--llm and --no-llm exclude each other", param_hint="--llm")


def refuse_without_llm(llm: str | None, llm_options: list[str] | None) -> None:
    """Options of a model that is not there would be dropped without a word."""
    if llm is None and llm_options:
        raise typer.BadParameter("is for a model: name one with --llm MODEL", param_hint="--llm-set")


def point_to_ledger(count: int, path: Path) -> None:
    typer.echo(f"{count:,} set aside, with reasons, in {path}", err=True)
    raise typer.Exit(DONE_WITH_FAILURES)


def tell_index(report: IndexReport | None, store: Path) -> None:
    """What a store holds now, and where the failures are listed; None: nothing was to be done."""
    if report is None:
        typer.echo(json.dumps({"store": str(store), "changed": False}))
        return
    typer.echo(json.dumps({"store": str(store), **report.counts, "seconds": report.seconds}))
    if report.ledger:
        point_to_ledger(len(report.ledger), store / "ledger.jsonl")
