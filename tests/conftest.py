"""Settings for every test; the first one must stand before torch is imported."""

from __future__ import annotations

import os

import pytest
from hyce_serving.encoder import Encoder

from hyce_gpu.ledger import Ledger

# Threads that spin while they wait make a busy machine several times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# No test reaches for the model hub unless it says so; without a network each look-up would cost seconds.
os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    """The bundled model; loading it takes seconds."""
    return Encoder(device="cpu")
