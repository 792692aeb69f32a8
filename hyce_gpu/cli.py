"""The command line: arguments in, results on standard output, everything else on standard error.

Exit codes: 0 done; 1 nothing could be done, one line says why; 2 usage; 3 done, with failures in a ledger.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyce_gpu.errors import ConfigError, HyceError

if TYPE_CHECKING:
    from hyce_gpu.config import Config
    from hyce_gpu.engine import Engine

app = typer.Typer(
    help="Hypergraph chain-of-evidence retrieval: a corpus becomes a store, questions become answers with evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

import_app = typer.Typer(help="Turns what other tools extracted into extraction records.", no_args_is_help=True)
app.add_typer(import_app, name="import")

StoreOption = Annotated[Path, typer.Option("--store", help="Directory of the store.")]
LlmOption = Annotated[str | None, typer.Option("--llm", help="Hub id or local path of the model that answers.")]
NoLlmOption = Annotated[bool, typer.Option("--no-llm", help="Stop at the evidence.")]
EncoderOption = Annotated[str | None, typer.Option("--encoder", help="sentence-transformers model, Hub id or path.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the method.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]

DONE_WITH_FAILURES = 3


@app.command()
def index(
    corpus: Annotated[list[Path], typer.Argument(help=".jsonl, .txt, .md, .parquet files, or folders of them.")],
    store: StoreOption,
    extractor: Annotated[str, typer.Option(help="auto, llm, spacy or records.")] = "auto",
    records: Annotated[Path | None, typer.Option(help="Extraction records (.jsonl) for --extractor records.")] = None,
    llm: Annotated[str | None, typer.Option("--llm", help="Model for --extractor llm, Hub id or path.")] = None,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    options: SetOption = None,
) -> None:
    """Reads documents, extracts entities and hyperedges, and writes a store."""
    from hyce_gpu.index_job import run_index

    report = run_index(corpus, store, extractor, records, llm, encoder, device, _parse_options(options))
    typer.echo(json.dumps({"store": str(store), **report.counts, "seconds": report.seconds}))
    if report.ledger:
        _point_to_ledger(len(report.ledger), store / "ledger.jsonl")


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="One question.")],
    store: StoreOption,
    llm: LlmOption = None,
    no_llm: NoLlmOption = False,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    options: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answers one question and lays its evidence open."""
    from hyce_gpu import report
    from hyce_gpu.answers_file import to_line

    if not question.strip():
        raise typer.BadParameter("the question is empty", param_hint="QUESTION")
    with _engine(store, llm, no_llm, encoder, device, options) as engine:
        (answer,) = engine.answer([question]) if engine.generator else engine.retrieve([question])
        if as_json:
            typer.echo(to_line(answer))
        else:
            report.show_answer(answer, engine.titles(answer.paths), report.console())
    if answer.status == "failed":
        raise typer.Exit(DONE_WITH_FAILURES)


@app.command()
def answer(
    questions: Annotated[Path, typer.Argument(help="Questions: .jsonl, or .txt with one a line.")],
    store: StoreOption,
    out: Annotated[Path, typer.Option(help="Answers, one JSON line a question, in the questions' order.")],
    llm: LlmOption = None,
    no_llm: NoLlmOption = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Questions at once; the answers do not depend on it.")] = 256,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    options: SetOption = None,
) -> None:
    """Answers a file of questions in batches."""
    from hyce_gpu.answer_job import run_answer
    from hyce_gpu.ledger import ledger_path

    with _engine(store, llm, no_llm, encoder, device, options) as engine:
        counts, ledger = run_answer(engine, questions, out, batch_size)
    typer.echo(json.dumps({"out": str(out), **counts}))
    if ledger:
        _point_to_ledger(len(ledger), ledger_path(out))


