"""What a run of `gpu_check` prints: the machine, and a row for each job. Measures nothing."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]


def cells(name: str, row: Row, copy: float | None) -> list[str]:
    if "seconds" not in row:
        result = f"skipped: {row['skipped']}" if "skipped" in row else "ok" if row["passed"] else "FAILED"
        return [name, result, "", "", "", "", row.get("detail", "")]
    questions, rate = row["questions"], row.get("rate")
    a_second = f"{questions / row['seconds']:,.0f}" if questions else ""
    moved = [f"{rate / 1e9:,.1f}", f"{rate / copy:.3f}" if copy else ""] if rate else ["", ""]
    return [name, f"{row['seconds'] * 1000:,.3f} ms", str(row["runs"]), a_second, *moved, ""]


def table(rows: dict[str, Row]) -> str:
    """Plain text; "of copy" may pass 1 where a cache serves what every step reads again."""
    head = ["what", "result", "runs", "questions/s", "GB/s", "of copy", ""]
    copy = rows.get("copy of memory", {}).get("rate")
    lines = [head, *(cells(name, row, copy) for name, row in rows.items())]
    # What is long stands at an end, so that the columns stay narrow.
    widths = [max(len(line[place]) for line in lines if len(line[place]) < 60) for place in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def facts(device: str, seed: int) -> dict[str, str]:
    card = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    return {
        "card": card,
        "driver": output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "torch": torch.__version__,
        "triton": version("triton") if find_spec("triton") else "not installed",
        "commit": output("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"),
        "seed": str(seed),
    }


def output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
