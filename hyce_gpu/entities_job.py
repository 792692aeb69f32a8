"""What people decide about entities comes into a store and goes: apply, undo, list.

A decision makes the store anew from what it holds itself: nothing is extracted, and only changed texts are embedded.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hyce_serving.encoder import Encoder

from hyce_gpu import encoders
from hyce_gpu.accounts import Accounts
from hyce_gpu.decisions import APART, SAME, Decision, Verdicts, decision
from hyce_gpu.devices import choose_device
from hyce_gpu.errors import InputError
from hyce_gpu.indexing import Extraction, IndexReport, KnownVectors, build, ledger_before
from hyce_gpu.json_files import JsonItem, read_json_items
from hyce_gpu.names import canonical_name
from hyce_gpu.store import Store
from hyce_gpu.store_decisions import decisions_in, merges_in
from hyce_gpu.store_files import StoreWriter, writing
from hyce_gpu.text_files import parse_object


@dataclass(frozen=True)
class Pair:
    """Two names as somebody wrote them, and what is said of them."""

    # "pairs.jsonl:3", or "" for names on the command line.
    where: str
    first: str
    second: str
    verdict: str = SAME


@dataclass(frozen=True)
class Change:
    # Decisions that are new, and those that are no more.
    decided: int
    undone: int
    # By how many entities the store has fewer now; below 0 where it has more.
    joined: int
    # None where nothing was to be done.
    report: IndexReport | None


def read_pairs(path: Path) -> list[Pair]:
    """The pairs in JSON lines, `{"first", "second", "verdict"?}`; `-` is standard input.

    Raises:
        InputError: a line that holds no pair; names file and line.
    """
    items = _standard_input() if str(path) == "-" else read_json_items(path)
    return [_pair(item) for item in items]


def apply(root: Path, pairs: Sequence[Pair], encoder: str | None = None, device: str = "auto") -> Change:
    """Takes over decisions; the store becomes what an index with them would be.

    Args:
        encoder: where the store's own is not to be found under its name.

    Raises:
        InputError: a name that the store does not have, or decisions that contradict each other or those it has.
        OutputError, StoreError: as `index_corpus`.
    """

    def decide(store: Store, old: set[Decision]) -> set[Decision]:
        known, new = _Names(store), set(old)
        for pair in pairs:
            with _located(pair):
                new.add(known.decision(pair))
        Verdicts(new)
        return new

    return _change(root, decide, encoder, device)


def undo(root: Path, pairs: Sequence[Pair], encoder: str | None = None, device: str = "auto") -> Change:
    """Takes decisions out; two names that an alias made one, which no decision did, are decided to be apart.

    Raises:
        InputError: a pair that is neither; OutputError, StoreError: as `index_corpus`.
    """

    def take_out(store: Store, old: set[Decision]) -> set[Decision]:
        left, aliases = set(old), {frozenset((one.first, one.second)) for one in merges_in(store) if one.alias}
        for pair in pairs:
            with _located(pair):
                left = _without(pair, old, left, aliases)
        Verdicts(left)
        return left

    return _change(root, take_out, encoder, device)


def listed(root: Path) -> Iterator[dict[str, str]]:
    """The decisions of a store, then what aliases joined: `first`, `second`, `verdict` and what `made` it.

    Raises:
        StoreError: no store.
    """
    store = Store.open(root)
    for one in decisions_in(store):
        yield {**vars(one), "made": "decision"}
    for merge in (one for one in merges_in(store) if one.alias):
        yield {"first": merge.first, "second": merge.second, "verdict": SAME, "made": f"alias {merge.alias!r}"}


class _Names:
    """The names that a store's records have, and the aliases that no record has as a name of its own."""

    def __init__(self, store: Store) -> None:
        canonical, aliases = store.names_and_aliases()
        self._own = {*canonical, *(name for one in merges_in(store) for name in (one.first, one.second))}
        self._own |= {name for one in decisions_in(store) for name in (one.first, one.second)}
        self._alias_of = {
            canonical_name(alias): name for name, of in zip(canonical, aliases, strict=True) for alias in of
        }

    def decision(self, pair: Pair) -> Decision:
        for name in (pair.first, pair.second):
            self._require(name)
        return decision(pair.first, pair.second, pair.verdict)

    def _require(self, name: str) -> None:
        key = canonical_name(name)
        if key in self._own:
            return
        if key in self._alias_of:
            raise InputError(f"{name!r} is an alias of {self._alias_of[key]!r}: give that name")
        near = difflib.get_close_matches(key, sorted(self._own), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "the store has no name like it"
        raise InputError(f"unknown entity {name!r}; {hint}")


def _without(pair: Pair, old: set[Decision], left: set[Decision], aliases: Iterable[frozenset[str]]) -> set[Decision]:
    asked = decision(pair.first, pair.second)
    decided = {one for one in old if (one.first, one.second) == (asked.first, asked.second)}
    if decided:
        return left - decided
    if frozenset((asked.first, asked.second)) in aliases:
        return left | {Decision(asked.first, asked.second, APART)}
    raise InputError(
        f"no decision is about {pair.first!r} and {pair.second!r}, and no alias joined the two; see hyce entities list"
    )


def _change(
    root: Path, change: Callable[[Store, set[Decision]], set[Decision]], encoder: str | None, device: str
) -> Change:
    with writing(root) as writer:
        store = Store.open(root)
        old = set(decisions_in(store))
        new = change(store, old)
        if new == old:
            return Change(0, 0, 0, None)
        report = _build(writer, store, new, encoder, device)
        joined = store.counts["entities"] - report.counts["entities"]
        return Change(len(new - old), len(old - new), joined, report)


def _build(
    writer: StoreWriter, store: Store, decisions: Iterable[Decision], encoder: str | None, device: str
) -> IndexReport:
    vectors = Encoder(encoder or store.manifest["encoder"]["name"], device=choose_device(device))
    encoders.require_same(vectors, store.manifest["encoder"], str(store.root))
    extraction = replace(Extraction.of(store), decisions=sorted(decisions))
    config, known = store.manifest["config"], KnownVectors.of(store)
    return build(writer, extraction, vectors, config, Accounts(), ledger_before(store.root), known)


def _standard_input() -> Iterator[JsonItem]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        where = f"standard input:{number}"
        try:
            text = line.decode("utf-8")
            if text.strip():
                yield JsonItem(where, parse_object(text))
        except (UnicodeDecodeError, InputError) as error:
            yield JsonItem(where, None, str(error))


def _pair(item: JsonItem) -> Pair:
    if item.error:
        raise InputError(f"{item.where}: {item.error}")
    row = item.value if isinstance(item.value, dict) else {}
    pair = Pair(item.where, row.get("first"), row.get("second"), row.get("verdict", SAME))  # type: ignore[arg-type]
    if not all(isinstance(value, str) for value in vars(pair).values()):
        raise InputError(f'{item.where}: expected {{"first": NAME, "second": NAME, "verdict"?: "same" or "apart"}}')
    return pair


@contextmanager
def _located(pair: Pair) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"{pair.where}: {error}" if pair.where else str(error)) from error