@app.command()
def inspect(store: StoreOption, as_json: JsonOption = False) -> None:
    """Says what a store holds and what it was built with."""
    from hyce_gpu import report
    from hyce_gpu.store import Store

    manifest = Store.open(store).manifest
    if as_json:
        typer.echo(json.dumps(manifest, indent=2))
    else:
        report.show_store(str(store), manifest, report.console())


@app.command()
def doctor(as_json: JsonOption = False) -> None:
    """Says which device and backends would be used and why, and what is missing."""
    from hyce_gpu.doctor import examine

    checks = examine()
    if as_json:
        typer.echo(json.dumps([vars(check) for check in checks], indent=2))
        return
    for check in checks:
        typer.echo(f"{check.state:<8}{check.name:<22}{check.detail}")
        if check.fix:
            typer.echo(f"{'':<8}{'':<22}→ {check.fix}")


@app.command("eval")
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
    options: SetOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap.")] = 0,
) -> None:
    """Measures retrieval and answers of several methods on a data set."""
    from hyce_gpu import report
    from hyce_gpu.evaluation.eval_job import EvalOptions, run_eval
    from hyce_gpu.evaluation.table import show_summary

    asked = EvalOptions(
        data, out, methods, llm, judge, limit, store, batch_size, _parse_options(options), device, encoder, seed
    )
    summary, ledger = run_eval(asked)
    show_summary(summary, report.console())
    if ledger:
        _point_to_ledger(len(ledger), out / "ledger.jsonl")


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
        _point_to_ledger(len(ledger), ledger_path(out))


@app.command()
def demo(
    llm: LlmOption = None,
    no_llm: NoLlmOption = False,
    out: Annotated[Path, typer.Option(help="Directory for the store and the answers.")] = Path("hyce-demo"),
    device: DeviceOption = "auto",
) -> None:
    """Indexes a small bundled corpus, answers its questions, and shows the evidence."""
    from hyce_gpu.demo import run_demo

    _refuse_both(llm, no_llm)
    if run_demo(llm, no_llm, out, device):
        raise typer.Exit(DONE_WITH_FAILURES)


def _engine(
    store: Path, llm: str | None, no_llm: bool, encoder: str | None, device: str, options: list[str] | None
) -> Engine:
    from hyce_gpu.config import Config
    from hyce_gpu.engine import Engine
    from hyce_gpu.progress import say

    _refuse_both(llm, no_llm)
    if llm is None and not no_llm:
        say("no --llm given: evidence only")
    given = _parse_options(options)
    config: Config = Config.paper(**given) if given.get("method") == "paper" else Config.from_mapping(given)
    return Engine.open(store, encoder=encoder, llm=llm, config=config, device=device)


def _refuse_both(llm: str | None, no_llm: bool) -> None:
    if llm is not None and no_llm:
        raise typer.BadParameter("--llm and --no-llm exclude each other", param_hint="--llm")


def _parse_options(options: list[str] | None) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals:
            raise ConfigError(f"--set takes NAME=VALUE, found {option!r}")
        try:
            parsed[name.strip().replace("-", "_")] = json.loads(value)
        except ValueError:
            # A word, such as the name of a method; the options say whether they take one.
            parsed[name.strip().replace("-", "_")] = value
    return parsed


def _point_to_ledger(count: int, path: Path) -> None:
    typer.echo(f"{count:,} set aside, with reasons, in {path}", err=True)
    raise typer.Exit(DONE_WITH_FAILURES)


def _prepare_process() -> None:
    """Settings that must stand before torch is imported; what the user has set stays."""
    # Threads that spin while they wait make a busy machine several times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Torch's C++ side warns of the thread binding that vLLM asks for; that is nothing to a reader of results.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def main() -> None:
    """Entry point: one line on stderr and an exit code for every error that is ours."""
    from hyce_serving.errors import ServingError

    _prepare_process()
    try:
        app()
    except (HyceError, ServingError) as error:
        print(f"hyce: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("hyce: interrupted", file=sys.stderr)
        sys.exit(130)
