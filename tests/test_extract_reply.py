"""Replies as models write them, and the JSON in them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyce_gpu.extract.parse import ParseError, decode_reply


@pytest.mark.parametrize(
    "reply",
    [
        '{"entities": ["A"]}',
        '```json\n{"entities": ["A"]}\n```',
        'Here it is [as asked]: {"entities": ["A"]} Hope it {helps}.',
        '<think>maybe {"entities": ["B", "C", "D", "E"]}</think>\n{"entities": ["A"]}',
        '<think>{"entities": ["B"</think>{"entities": ["A"]}',
        'The draft {"entities": ["B", "C", "D"]} is wrong.</think> {"entities": ["A"]}',
        '{"entities": ["A",],}',
        '[1] {"entities": ["A" , ] }',
    ],
)
def test_finds_the_json_in_a_reply(reply: str) -> None:
    assert decode_reply(reply) == {"entities": ["A"]}


def test_tags_fences_commas_and_tabs_inside_a_value_are_text() -> None:
    value = {"segment": 'a </think> b ```json {"x": [1,]} ``` <think>\t,]', "entities": []}
    assert decode_reply(json.dumps(value)) == value
    assert decode_reply("Here: " + json.dumps(value).replace("\\t", "\t")) == value


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "empty reply"), (" \n", "empty reply"), ("<think>so</think> ", "empty reply"),
        ('{"entities": [{"name": "A"}, {"name": "B', "cut off"), ('{"entities": [{"name": "A"}], ', "cut off"),
        ('{"entities": [{"name": "A"}], "x": tru', "cut off"), ("<think>{1}", "cut off"), ("[" * 50, "cut off"),
        ("There are none.", "not JSON"), ("{none}, I am afraid", "not JSON"), ("[" * 5000 + "]" * 5000, "not JSON"),
        ('{"a": ' + "1" * 5000 + "}", "not JSON"),
    ],
)  # fmt: skip
def test_says_why_a_reply_holds_no_json(reply: str, reason: str) -> None:
    with pytest.raises(ParseError, match=f"^{reason}$"):
        decode_reply(reply)


@given(st.text(alphabet='{}[]",:a1 \\\n'))
def test_a_reply_decodes_or_is_refused(reply: str) -> None:
    try:
        found, reason = decode_reply(reply), ""
    except ParseError as error:
        found, reason = None, str(error)
    assert isinstance(found, (dict, list)) or reason in ("empty reply", "cut off", "not JSON")
