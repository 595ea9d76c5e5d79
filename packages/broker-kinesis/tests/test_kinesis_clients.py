"""Clients that are made for one use are closed after it: each holds connections."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest
from kinesis_fake import FakeKinesis
from kinesis_logs import MemoryLog
from kinesis_model import put as put_records
from kinesis_model import read_all, worker_of
from mainstem import PermanentError
from mainstem_aws import client as client_module
from mainstem_broker_kinesis.sink import sink as sink_module
from mainstem_broker_kinesis.sink.options import KinesisSinkOptions
from mainstem_broker_kinesis.source import lag

OPTIONS = KinesisSinkOptions(stream="clicks", format="raw", give_up="200 ms", requests=1)
ROWS = pa.RecordBatch.from_pydict({"key": ["a", "b"], "value": [b"1", b"2"]})


class Client:
    """A client that takes all records, once it is let; `closed` counts, and calls after it are noted."""

    def __init__(self):
        self.closed = 0
        self.late = 0
        self.gate = threading.Event()
        self.gate.set()

    def put_records(self, Records, **_):  # noqa: N803
        self.gate.wait(10)
        self.late += self.closed
        return {"Records": [{} for _ in Records]}

    def describe_stream_summary(self, **_):
        return {"StreamDescriptionSummary": {"StreamStatus": "ACTIVE"}}

    def close(self):
        self.closed += 1


@pytest.fixture
def client(monkeypatch):
    made = Client()
    monkeypatch.setattr(client_module, "connect", lambda *_, **__: made)
    return made


def test_a_task_closes_its_client(client):
    """Pass: once, after all is put."""
    assert list(sink_module.put([ROWS], OPTIONS, 2**20)) == []
    assert (client.closed, client.late) == (1, 0)


def test_a_task_that_gives_up_leaves_the_client_to_the_call_that_is_under_way(client):
    """Pass: it ends without an answer; the client is closed when that call has ended, and not before."""
    client.gate.clear()
    with pytest.raises(PermanentError, match="give_up"):
        list(sink_module.put([ROWS], OPTIONS, 2**20))
    assert client.closed == 0
    client.gate.set()
    until = time.monotonic() + 10
    while not client.closed:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert (client.closed, client.late) == (1, 0)


def test_a_look_at_the_stream_closes_its_client(client):
    """Pass: of the sink, before a run."""
    sink_module.KinesisSink(OPTIONS).prepare([], None)
    assert client.closed == 1


@pytest.mark.parametrize("fails", [False, True])
def test_measuring_closes_its_one_client_each_time(kinesis: FakeKinesis, monkeypatch, fails):
    """Pass: also when the stream can't be asked; a client is made once only."""
    log = MemoryLog()
    put_records(kinesis, 0)
    read_all(kinesis, worker_of(kinesis, log))
    made = []
    monkeypatch.setattr(lag, "connect", lambda *_: made.append(kinesis) or kinesis)
    asked = lag.Measuring(worker_of(kinesis).options)
    before = kinesis.calls["close"]
    for _ in range(2):
        if fails:
            # More than one: a worker that is not gone yet may read too.
            kinesis.fail(*["AccessDeniedException"] * 20)
            with pytest.raises(lag.PipelineError, match="AccessDenied"):
                asked.behind(log)
        else:
            assert [lag.partition for lag in asked.behind(log)] == ["shardId-000000000000"]
    assert kinesis.calls["close"] == before + 2
    assert len(made) == 1
