"""What people decided about names: two are one entity, or never are. Pure: no records, no files.

"Same" decisions make an equivalence of names, whether or not a corpus has them all: what was joined through a name
stays joined where the documents with that name go. "Apart" decisions hold between whole classes of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hyce_gpu.errors import InputError, unknown
from hyce_gpu.names import canonical_name

SAME, APART = "same", "apart"
VERDICTS = (SAME, APART)


@dataclass(frozen=True, order=True)
class Decision:
    """About two canonical names, `first` < `second`. Made by `decision`."""

    first: str
    second: str
    verdict: str


def decision(one: str, other: str, verdict: str = SAME) -> Decision:
    """The decision about two names in any spelling.

    Raises:
        InputError: a blank name, one name twice, or another verdict than "same" and "apart".
    """
    if verdict not in VERDICTS:
        raise InputError(unknown("verdict", verdict, VERDICTS))
    first, second = sorted((canonical_name(one), canonical_name(other)))
    if not first:
        raise InputError(f"expected two names, found {one!r} and {other!r}")
    if first == second:
        raise InputError(f"{one!r} and {other!r} are one name already")
    return Decision(first, second, verdict)


class Verdicts:
    """The decisions as classes of names that are one, and pairs of classes that are apart."""

    def __init__(self, decisions: Iterable[Decision]) -> None:
        """Raises:
        InputError: they contradict each other; names the pairs.
        """
        ordered = sorted(set(decisions))
        self._same = _neighbours(one for one in ordered if one.verdict == SAME)
        self._class = _classes(self._same)
        self._apart: dict[str, set[str]] = {}
        for one in (one for one in ordered if one.verdict == APART):
            first, second = self.class_of(one.first), self.class_of(one.second)
            if first == second:
                raise InputError(_contradiction(one, self._same))
            self._apart.setdefault(first, set()).add(second)
            self._apart.setdefault(second, set()).add(first)

    def class_of(self, name: str) -> str:
        """The name that stands for all that are the same as the canonical `name`."""
        return self._class.get(name, name)

    def same_as(self, name: str) -> set[str]:
        """All names that are the same as the canonical `name`, itself too."""
        found, waiting = {name}, [name]
        while waiting:
            new = set(self._same.get(waiting.pop(), ())) - found
            found |= new
            waiting += new
        return found

    def are_apart(self, left: Sequence[str], right: Sequence[str]) -> bool:
        """Whether any canonical name of `left` is apart from any of `right`."""
        if not self._apart:
            return False
        classes = {self.class_of(name) for name in right}
        return any(not classes.isdisjoint(self._apart.get(self.class_of(name), ())) for name in left)


def _neighbours(decisions: Iterable[Decision]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in decisions:
        found.setdefault(one.first, []).append(one.second)
        found.setdefault(one.second, []).append(one.first)
    return found


def _classes(same: dict[str, list[str]]) -> dict[str, str]:
    """The first in order of each class, by name."""
    found: dict[str, str] = {}
    for start in sorted(same):
        waiting = [] if start in found else [start]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = start
                waiting += same[name]
    return found


def _contradiction(apart: Decision, same: dict[str, list[str]]) -> str:
    came_from = {apart.first: ""}
    waiting = deque([apart.first])
    while apart.second not in came_from:
        name = waiting.popleft()
        for other in same[name]:
            if other not in came_from:
                came_from[other] = name
                waiting.append(other)
    path = [apart.second]
    while came_from[path[-1]]:
        path.append(came_from[path[-1]])
    joined = " = ".join(map(repr, reversed(path)))
    return (
        f"decisions contradict each other: {apart.first!r} and {apart.second!r} are apart, and the same as {joined}; "
        f"take one out with 'hyce entities undo'"
    )
