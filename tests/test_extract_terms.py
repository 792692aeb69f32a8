"""Rule-based terms, language guesses and name cleaning, on sentences whose terms were worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyce_gpu.extract import language, mentions
from hyce_gpu.extract.known_titles import KnownTitles
from hyce_gpu.extract.mentions import DocumentNames, Mention
from hyce_gpu.extract.terms import MAX_TERMS_PER_SENTENCE, find_terms, years


def names(text: str, code: str = "") -> list[str]:
    return [mention.name for mention in find_terms(text, code)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The river flows through the city and into the sea.", "en"),
        ("Der Fluss fließt durch die Stadt und mündet in das Meer.", "de"),
        ("Le fleuve traverse la ville et se jette dans la mer.", "fr"),
        ("El río pasa por la ciudad y desemboca en el mar, pero no es muy largo.", "es"),
        ("Река течёт через город, и она впадает в море.", "ru"),
        ("Річка тече через місто, але вона не дуже довга, бо це є притока.", "uk"),
        ("这条河流经城市，然后流入大海。", "zh"),
        ("この川は町を流れて海に注ぐ。", "ja"),
        ("이 강은 도시를 지나 바다로 흐른다.", "ko"),
        ("แม่น้ำไหลผ่านเมืองลงสู่ทะเล", "th"),
        ("הנהר זורם דרך העיר אל הים.", "he"),
        ("यह नदी शहर से होकर बहती है और समुद्र में मिलती है।", "hi"),
        ("يمر النهر عبر المدينة ثم يصب في البحر.", "ar"),
        ("این رودخانه از شهر می‌گذرد و به دریا می‌ریزد.", "fa"),
        ("", ""),
    ],
)
def test_language_is_guessed_from_script_and_stop_words(text: str, code: str) -> None:
    assert language.guess_language(text) == code


def test_scripts_of_letters() -> None:
    assert [language.script_of(char) for char in "aЖ漢あカ한ไ1 ー"] == [
        "LATIN", "CYRILLIC", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI", "", "", "KATAKANA",
    ]  # fmt: skip
    assert language.main_script("Wien и Москва") == "CYRILLIC"
    assert language.main_script("123") == ""


def test_fragments_are_measured_in_words_or_characters() -> None:
    assert language.is_fragment("Early life")
    assert not language.is_fragment("Vienna is old.")
    assert language.is_fragment("参考文献")
    assert not language.is_fragment("北京大学在北京。")


def test_korean_stems_need_two_forms() -> None:
    forms = language.plain_forms(["서울을", "서울의", "민주주의", "민주주의를"], "ko")
    assert forms == {"서울을": "서울", "서울의": "서울", "민주주의": "민주주의", "민주주의를": "민주주의"}


def test_hebrew_prefixes_arabic_conjunctions_and_elided_articles() -> None:
    assert language.plain_forms(["ישראל", "וישראל", "הכנסת"], "he") == {
        "ישראל": "ישראל",
        "וישראל": "ישראל",
        "הכנסת": "הכנסת",
    }
    assert language.plain_forms(["والنيل", "النيل"], "ar") == {"والنيل": "النيل", "النيل": "النيل"}
    assert language.plain_forms(["l'homme", "Eau"], "fr") == {"l'homme": "homme", "Eau": "eau"}


def test_glue_words_are_blanked_in_place() -> None:
    assert language.without_glue("北京的大学", "zh") == "北京 大学"
    assert language.without_glue("北京的大学", "ja") == "北京的大学"
    # การ์ตูน (cartoon) only begins like the glue word การ.
    assert language.without_glue("การศึกษา", "th") == "   ศึกษา"
    assert language.without_glue("การ์ตูน", "th") == "การ์ตูน"


def test_capitalised_runs_inside_a_sentence() -> None:
    text = "Il compositore Giuseppe Verdi nacque a Roncole. Visse a Milano, e Milano lo amava."
    assert names(text, "it") == ["Giuseppe Verdi", "Roncole", "Milano", "Milano"]
    # Joined by particles, not by conjunctions.
    assert names("Estudió en la Universidad de La Habana.", "es") == ["Universidad de La Habana"]
    assert names("Il vit à Paris et Lyon.", "fr") == ["Paris", "Lyon"]


def test_a_sentence_s_own_capital_names_nothing() -> None:
    # "Bratři" never stands capitalised inside a sentence; "Praha" does.
    assert names("Praha leží na řece. Bratři žijí ve městě Praha.", "cs") == ["Praha", "Praha"]


def test_a_single_german_noun_has_to_recur() -> None:
    text = "Heute fuhr Angela Merkel mit dem Zug nach Wien. In Wien stand das Schiff still."
    assert names(text, "de") == ["Angela Merkel", "Wien", "Wien"]
    # In a heading a capital tells nothing.
    assert names("GESCHICHTE DER ALTEN STADT WIEN", "de") == []


def test_cyrillic_and_greek_and_armenian_capitals() -> None:
    assert names("Здесь жил Вольфганг Моцарт.", "ru") == ["Вольфганг Моцарт"]
    assert names("Εδώ έζησε ο Σωκράτης.", "el") == ["Σωκράτης"]
    assert names("Նա ծնվել է Երևան քաղաքում։", "hy") == ["Երևան"]


def test_quoted_titles_of_many_scripts() -> None:
    assert names("鲁迅写了《狂人日记》。", "zh") == ["狂人日记"]
    assert names("漱石は「こころ」を書いた。", "ja") == ["こころ"]
    assert names("Он написал роман «Идиот».", "ru") == ["Идиот"]


def test_katakana_and_latin_runs_in_japanese() -> None:
    assert names("彼はコンピュータとLinux Kernelを学ぶ。", "ja") == ["コンピュータ", "Linux Kernel"]


def test_recurring_han_runs_are_maximal() -> None:
    # 北京大 and 京大学 only occur inside 北京大学; 北京 also stands alone.
    assert names("老师在北京大学。北京大学在北京。", "zh") == ["北京大学", "北京大学", "北京"]


def test_recurring_words_keep_their_combining_marks() -> None:
    assert names("वाराणसी प्राचीन है। वाराणसी सुंदर है।", "hi") == ["वाराणसी", "वाराणसी"]
    assert names("ঢাকার মানুষ। ঢাকার নদী।", "bn") == ["ঢাকার", "ঢাকার"]
    assert names("சென்னை பெரியது. சென்னை அழகானது.", "ta") == ["சென்னை", "சென்னை"]


def test_thai_terms_do_not_cut_a_cluster() -> None:
    found = names("แม่น้ำเจ้าพระยาไหล\n\nชอบแม่น้ำเจ้าพระยา", "th")
    assert found == ["แม่น้ำเจ้าพระยา", "แม่น้ำเจ้าพระยา"]


def test_years_in_any_digits() -> None:
    assert [(one.name, one.spare) for one in years("१९४८ and 1756")] == [("1948", True), ("1756", True)]
    assert [one.name for one in years("12345, 0999, 2500, 1,750.25 and 20%")] == []


def test_at_most_eight_terms_a_sentence() -> None:
    places = ["Rom", "Pisa", "Bari", "Como", "Lodi", "Asti", "Nola", "Fano", "Iesi", "Susa"]
    assert names(f"Ora vide {', '.join(places)}.", "it") == places[:MAX_TERMS_PER_SENTENCE]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.sampled_from(["", "en", "de", "zh", "ja", "th", "ko", "ar", "he", "hi"]))
def test_any_text_gives_ordered_terms_inside_it(text: str, code: str) -> None:
    masked = mentions.mask_markup(text)
    assert len(masked) == len(text)
    end = 0
    for mention in find_terms(masked, code):
        assert end <= mention.start < mention.end <= len(text)
        assert mention.name.strip()
        end = mention.end


def test_markup_is_masked_and_offsets_stay() -> None:
    text = '## The [Danube](https://x.org/a?b=c "t") and <b>Ulm</b>, see www.x.org, me@x.org & `C++` {braces}\x07 &amp;'
    masked = mentions.mask_markup(text)
    assert len(masked) == len(text)
    assert masked.split() == ["The", "Danube", "and", "Ulm", ",", "see", "&", "C++", "{braces}"]
    assert masked.index("Ulm") == text.index("Ulm")
    assert mentions.mask_markup("a ```py\nFoo()\n``` b").split() == ["a", "b"]
    assert mentions.mask_markup("a ```never closed Foo").split() == ["a"]
    assert mentions.mask_markup("a\ud800b") == "a b"
    assert mentions.mask_markup("C# and snake_case") == "C# and snake_case"


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("the World Health Organization", "World Health Organization"),
        ("Verdi's", "Verdi"),
        ("An  old\nHeading", "old"),
        ("Thomas (", "Thomas"),
        ('"Aida,"', "Aida"),
        ("The", "The"),
        ("1963", ""),
        ("!!!", ""),
        ("word " * 11, ""),
    ],
)
def test_names_are_cleaned(raw: str, name: str) -> None:
    assert mentions.clean_name(raw) == name


def test_titles() -> None:
    assert mentions.title_name("  code-of-conduct.md ") == "code-of-conduct"
    assert mentions.title_name("St. Louis") == "St. Louis"
    assert mentions.title_name("\u200b ") == ""
    assert mentions.bare_title("Ulm (Germany)") == mentions.bare_title("Ulm, Germany") == "Ulm"
    assert mentions.bare_title("Families, Systems and Health") == "Families, Systems and Health"
    assert mentions.title_tail("Margraviate of Austria") == "Austria"
    assert mentions.title_tail("Ulm, Germany") == "Germany"
    assert mentions.title_tail("Gone with the wind") == ""


def test_quotations_that_are_speech_are_no_titles() -> None:
    text = (
        'He said "we will come back tomorrow" and sang "Ode to Joy," then ``Yesterday\'\'. "Stop. Go home now" he said.'
    )
    assert [text[start:end] for start, end in mentions.quoted_titles(text)] == ["Ode to Joy", "Yesterday"]


def test_english_dates_need_a_month_and_a_year() -> None:
    text = "On 7 April 1948, in May 1950 and on June 6, 1944, but not in March or 1951."
    assert [one.name for one in mentions.english_dates(text)] == ["7 April 1948", "May 1950", "June 6, 1944"]


def test_of_overlapping_mentions_the_surer_then_the_longer_stays() -> None:
    sure, long, short, apart = Mention(4, 6, "a"), Mention(0, 5, "b"), Mention(0, 3, "c"), Mention(7, 9, "d")
    assert mentions.without_overlaps([[sure], [short, long, apart]]) == [short, sure, apart]
    assert mentions.without_overlaps([[short, long]]) == [long]


@pytest.mark.parametrize(
    ("text", "definitions"),
    [
        ("the World Health Organization (WHO) acts", [("World Health Organization", "WHO")]),
        ("the University of California (UC)", [("University of California", "UC")]),
        ("the North Atlantic Treaty Organization (N.A.T.O) met", [("North Atlantic Treaty Organization", "N.A.T.O")]),
        ("born in Vienna (Austria)", []),
        ("the old river bank (ORB)", []),
        ("the World Health Assembly (XYZ)", []),
        ("(WHO)", []),
    ],
)
def test_acronyms_count_only_where_the_initials_spell_them(text: str, definitions: list[tuple[str, str]]) -> None:
    found = list(mentions.acronym_definitions(text))
    assert [(one.full, one.short) for one in found] == definitions
    assert all(text[one.start : one.end] == one.full for one in found)


def person(name: str) -> Mention:
    return Mention(0, 1, name, "PERSON")


def test_a_last_name_becomes_the_only_person_who_has_it() -> None:
    document = DocumentNames("Physics", [person("Marie Curie"), person("Curie")], [])
    assert document.resolve("Curie") == "Marie Curie"
    assert document.type_of("Marie Curie") == "PERSON"


def test_a_last_name_of_two_persons_stays() -> None:
    document = DocumentNames("Physics", [person("Marie Curie"), person("Pierre Curie"), person("Curie")], [])
    assert document.resolve("Curie") == "Curie"


def test_a_place_is_no_last_name() -> None:
    document = DocumentNames("History", [person("George Washington"), Mention(0, 1, "Washington", "GPE")], [])
    assert document.resolve("Washington") == "Washington"


def test_names_of_the_title_s_person() -> None:
    document = DocumentNames("Barack Obama", [person("Obama"), person("Barack Hussein Obama")], [])
    assert document.resolve("Obama") == "Barack Obama"
    assert document.resolve("Barack Hussein Obama") == "Barack Obama"
    qualified = DocumentNames("David Smith (director)", [person("David Smith"), person("Smith")], [])
    assert qualified.resolve("Smith") == "David Smith (director)"


def test_spellings_of_the_title() -> None:
    document = DocumentNames("The Beatles", [Mention(0, 1, "Beatles", "ORG"), Mention(2, 3, "Ulm")], [])
    assert document.resolve("Beatles") == document.resolve("THE BEATLES") == "The Beatles"
    assert document.type_of("The Beatles") == "ORG"
    assert document.resolve("ulm") == "Ulm"


def test_an_acronym_is_an_alias_of_its_definition_only() -> None:
    defined = list(mentions.acronym_definitions("the World Health Organization (WHO)"))
    document = DocumentNames("Health", [Mention(0, 1, "WHO", "ORG")], defined)
    assert document.resolve("WHO") == "World Health Organization"
    assert document.aliases_of("World Health Organization") == ("WHO",)
    assert document.aliases_of("Health") == ()
    # Where the page is called by the short form, the full name is that page.
    titled = DocumentNames("WHO", [Mention(0, 1, "World Health Organization", "ORG")], defined)
    assert titled.resolve("World Health Organization") == "WHO"


def test_known_titles_are_found_in_texts() -> None:
    titles = KnownTitles(["The Beatles", "Rugby league", "Aida (opera)", "It", "New York City"], frozenset({"it"}))
    text = "It is not rugby league: the Beatles saw Aida in New York City's hall."
    assert [(one.name, text[one.start : one.end]) for one in titles.find(text)] == [
        ("Rugby league", "rugby league"),
        ("The Beatles", "the Beatles"),
        ("Aida", "Aida"),
        ("New York City", "New York City"),
    ]


def test_known_titles_inside_longer_names() -> None:
    titles = KnownTitles(["Ulm", "British Rail", "United (album)", "Tulsa, Oklahoma"], frozenset())
    assert titles.inside("British Rail sandwich") == ["British Rail"]
    assert titles.inside("Ulm Minster") == ["Ulm"]
    assert titles.inside("Museum of Tulsa") == ["Tulsa"]
    assert titles.inside("United States") == []
    assert titles.inside("Ulm") == []


def test_titles_end_at_letters_with_their_marks() -> None:
    titles = KnownTitles(["गंग"], frozenset())
    assert list(titles.find("गंगा नदी")) == []
    assert [one.name for one in titles.find("गंग नदी")] == ["गंग"]
