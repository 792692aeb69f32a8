"""The commands that change a store that is there: documents in and out, another encoder, several stores as one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyce_gpu.cli_options import DeviceOption, EncoderOption, LlmSetOption, StoreOption, parse_options, tell_index

if TYPE_CHECKING:
    from hyce_gpu.update_job import Models

store_commands = typer.Typer()

ModelOption = Annotated[
    str | None, typer.Option("--llm", help="Model that extracts; by default the one that the store was built with.")
]


@store_commands.command()
def add(
    corpus: Annotated[list[Path], typer.Argument(help="What hyce index takes: files, or folders of them.")],
    store: StoreOption,
    llm: ModelOption = None,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    llm_options: LlmSetOption = None,
) -> None:
    """Adds documents; nothing is extracted or embedded again."""
    from hyce_gpu import update_job

    tell_index(update_job.add(store, corpus, _models(llm, encoder, device, llm_options)), store)


@store_commands.command()
def remove(
    documents: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of documents.")],
    store: StoreOption,
    llm: ModelOption = None,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    llm_options: LlmSetOption = None,
) -> None:
    """Takes documents out. Their text stays in the generation before until hyce compact."""
    from hyce_gpu import update_job

    tell_index(update_job.remove(store, documents, _models(llm, encoder, device, llm_options)), store)


@store_commands.command()
def update(
    corpus: Annotated[list[Path], typer.Argument(help="What hyce index takes: files, or folders of them.")],
    store: StoreOption,
    sync: Annotated[bool, typer.Option("--sync", help="This is the whole corpus: what is not in it goes.")] = False,
    llm: ModelOption = None,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    llm_options: LlmSetOption = None,
) -> None:
    """Brings in what is new or changed, found by content."""
    from hyce_gpu import update_job

    tell_index(update_job.update(store, corpus, _models(llm, encoder, device, llm_options), sync), store)


@store_commands.command()
def reembed(
    store: StoreOption,
    encoder: Annotated[str, typer.Option(help="sentence-transformers model, Hub id or path.")],
    device: DeviceOption = "auto",
) -> None:
    """Replaces all vectors by those of another encoder."""
    from hyce_gpu import update_job

    tell_index(update_job.reembed(store, encoder, device), store)


@store_commands.command()
def merge(
    stores: Annotated[list[Path], typer.Argument(help="Directories of stores.")],
    store: Annotated[Path, typer.Option(help="Directory of the new store.")],
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Makes one store of several."""
    from hyce_gpu.merge_job import merge_stores

    tell_index(merge_stores(stores, store, encoder, device), store)


@store_commands.command()
def compact(store: StoreOption) -> None:
    """Deletes what only older generations and the cache of extractions hold: removed text is then in no file."""
    from hyce_gpu.update_job import compact as run_compact

    typer.echo(json.dumps({"store": str(store), "freed_bytes": run_compact(store)}))


def _models(llm: str | None, encoder: str | None, device: str, llm_options: list[str] | None) -> Models:
    from hyce_gpu.update_job import Models

    return Models(llm, encoder, device, parse_options(llm_options, "--llm-set"))
