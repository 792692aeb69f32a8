"""The commands around the two jobs: what is there, what it will cost, how good it is, and a demonstration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hyce_gpu.cli_options import (
    DONE_WITH_FAILURES,
    DeviceOption,
    EncoderOption,
    JsonOption,
    LlmOption,
    LlmSetOption,
    NoLlmOption,
    SetOption,
    StoreOption,
    parse_options,
    point_to_ledger,
    refuse_both,
)

tools = typer.Typer()
import_app = typer.Typer(help="Turns what other tools extracted into extraction records.", no_args_is_help=True)
tools.add_typer(import_app, name="import")


@tools.command()
def estimate(
    corpus: Annotated[list[Path], typer.Argument(help="What hyce index would be given.")],
    llm: Annotated[str, typer.Option("--llm", help="Model that would extract, Hub id or path.")],
    sample: Annotated[int, typer.Option(min=1, help="Chunks to extract for it.")] = 16,
    encoder: EncoderOption = None,
    llm_options: LlmSetOption = None,
    options: SetOption = None,
) -> None:
    """Says what an extraction will cost: chunks, tokens and time, from a short sample; writes nothing."""
    from hyce_gpu.estimate_job import estimate as run_estimate

    engine_options = parse_options(llm_options, "--llm-set")
    found = run_estimate(corpus, llm, sample, encoder, parse_options(options), engine_options)
    typer.echo(json.dumps(vars(found)))


@tools.command()
def inspect(
    store: Annotated[Path | None, typer.Option(help="Directory of the store.")] = None,
    answers: Annotated[Path | None, typer.Option(help="An answers file, for what it was made from and cost.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Says what a store holds, what it was built with and what that cost; or the same of an answers file."""
    from hyce_gpu import report
    from hyce_gpu.answer_job import read_manifest
    from hyce_gpu.store import Store

    if (store is None) == (answers is None):
        raise typer.BadParameter("name either --store DIR or --answers FILE", param_hint="--store")
    manifest = Store.open(store).manifest if store is not None else read_manifest(answers or Path())
    if as_json:
        typer.echo(json.dumps(manifest, indent=2))
    elif store is not None:
        report.show_store(str(store), manifest, report.console())
    else:
        report.show_accounts(manifest["accounts"], report.console())


@tools.command()
def verify(
    store: StoreOption,
    repair: Annotated[bool, typer.Option("--repair", help="Rebuild what the rest allows.")] = False,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Names everything that is wrong with a store, and rebuilds what can be rebuilt."""
    from hyce_gpu.repair_job import repair as run_repair
    from hyce_gpu.verify import verify as run_verify

    if repair:
        done, lost = run_repair(store, encoder, device)
        found: list[dict[str, str]] = [*({"rebuilt": one} for one in done), *({"lost": one} for one in lost)]
        lines, is_damaged = [f"{word} {one}" for row in found for word, one in row.items()], bool(lost)
    else:
        findings = run_verify(store)
        found, lines, is_damaged = [vars(one) for one in findings], [str(one) for one in findings], bool(findings)
    typer.echo(json.dumps(found, indent=2) if as_json else "\n".join(lines) or "sound")
    if is_damaged:
        raise typer.Exit(1)


@tools.command()
def doctor(
    store: Annotated[Path | None, typer.Option(help="A store: adds the plan of the memory.")] = None,
    llm: Annotated[
        str | None, typer.Option("--llm", help="The model that answers, for the plan of the memory.")
    ] = None,
    llm_options: LlmSetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Says which device and backends would be used and why, and what is missing. Exits 1 where a plan does not fit."""
    from hyce_gpu.doctor import PLAN, examine

    checks = examine(store, llm, parse_options(llm_options, "--llm-set"))
    if as_json:
        typer.echo(json.dumps([vars(check) for check in checks], indent=2))
    for check in [] if as_json else checks:
        typer.echo(f"{check.state:<8}{check.name:<22}{check.detail}")
        if check.fix:
            typer.echo(f"{'':<8}{'':<22}→ {check.fix}")
    if any(check.name == PLAN and check.state == "broken" for check in checks):
        raise typer.Exit(1)


@tools.command("eval")
def evaluate(
    data: Annotated[Path, typer.Option(help="Folder with corpus.jsonl and questions.jsonl, or official files.")],
    out: Annotated[Path, typer.Option(help="Directory of the results; a run that was interrupted goes on there.")],
    methods: Annotated[str, typer.Option(help="Names, separated by commas.")] = "linked,paper,dense,bm25,ppr,none",
    llm: Annotated[str | None, typer.Option("--llm", help="Model that answers; without it, retrieval only.")] = None,
    judge: Annotated[str | None, typer.Option(help="Model that grades the answers; may be the same.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The first N questions; the corpus stays whole.")] = None,
    store: Annotated[Path | None, typer.Option(help="A store to use; by default OUT/store is built.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Questions at once.")] = 256,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    llm_options: LlmSetOption = None,
    options: SetOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap.")] = 0,
) -> None:
    """Measures retrieval and answers of several methods on a data set."""
    from hyce_gpu import report
    from hyce_gpu.evaluation.eval_job import EvalOptions, run_eval
    from hyce_gpu.evaluation.table import show_summary

    given, engine_options = parse_options(options), parse_options(llm_options, "--llm-set")
    asked = EvalOptions(
        data, out, methods, llm, judge, limit, store, batch_size, given, device, encoder, seed, engine_options
    )
    summary, ledger = run_eval(asked)
    show_summary(summary, report.console())
    if ledger:
        point_to_ledger(len(ledger), out / "ledger.jsonl")


@import_app.command("openie")
def import_openie(
    cache: Annotated[Path, typer.Argument(metavar="FILE", help="OpenIE cache: JSON lines, or HippoRAG's .json file.")],
    out: Annotated[Path, typer.Option(help="Extraction records (.jsonl) for hyce index --records.")],
    corpus: Annotated[
        list[Path] | None, typer.Option(help="Documents the records are for; the cache's own passages if not given.")
    ] = None,
    corpus_out: Annotated[Path | None, typer.Option(help="Where to write the cache's passages as a corpus.")] = None,
) -> None:
    """Turns the entities and triples of an OpenIE cache into extraction records."""
    from hyce_gpu.import_job import run_import
    from hyce_gpu.ledger import ledger_path

    counts, ledger = run_import(cache, out, corpus or [], corpus_out)
    typer.echo(json.dumps({"out": str(out), **counts}))
    if ledger:
        point_to_ledger(len(ledger), ledger_path(out))


@tools.command()
def demo(
    llm: LlmOption = None,
    no_llm: NoLlmOption = False,
    out: Annotated[Path, typer.Option(help="Directory for the store and the answers.")] = Path("hyce-demo"),
    device: DeviceOption = "auto",
) -> None:
    """Indexes a small bundled corpus, answers its questions, and shows the evidence."""
    from hyce_gpu.demo import run_demo

    refuse_both(llm, no_llm)
    if run_demo(llm, no_llm, out, device):
        raise typer.Exit(DONE_WITH_FAILURES)
