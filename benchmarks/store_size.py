"""What a store of a given size costs: `python benchmarks/store_size.py FOLDER [--hyperedges 1000000]`.

The real code path over synthetic texts: a corpus and its extraction records become a store, in a process of its own;
other processes then open it, ask a first question, add a document and verify it. Only the encoder is a stand-in, since
a real one would take hours: a text's vector is near the centre of its topic.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hyce_gpu.extract import Extracted
from hyce_gpu.extract.parse import parse_extraction
from hyce_gpu.schema import Chunk, ExtractionRecord

EDGES_A_DOCUMENT = 4
DIMENSION = 384
# As many entities as hyperedges: each document brings four of its own, the rest are popular ones.
OWN_ENTITIES = 4
WORDS = 30_000
DOCUMENTS_A_TOPIC = 500


class TopicEncoder:
    """The part of `hyce_serving.Encoder` that the offline and online stages use, without a model."""

    name, dimension = "synthetic topics", DIMENSION

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._centres = rng.standard_normal((4096, DIMENSION), dtype=np.float32)
        self._noise = rng.standard_normal((4096, DIMENSION), dtype=np.float32)

    def encode(self, texts: Sequence[str], advance: Callable[[int], object] | None = None) -> np.ndarray:
        topics = np.fromiter((zlib.crc32(_topic(text).encode()) % 4096 for text in texts), np.int64, len(texts))
        own = np.fromiter((zlib.crc32(text.encode()) for text in texts), np.int64, len(texts))
        vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)
        for at in range(0, len(texts), 8192):
            part = slice(at, at + 8192)
            noise = self._noise[own[part] % 4096] + self._noise[own[part] // 4096 % 4096]
            rows = self._centres[topics[part]] + 0.7 * noise
            vectors[part] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            if advance:
                advance(len(rows))
        return vectors

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        words, at, spans = text.split(" "), 0, []
        for word in words:
            spans.append((at, at + len(word)))
            at += len(word) + 1
        return spans

    def fingerprint(self) -> list[list[float]]:
        return [[round(float(x), 4) for x in row[:8]] for row in self.encode(["one", "two", "three"])]


def _topic(text: str) -> str:
    """Titles and names carry their topic: "Topic17 ..."."""
    return next((word for word in text.split(" ", 6)[:6] if word.startswith("Topic")), text[:12])


def write_corpus(folder: Path, hyperedges: int) -> None:
    """corpus.jsonl and records.jsonl."""
    rng = np.random.default_rng(1)
    count = max(1, hyperedges // EDGES_A_DOCUMENT)
    with (folder / "corpus.jsonl").open("w") as corpus, (folder / "records.jsonl").open("w") as records:
        for number in range(count):
            document, record = _document(rng, number, count)
            corpus.write(json.dumps(document) + "\n")
            records.write(json.dumps(record) + "\n")


def _document(rng: np.random.Generator, number: int, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    topic = number // DOCUMENTS_A_TOPIC
    own = [f"Topic{topic} Name{number}x{k}" for k in range(OWN_ENTITIES)]
    # Zipf-like: few documents are named everywhere.
    others = np.minimum((count * rng.random(EDGES_A_DOCUMENT) ** 3).astype(int), count - 1)
    sentences, hyperedges = [], []
    at = 0
    for k, other in enumerate(others):
        names = [own[0], own[k], f"Topic{other // DOCUMENTS_A_TOPIC} Name{other}x0"]
        words = " ".join(f"word{w}" for w in (WORDS * rng.random(8) ** 2).astype(int))
        sentence = f"{names[0]} met {names[1]} and {names[2]} {words}."
        hyperedges.append(
            {
                "segment": sentence, "entities": list(dict.fromkeys(names)), "start": at, "end": at + len(sentence),
                "confidence": 0.9, "relations": [{"head": names[0], "predicate": "met", "tail": names[2]}],
            }
        )  # fmt: skip
        sentences.append(sentence)
        at += len(sentence) + 1
    text = " ".join(sentences)
    entities = [
        {"name": name, "type": "person"} for name in dict.fromkeys(n for e in hyperedges for n in e["entities"])
    ]
    document = {"id": f"d{number}", "title": own[0], "text": text}
    return document, {"doc_id": f"d{number}", "entities": entities, "hyperedges": hyperedges}


def build(folder: Path) -> None:
    from hyce_gpu.indexing import index_corpus

    report = index_corpus(
        [folder / "corpus.jsonl"], folder / "store", TopicEncoder(), None, folder / "records.jsonl"  # type: ignore[arg-type]
    )  # fmt: skip
    print(json.dumps({"counts": report.counts, "seconds": report.seconds}))


def ask(folder: Path) -> None:
    from hyce_gpu.config import Config
    from hyce_gpu.engine import Engine
    from hyce_gpu.store import Store

    encoder = TopicEncoder()
    with _timed("Store.open"):
        store = Store.open(folder / "store")
    _resident()
    with _timed("Engine"):
        engine = Engine(store, encoder, None, Config(), "cpu")  # type: ignore[arg-type]
    _resident()
    question = "Whom did Topic1 Name700x1 meet?"
    with _timed("first question"):
        answer = engine.retrieve([question])[0]
    print(answer.paths[0].segment[:80])
    with _timed("second question"):
        engine.retrieve(["Whom did Topic3 Name1700x1 meet?"])
    _resident()


def add(folder: Path) -> None:
    from hyce_gpu import update_job
    from hyce_gpu.store import Store

    # Another one each time.
    count = Store.open(folder / "store").counts["documents"]
    document, record = _document(np.random.default_rng(count), count, count)
    (folder / "more.jsonl").write_text(json.dumps(document) + "\n")
    # The encoder and the extractor are what this is not to measure.
    update_job.Encoder = lambda *_, **__: TopicEncoder()  # type: ignore[attr-defined, assignment]
    update_job.extractor_of = lambda *_: _Recorded(record)  # type: ignore[attr-defined, assignment]
    with _timed("add one document"):
        report = update_job.add(folder / "store", [folder / "more.jsonl"], update_job.Models())
    assert report is not None
    print(json.dumps({"counts": report.counts, "seconds": report.seconds}))


class _Recorded:
    """An extractor that knows one document's record."""

    name = "recorded"

    def __init__(self, record: dict[str, Any]) -> None:
        self._record = record

    def describe(self) -> dict[str, str]:
        return {}

    def unit_keys(self, chunks: Sequence[Chunk]) -> list[bytes]:
        return [chunk.id.encode() for chunk in chunks]

    def extract(self, chunks: Sequence[Chunk], wanted: Sequence[int]) -> Iterator[Extracted]:
        for position in wanted:
            chunk = chunks[position]
            parsed = parse_extraction(self._record, chunk, False)
            place = (chunk.id, chunk.doc_id, chunk.order, chunk.start, chunk.end)
            yield Extracted(position, ExtractionRecord(*place, "ok", parsed.entities, parsed.hyperedges))


def verify(folder: Path) -> None:
    from hyce_gpu import verify as verify_module

    with _timed("verify"):
        print(len(verify_module.verify(folder / "store")), "findings")


STEPS = {"build": build, "ask": ask, "add": add, "verify": verify}


class _timed:
    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        print(f"{self._what}: {time.perf_counter() - self._start:.3f} s", flush=True)


def _resident() -> None:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(("VmRSS", "RssAnon", "RssFile")):
            print("  " + " ".join(line.split()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hyperedges", type=int, default=1_000_000)
    parser.add_argument("--steps", nargs="*", choices=["corpus", *STEPS], default=["corpus", *STEPS])
    parser.add_argument("--here", action="store_true", help="in this process")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.here:
        step = asked.steps[0]
        if step == "corpus":
            write_corpus(asked.folder, asked.hyperedges)
        else:
            STEPS[step](asked.folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{step}: peak memory {peak:.2f} GB", flush=True)
        return
    for step in asked.steps:
        start = time.perf_counter()
        subprocess.run(
            [
                sys.executable,
                __file__,
                str(asked.folder),
                "--hyperedges",
                str(asked.hyperedges),
                "--steps",
                step,
                "--here",
            ],
            check=True,
        )
        print(f"{step}: {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
