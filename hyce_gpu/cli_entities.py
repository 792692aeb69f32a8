"""The commands about entities: which names may be one, and what a person decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyce_gpu.cli_options import DeviceOption, EncoderOption, JsonOption, StoreOption

if TYPE_CHECKING:
    from hyce_gpu.entities_job import Change, Pair

entities = typer.Typer(no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A name that the store has, in any spelling.")]


@entities.command()
def suggest(
    store: StoreOption,
    min_score: Annotated[float, typer.Option(help="The lowest score that counts, from 0 to 1.")] = 0.6,
    limit: Annotated[int, typer.Option(min=1, help="Pairs at most.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Proposes pairs of entities that may be one, with what speaks for it; changes nothing."""
    from hyce_gpu import report
    from hyce_gpu.suggest_job import suggest as run_suggest

    found = run_suggest(store, min_score, limit)
    if as_json:
        for one in found:
            typer.echo(json.dumps(one.as_json(), ensure_ascii=False))
    else:
        report.show_suggestions(found, report.console())


@entities.command()
def apply(
    pairs: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines, as suggest --json prints; - for stdin.")],
    store: StoreOption,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Makes the two names of each line one entity, or with "verdict": "apart" two."""
    from hyce_gpu import entities_job

    _tell(entities_job.apply(store, entities_job.read_pairs(pairs), encoder, device), store)


@entities.command()
def join(
    first: NameArgument,
    second: NameArgument,
    store: StoreOption,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Makes two names one entity."""
    from hyce_gpu import entities_job

    _tell(entities_job.apply(store, [entities_job.Pair("", first, second)], encoder, device), store)


@entities.command()
def part(
    first: NameArgument,
    second: NameArgument,
    store: StoreOption,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Keeps two names apart: no alias joins them, and suggest does not name them."""
    from hyce_gpu import entities_job

    pair = entities_job.Pair("", first, second, "apart")
    _tell(entities_job.apply(store, [pair], encoder, device), store)


@entities.command()
def undo(
    pairs: Annotated[list[str], typer.Argument(metavar="FILE|NAME NAME", help="What apply, or join and part, took.")],
    store: StoreOption,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Takes decisions out; what an alias joined is parted."""
    from hyce_gpu import entities_job

    _tell(entities_job.undo(store, _asked(pairs), encoder, device), store)


@entities.command("list")
def list_decisions(store: StoreOption, as_json: JsonOption = False) -> None:
    """Shows what was decided, what aliases joined, and what made it so."""
    from hyce_gpu import entities_job
    from hyce_gpu.report import visible

    for row in entities_job.listed(store):
        plain = f"{row['verdict']:<6}{visible(row['first'])} | {visible(row['second'])}  ({visible(row['made'])})"
        typer.echo(json.dumps(row, ensure_ascii=False) if as_json else plain)


def _asked(arguments: list[str]) -> list[Pair]:
    from hyce_gpu.entities_job import Pair, read_pairs

    if len(arguments) == 1:
        return read_pairs(Path(arguments[0]))
    if len(arguments) == 2:
        return [Pair("", *arguments)]
    raise typer.BadParameter("expected one file, or two names", param_hint="FILE|NAME NAME")


def _tell(change: Change, store: Path) -> None:
    counts = {"decided": change.decided, "undone": change.undone, "entities_joined": change.joined}
    report = change.report
    told = {**report.counts, "seconds": report.seconds} if report else {"changed": False}
    typer.echo(json.dumps({"store": str(store), **counts, **told}))
