"""Answers, stores and checks for a person to read, on standard output. Knows layout only."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from hyce_gpu.file_pieces import base_name
from hyce_gpu.schema import Answer, EvidenceChain, EvidencePath

if TYPE_CHECKING:
    from hyce_gpu.suggest_job import Suggestion

_PLAIN_WIDTH = 120
# Characters of each segment in a chain; the whole of it stands among the evidence.
_CHAIN_SEGMENT = 60
# Characters of the segment that shows an entity.
_EXAMPLE = 110
_STYLE = {"supporting": "green", "divergent": "yellow", "text": "cyan"}


def console() -> Console:
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    return Console(width=width, highlight=False)


def visible(text: str) -> str:
    """One line without control characters: a document must not steer the terminal."""
    kept = "".join(" " if unicodedata.category(char) in ("Cc", "Cs", "Co") else char for char in text)
    return " ".join(kept.split())


def show_answer(answer: Answer, titles: Mapping[str, str], out: Console) -> None:
    """The answer and its tree of evidence: role, score and terms, entities, relations, and where each path stands."""
    out.print(Text(visible(answer.question), style="bold"))
    if answer.status == "answered":
        cites = f"  (rests on {', '.join(f'[{rank}]' for rank in answer.citations)})" if answer.citations else ""
        out.print(Text.assemble(("answer: ", "bold"), (visible(answer.answer or ""), "bold green"), cites))
    elif answer.status == "retrieved":
        out.print(Text("no model was asked; the evidence:"))
    else:
        out.print(Text(f"failed: {visible(answer.error)}", style="red"))
    if answer.entry:
        out.print(Text("entry entities: " + "; ".join(map(visible, answer.entry))))
    if answer.cut:
        out.print(Text("hyperedges were left out; raise --set entry_fanout=N (linked) or candidate_budget=N (paper)"))
    if answer.left_out:
        out.print(Text(f"{answer.left_out} pieces of evidence did not fit into the model's window"))
    tree = Tree(Text("evidence" if answer.paths else "no evidence was found"))
    for path in answer.paths:
        _add_path(tree, path, titles, path.rank in answer.context)
    out.print(tree)
    if answer.chains:
        chains = Tree(Text("chains"))
        for chain in answer.chains:
            chains.add(_chain(chain))
        out.print(chains)


def _chain(chain: EvidenceChain) -> Text:
    """entity → [rank] → bridge entity → [rank], with the score of the chain."""
    drawn = Text(f"{chain.score:.3f}  ", style="dim")
    for step in chain.steps:
        drawn.append(f"{visible(step.through)} → " if step.through else "", style="bold")
        drawn.append(f"[{step.path}] {visible(step.segment)[:_CHAIN_SEGMENT]}", style="not dim")
        drawn.append(" → " if step is not chain.steps[-1] else "")
    return drawn


def _add_path(tree: Tree, path: EvidencePath, titles: Mapping[str, str], shown: bool) -> None:
    terms = ", ".join(f"{name} {value:.3f}" for name, value in path.terms.items() if value)
    head = Text.assemble(
        f"[{path.rank}] ", (path.role, _STYLE[path.role]), f" {path.score:.3f}", (f" = {terms}", "dim"),
        ("  in the context" if shown else "", "dim"),
    )  # fmt: skip
    branch = tree.add(head)
    branch.add(Text(visible(path.segment)))
    if path.entities:
        branch.add(Text("entities: " + "; ".join(map(visible, path.entities)), style="dim"))
    for relation in path.relations:
        triple = " → ".join(map(visible, (relation.head, relation.predicate, relation.tail)))
        branch.add(Text(f"relation: {triple} ({relation.confidence:.2f})", style="dim"))
    for source in path.sources:
        title = titles.get(source.doc_id, "")
        place = f"source: {visible(source.doc_id)} [{source.start}:{source.end}] {visible(title)}"
        branch.add(Text(f"{place}  (γ {path.extraction_confidence:.2f})", style="dim"))


def show_store(store: str, manifest: Mapping[str, Any], out: Console) -> None:
    """What a store holds and what it was built with."""
    out.print(Text(f"store {store}, format {manifest['format']}", style="bold"))
    for name, number in manifest["counts"].items():
        out.print(Text(f"  {name.replace('_', ' '):<24}{number:>14,}"))
    encoder = manifest["encoder"]
    out.print(Text(f"  encoder    {visible(str(encoder['name']))}, {encoder['dimension']} numbers"))
    extractor = ", ".join(f"{name} {value}" for name, value in manifest["extractor"].items())
    out.print(Text(f"  extractor  {visible(extractor)}"))
    for name, index in manifest.get("indexes", {}).items():
        recall = index.get("recall")
        told = f", finds {recall['of_flat']:.3f} of the {recall['k']} nearest" if recall else ", looks at every row"
        out.print(Text(f"  index of {name}: {index['kind']}{told}"))
    total = sum(entry["bytes"] for entry in manifest["files"].values())
    out.print(Text(f"  files      {total:,} bytes"))
    # A file with its pieces is one part.
    parts: dict[str, list[int]] = {}
    for name, entry in manifest["files"].items():
        parts.setdefault(base_name(name), []).append(entry["bytes"])
    for name, sizes in sorted(parts.items(), key=lambda item: -sum(item[1])):
        pieces = f"  in {len(sizes)} files" if len(sizes) > 1 else ""
        out.print(Text(f"    {name:<24}{sum(sizes):>14,}{pieces}", style="dim"))
    # Stores of earlier versions kept no accounts.
    if "accounts" in manifest:
        show_accounts(manifest["accounts"], out)


def show_suggestions(suggestions: Iterable[Suggestion], out: Console) -> None:
    """Pairs of entities that may be one: the score, what speaks for it, and a segment with each."""
    for one in suggestions:
        pair = zip((one.first, one.second), one.types, strict=True)
        names = [f"{visible(name)} [{visible(kind)}]" if kind else visible(name) for name, kind in pair]
        out.print(Text.assemble(f"{one.score:.3f}  ", (" | ".join(names), "bold")))
        out.print(Text(f"       {_evidence(one)}", style="dim"))
        for segment in one.examples:
            out.print(Text(f"       {visible(segment)[:_EXAMPLE]}", style="dim"))


def _evidence(one: Suggestion) -> str:
    found, names = one.evidence, one.evidence.names
    told = [f"letters {names.letters:.2f}, words {names.words:.2f}", "initials" if names.initials else ""]
    told += [f"cosine {found.cosine:.2f}", f"{found.shared_neighbours} shared neighbours ({found.jaccard:.2f})"]
    told += [f"both in {found.together} hyperedges" if found.together else ""]
    told += [f"aliases: {', '.join(map(visible, found.aliases))}" if found.aliases else ""]
    return ", ".join(part for part in told if part)


def show_accounts(accounts: Mapping[str, Any], out: Console) -> None:
    """What a run cost, a line for each stage: seconds, then whatever it counted."""
    out.print(Text("  accounts of the last run"))
    for name, stage in accounts["stages"].items():
        counted = ", ".join(f"{number:,} {key.replace('_', ' ')}" for key, number in stage.items() if key != "seconds")
        out.print(Text(f"    {name:<10}{stage['seconds']:>12,.2f} s  {counted}", style="dim"))
    for where, peak in accounts["peak_memory"].items():
        out.print(Text(f"    peak memory, {where}: {peak / 2**30:.2f} GiB", style="dim"))
