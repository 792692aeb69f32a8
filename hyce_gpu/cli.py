"""The command line: arguments in, results on standard output, everything else on standard error.

Exit codes: 0 done; 1 nothing could be done, one line says why; 2 usage; 3 done, with failures in a ledger.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyce_gpu.cli_entities import entities
from hyce_gpu.cli_options import (
    DONE_WITH_FAILURES,
    CacheOption,
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
    refuse_without_llm,
    tell_index,
)
from hyce_gpu.cli_store import store_commands
from hyce_gpu.cli_tools import tools
from hyce_gpu.errors import HyceError

if TYPE_CHECKING:
    from hyce_gpu.config import Config
    from hyce_gpu.engine import Engine
    from hyce_gpu.ledger import Ledger

app = typer.Typer(
    help="Hypergraph chain-of-evidence retrieval: a corpus becomes a store, questions become answers with evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.add_typer(store_commands)
app.add_typer(tools)
app.add_typer(entities, name="entities", help="Which names are one entity: proposals, decisions, and their undoing.")


@app.command()
def index(
    corpus: Annotated[list[Path], typer.Argument(help=".jsonl, .txt, .md, .parquet files, or folders of them.")],
    store: StoreOption,
    extractor: Annotated[str, typer.Option(help="auto, llm, spacy or records.")] = "auto",
    records: Annotated[Path | None, typer.Option(help="Extraction records (.jsonl) for --extractor records.")] = None,
    llm: Annotated[str | None, typer.Option("--llm", help="Model for --extractor llm, Hub id or path.")] = None,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    cache: CacheOption = None,
    llm_options: LlmSetOption = None,
    options: SetOption = None,
) -> None:
    """Reads documents, extracts entities and hyperedges, and writes a store."""
    from hyce_gpu.index_job import run_index

    given, engine_options = parse_options(options), parse_options(llm_options, "--llm-set")
    report = run_index(corpus, store, extractor, records, llm, encoder, device, given, cache, engine_options)
    tell_index(report, store)


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="One question.")],
    store: StoreOption,
    llm: LlmOption = None,
    no_llm: NoLlmOption = False,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    llm_options: LlmSetOption = None,
    options: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answers one question and lays its evidence open."""
    from hyce_gpu import report
    from hyce_gpu.answers_file import to_line

    if not question.strip():
        raise typer.BadParameter("the question is empty", param_hint="QUESTION")
    with _engine(store, llm, no_llm, encoder, device, options, llm_options) as engine:
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
    llm_options: LlmSetOption = None,
    options: SetOption = None,
) -> None:
    """Answers a file of questions in batches."""
    from hyce_gpu.answer_job import run_answer

    with _engine(store, llm, no_llm, encoder, device, options, llm_options) as engine:
        counts, ledger = run_answer(engine, questions, out, batch_size)
    _tell_answers(counts, ledger, out)


@app.command()
def retry(
    store: StoreOption,
    answers: Annotated[
        Path | None, typer.Option(help="Ask the failed questions of this answers file again, not the store's chunks.")
    ] = None,
    llm: Annotated[
        str | None, typer.Option("--llm", help="Model; for chunks by default the one that the store was built with.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Questions at once.")] = 256,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    cache: CacheOption = None,
    llm_options: LlmSetOption = None,
    options: SetOption = None,
) -> None:
    """Does what failed once more: chunks of a store, or questions of an answers file."""
    from hyce_gpu import retry_job

    if answers is not None:
        with _engine(store, llm, llm is None, encoder, device, options, llm_options) as engine:
            counts, ledger = retry_job.retry_answers(engine, answers, batch_size)
        _tell_answers(counts, ledger, answers)
        return
    engine_options = parse_options(llm_options, "--llm-set")
    report = retry_job.retry_index(store, llm, encoder, device, cache, engine_options)
    tell_index(report, store)


def _engine(
    store: Path,
    llm: str | None,
    no_llm: bool,
    encoder: str | None,
    device: str,
    options: list[str] | None,
    llm_options: list[str] | None,
) -> Engine:
    from hyce_gpu.config import Config
    from hyce_gpu.engine import Engine
    from hyce_gpu.progress import say

    refuse_both(llm, no_llm)
    if llm is None and not no_llm:
        say("no --llm given: evidence only")
    refuse_without_llm(llm, llm_options)
    given = parse_options(options)
    config: Config = Config.paper(**given) if given.get("method") == "paper" else Config.from_mapping(given)
    engine_options = parse_options(llm_options, "--llm-set")
    return Engine.open(store, encoder=encoder, llm=llm, llm_options=engine_options, config=config, device=device)


def _tell_answers(counts: dict[str, int], ledger: Ledger, out: Path) -> None:
    from hyce_gpu.ledger import ledger_path

    typer.echo(json.dumps({"out": str(out), **counts}))
    if ledger:
        point_to_ledger(len(ledger), ledger_path(out))


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
