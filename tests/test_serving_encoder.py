"""The encoder with the real all-MiniLM-L6-v2: vectors, token spans, and what odd texts do to them."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hyce_serving import Encoder, MissingPackage, ModelNotFound, ServingError
from hyce_serving.encoder import _unit_rows

TEXTS = [
    "A cat sleeps on the warm roof.",
    "Interest rates rose again in March.",
    "A kitten naps on top of the house.",
    "Ada Lovelace wrote notes on Charles Babbage's Analytical Engine, and " * 12,
    "東京は日本の首都です。",
    "x",
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder()


def test_rows_are_float32_of_length_one(encoder: Encoder) -> None:
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (6, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


def test_no_texts_give_no_rows(encoder: Encoder) -> None:
    assert encoder.encode([]).shape == (0, 384)
    assert encoder.dimension == 384


def test_meaning_decides_and_rows_keep_their_places(encoder: Encoder) -> None:
    cat, rates, kitten = encoder.encode(TEXTS[:3])
    assert cat @ kitten > 0.6
    assert cat @ rates < 0.2


def test_a_vector_does_not_depend_on_its_neighbours() -> None:
    encoder = Encoder(batch_size=2)
    together = encoder.encode(TEXTS)
    alone = np.vstack([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_progress_adds_up_batch_by_batch() -> None:
    done: list[int] = []
    Encoder(batch_size=4).encode(TEXTS, advance=done.append)
    assert done == [4, 2]


def test_odd_texts_are_encoded(encoder: Encoder) -> None:
    vectors = encoder.encode(["", " ", "\x00", "a\x00b", "\ud800", "pair \ud83d\ude00", "\u200b", "\U0001f600" * 2000])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


def test_zero_vectors_stay_zero() -> None:
    rows = _unit_rows(np.array([[0, 0], [3, 4]], dtype=np.float32))
    np.testing.assert_allclose(rows, [[0, 0], [0.6, 0.8]], atol=1e-7)


def test_token_spans_count_code_points(encoder: Encoder) -> None:
    assert encoder.token_spans("Hi, Bob!") == [(0, 2), (2, 3), (4, 7), (7, 8)]
    assert encoder.token_spans("\U0001f600 Zoë\ud800")[1:2] == [(2, 5)]
    assert encoder.token_spans("") == []


def test_token_spans_go_past_the_window_without_a_warning(
    encoder: Encoder, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "river " * 3000
    spans = encoder.token_spans(text)
    assert spans == [(6 * i, 6 * i + 5) for i in range(3000)]
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_encoding_leaves_token_spans_whole(encoder: Encoder) -> None:
    encoder.encode(["river " * 3000, "x"])
    assert len(encoder.token_spans("river " * 600)) == 600


def test_without_a_fast_tokenizer_words_and_cjk_characters_are_tokens() -> None:
    encoder = Encoder()
    encoder.__dict__["_tokenizer"] = None
    assert encoder.token_spans("Zoë's 東京 3") == [(0, 3), (3, 4), (4, 5), (6, 7), (7, 8), (9, 10)]


def test_the_fingerprint_is_the_same_each_time(encoder: Encoder) -> None:
    first, second = encoder.fingerprint(), Encoder(encoder.path, batch_size=1).fingerprint()
    assert np.shape(first) == (3, 16)
    np.testing.assert_allclose(first, second, atol=2e-4)
    assert first[0] != first[1]
    assert all(number == round(number, 4) for row in first for number in row)


def test_loading_and_encoding_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    Encoder().encode(["quiet"])
    assert capfd.readouterr() == ("", "")


def test_name_is_what_the_user_gave() -> None:
    path = Encoder().path
    assert Encoder().name == "sentence-transformers/all-MiniLM-L6-v2"
    assert Encoder(path).name == path


def test_a_model_that_is_not_there_is_refused_on_construction() -> None:
    with pytest.raises(ModelNotFound, match="/no/such"):
        Encoder("/no/such")


def test_weights_that_do_not_load_are_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "nonsense"}')
    with pytest.raises(ServingError, match="does not load"):
        Encoder(str(tmp_path)).encode(["x"])


def test_a_device_that_is_not_there_is_an_error_of_ours() -> None:
    with pytest.raises(ServingError, match="nowhere"):
        Encoder(device="nowhere").encode(["x"])


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ServingError, match="batch size"):
        Encoder(batch_size=0)


def test_without_sentence_transformers_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingPackage, match="pip install sentence-transformers"):
        Encoder().encode(["x"])
