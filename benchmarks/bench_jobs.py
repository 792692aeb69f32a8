"""What the extraction job costs by itself: a scripted model that takes no time, 100,000 chunks, every unit on the disk.

Prompts are made, replies parsed and grounded, records committed; what remains of the time is the job's own. Compare
within one run only. HYCE_BENCH_CHUNKS changes the number of chunks.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hyce_serving.requests import GenerationRequest
from hyce_serving.scripted import Scripted

from hyce_gpu.accounts import Stage
from hyce_gpu.extract.llm_extractor import LlmExtractor
from hyce_gpu.extract_job import extract_missing
from hyce_gpu.schema import Chunk
from hyce_gpu.units import FinishedUnits

CHUNKS = int(os.environ.get("HYCE_BENCH_CHUNKS", 100_000))
SENTENCES = 5
WANTED_MS = 1.0
_NAME = re.compile(r"(?:Person|City|Work|Year) \d+")


def _chunk(number: int) -> Chunk:
    """Five sentences of four names each: about a hundred words, as a real chunk of 256 tokens has."""
    names = [
        f"{kind} {number * SENTENCES + at}" for at in range(SENTENCES) for kind in ("Person", "Work", "City", "Year")
    ]
    facts = [names[at : at + 4] for at in range(0, len(names), 4)]
    text = " ".join(
        f"{a} wrote the long and well known {b} in the old town of {c} in the year {d}." for a, b, c, d in facts
    )
    return Chunk(f"d{number}#0", f"d{number}", 0, 0, len(text), text, f"Person {number}")


def _reply(request: GenerationRequest) -> str:
    text = request.messages[-1]["content"].partition("<passage>\n")[2].partition("\n</passage>")[0]
    sentences = [one.rstrip(".") + "." for one in text.split(". ")]
    members = [_NAME.findall(one) for one in sentences]
    entities = [{"name": name, "type": "term", "aliases": [], "confidence": 0.9} for names in members for name in names]
    hyperedges = [
        {
            "segment": sentence, "entities": names, "confidence": 0.9,
            "relations": [{"head": names[0], "predicate": "wrote", "tail": names[1], "confidence": 1}],
        }
        for sentence, names in zip(sentences, members, strict=True)
    ]  # fmt: skip
    return json.dumps({"entities": entities, "hyperedges": hyperedges})


def _resident() -> int:
    """Bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def units(tmp_path: Path) -> Iterator[FinishedUnits]:
    with FinishedUnits(tmp_path / "units.sqlite") as units:
        yield units


def test_extraction_job_alone(benchmark: pytest.FixtureRequest, units: FinishedUnits) -> None:
    chunks = [_chunk(number) for number in range(CHUNKS)]
    generator = Scripted(_reply)
    extractor = LlmExtractor(generator)
    # The first thousand warm up; what memory the rest adds is what a longer job would add.
    extract_missing(chunks[:1000], extractor, units, Stage())
    before = _resident()
    keys = benchmark.pedantic(extract_missing, (chunks, extractor, units, Stage()), rounds=1)  # type: ignore[attr-defined]
    grown = _resident() - before
    # The gate: each chunk asked once, and every record whole.
    assert generator.asked == CHUNKS
    record = json.loads(units[keys[-1]])
    assert (record["status"], len(record["hyperedges"])) == ("ok", SENTENCES)
    milliseconds = benchmark.stats.stats.mean * 1000 / (CHUNKS - 1000)  # type: ignore[attr-defined]
    benchmark.group = "jobs"  # type: ignore[attr-defined]
    benchmark.extra_info.update(ms_per_chunk=milliseconds, wanted_ms=WANTED_MS, bytes_per_chunk=grown / CHUNKS)  # type: ignore[attr-defined]
