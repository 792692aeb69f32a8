"""Linking of questions to entry entities."""

from __future__ import annotations

import time

import pytest

from hyce_gpu.entry import NameLinker

NAMES = [
    "barack obama",
    "obama",
    "c++",
    "c",
    "富士山",
    "周杰伦",
    "it",
    "दिल्ली",
    "new york",
    "new york city",
    "münchen",
    "서울",
]
ALIASES = [
    ["President Obama"],
    [],
    [],
    [],
    ["Mount Fuji"],
    ["Jay Chou"],
    [],
    ["Delhi"],
    ["NYC"],
    ["NYC"],
    ["Munich"],
    [],
]
LINKER = NameLinker(NAMES, ALIASES)


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("Where was Barack Obama born?", ["Barack Obama"]),
        ("Was OBAMA's house in New York City?", ["OBAMA", "New York City"]),
        ("Who made C++, and who made C?", ["C++", "C"]),
        ("富士山はどこにありますか", ["富士山"]),
        ("周杰伦出生在哪里？", ["周杰伦"]),
        ("Which river flows through दिल्ली?", ["दिल्ली"]),
        ("서울에서 무엇을 하나요?", ["서울"]),
        ("Who wrote it?", []),
        ("Who wrote the novel It?", ["It"]),
        ("What is in Newer Yorkshire?", []),
        ("Was Mount Fuji seen by Jay Chou in Munich?", ["Mount Fuji", "Jay Chou", "Munich"]),
        ("", []),
    ],
)
def test_longest_match(question: str, found: list[str]) -> None:
    assert LINKER.mentions(question) == found


def test_exact_names_come_before_aliases_and_an_alias_may_mean_several() -> None:
    assert LINKER.link(["NYC", "Obama", "nothing", "obama"]) == [1, 8, 9]


def test_a_combining_mark_does_not_end_a_name() -> None:
    assert NameLinker(["दिल"], [[]]).mentions("दिल्ली") == []


def test_a_very_long_question_is_linked_in_seconds() -> None:
    start = time.monotonic()
    assert LINKER.mentions("word " * 20_000 + "Obama") == ["Obama"]
    assert time.monotonic() - start < 20
