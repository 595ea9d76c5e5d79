"""Lets the tests' helper modules be found; emulators behind a way that can be shut, and the model of Kinesis."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mainstem_testkit.proxy import Afar, FaultProxy

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

if TYPE_CHECKING:
    from kinesis_fake import FakeKinesis


def afar(server: Any) -> Iterator[Afar]:
    with FaultProxy(server.port) as proxy:
        yield Afar(server, proxy)


@pytest.fixture
def kinesalite_afar(kinesalite: Any) -> Iterator[Afar]:
    """The emulator kinesalite, which keeps its streams while it is away."""
    yield from afar(kinesalite)


@pytest.fixture
def kinesis_local_afar(kinesis_local: Any) -> Iterator[Afar]:
    """The emulator kinesis-local, which keeps its streams while it is away."""
    yield from afar(kinesis_local)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Receivers over the model wait for nothing."""
    from kinesis_model import hurry

    hurry(monkeypatch)


@pytest.fixture
def kinesis(monkeypatch: pytest.MonkeyPatch, quick: None) -> FakeKinesis:
    """A model of one shard, that receivers reach in place of AWS."""
    from kinesis_fake import FakeKinesis
    from kinesis_model import reach

    return reach(monkeypatch, FakeKinesis())
