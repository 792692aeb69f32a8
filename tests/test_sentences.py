"""Sentence spans: enders of many scripts, abbreviations, lines, and the cover property."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyce_gpu.sentences import sentence_spans


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


ALPHABET = "aB1 .!?…\n\t\r\"'”“)(」「。？।؟۔*_#-|>:,\u0301\u200d\u2028กิ漢がनि😀👨🏽\x00\ufeff"


@given(st.text() | st.text(alphabet=ALPHABET, max_size=80))
def test_spans_are_ordered_trimmed_and_hold_everything_but_white_space(text: str) -> None:
    position = 0
    for start, end in sentence_spans(text):
        assert position <= start < end
        assert not text[position:start].strip()
        assert text[start:end] == text[start:end].strip()
        position = end
    assert not text[position:].strip()


@pytest.mark.parametrize("text", ["", " ", "\n\n \t\u3000\u2028"])
def test_blank_texts_have_no_sentence(text: str) -> None:
    assert sentence_spans(text) == []


def test_offsets_count_code_points() -> None:
    assert sentence_spans(" 😀 ok. Ça va ?\n") == [(1, 6), (7, 14)]


@pytest.mark.parametrize(
    "parts",
    [
        ["It rains.", "It pours!", "Does it end?", "Perhaps…", "Who knows..."],
        ["She left (at noon.)", "He said “go.”", "Then 'stop!'", "**Bold.**", "Done."],
        ["Er sagte „Halt.“", "Dann ging er."],
        ["Really?!", "Yes."],
        ["First claim.[1]", "Second claim.[2][3]", "Third."],
    ],
)
def test_latin_enders_end_before_white_space(parts: list[str]) -> None:
    assert sentences(" ".join(parts)) == parts


@pytest.mark.parametrize(
    "parts",
    [
        ["今天下雨。", "明天呢？", "太好了！", "好吧"],
        ["他说：“好。”", "然后走了。"],
        ["**粗体。**", "普通。", "**又粗**吗？"],
        ["雨です。", "「そうですか？」", "次です。"],
        ["ｶﾞ｡", "ｱ"],
        ["यह पहला है।", "यह दूसरा है॥", "तीसरा"],
        ["মাটি।", "জল।"],
    ],
)
def test_enders_of_scripts_without_spaces_need_none(parts: list[str]) -> None:
    assert sentences("".join(parts)) == parts


@pytest.mark.parametrize(
    "parts",
    [
        ["هل هذا صحيح؟", "نعم."],
        ["یہ پہلا ہے۔", "یہ دوسرا ہے۔"],
        ["Սա մեկն է։", "Սա երկուսն է։"],
        ["ይህ አንድ ነው።", "ይህ ሁለት ነው።"],
        ["ဒါက တစ်။", "ဒါက နှစ်။"],
        ["នេះជាមួយ។", "នេះជាពីរ។"],
        ["Это первое.", "Это второе!"],
        ["이것은 하나다.", "이것은 둘이다."],
    ],
)
def test_enders_of_other_scripts(parts: list[str]) -> None:
    assert sentences(" ".join(parts)) == parts


@pytest.mark.parametrize(
    "sentence",
    [
        "Pi is about 3.14 and example.com holds v1.2.3 of it.",
        "Dr. Smith met Mrs. Jones and Prof. Lee.",
        "J. S. Bach and A. С. Пушкин never met.",
        "The U.S. Army came, e.g. by sea, i.e. slowly.",
        "It was No. 5 on p. 12 of vol. 3, on Jan. 7.",
        "They met in St. Louis at Apple Inc. Headquarters.",
        "“Why?” he asked.",
        "Wait… what came then?",
        "Das geschah am 3. Oktober im 19. Jahrhundert, z. B. dort.",
        "Er kam bzw. ging.",
        "彼は「はい。」と言った。",
        "1. First of all.",
        "... and so on.",
        "१२۔۳ is a number.",
    ],
)
def test_points_inside_a_sentence(sentence: str) -> None:
    assert sentences(sentence + " Next one.") == [sentence, "Next one."]


def test_abbreviations_end_a_sentence_before_a_frequent_first_word() -> None:
    parts = [
        "He moved to the U.S.",
        "The firm is Apple Inc.",
        "She lives on Main St.",
        "It has vitamin C.",
        "They like it.",
    ]
    assert sentences(" ".join(parts)) == parts


def test_lower_case_throughout_is_still_cut() -> None:
    assert sentences("i came. i saw. ok") == ["i came.", "i saw.", "ok"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_wrapped_lines_stay_together(newline: str) -> None:
    text = newline.join(
        ["Lines that somebody wrapped by hand at", "forty columns belong to one sentence.", "Here is two."]
    )
    assert sentences(text) == [newline.join(text.split(newline)[:2]), "Here is two."]


def test_a_blank_line_ends_a_sentence() -> None:
    assert sentences("A title\n \nand text") == ["A title", "and text"]


def test_markdown_lines_stand_apart() -> None:
    parts = [
        "# A heading",
        "text below\nit",
        "- one\n  more",
        "* two",
        "1. three",
        "2) four",
        "| a | b |",
        "|---|---|",
        "<p>",
    ]
    assert sentences("\n".join([*parts, "end"])) == [*parts, "end"]


def test_quoted_lines_stay_together() -> None:
    assert sentences("so:\n> wise\n> words") == ["so:", "> wise\n> words"]


def test_front_matter_is_cut_by_line_and_only_there() -> None:
    assert sentences("---\ntitle: A\nlang: en\n---\none\ntwo") == ["---", "title: A", "lang: en", "---", "one\ntwo"]
    assert sentences("a: b\nc: d") == ["a: b\nc: d"]


def test_a_short_line_above_a_long_one_is_a_heading() -> None:
    body = "Everyone has the right to rest in the shade of a large tree."
    assert sentences(f"Rule 9\n{body}") == ["Rule 9", body]


def test_lines_that_nobody_wrapped_are_paragraphs() -> None:
    long = "word " * 40 + "end"
    assert sentences(f"{long}\n{long}") == [long, long]


@pytest.mark.parametrize(
    "text",
    [
        "a" * 2_000_000,
        "ab " * 700_000,
        "." * 2_000_000 + "x",
        ". x" * 600_000,
        "\n" * 1_000_000,
        '"' * 2_000_000,
        "Dr. " * 300_000,
    ],
    ids=["letters", "words", "points", "spaced points", "lines", "quotes", "abbreviations"],
)
def test_two_megabytes_take_linear_time(text: str) -> None:
    begun = time.perf_counter()
    spans = sentence_spans(text)
    # Seconds on a slow machine; anything quadratic takes hours.
    assert time.perf_counter() - begun < 20
    assert sum(end - start for start, end in spans) <= len(text)
