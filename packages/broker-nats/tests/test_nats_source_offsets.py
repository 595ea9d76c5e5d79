"""Offsets of streams that are read by sequence: what is kept of the first, and what is held against them."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import closing

import pytest
from mainstem import ExternalError, PermanentError, TransientError
from mainstem.positions import Part
from mainstem.positions import planner as planning
from mainstem_broker_nats.client import Connection
from mainstem_broker_nats.source.options import BucketOptions, JetStreamSourceOptions
from mainstem_broker_nats.source.ranges import Range
from mainstem_broker_nats.source.stream import Stream
from mainstem_broker_nats.testing import NATS
from nats_streams import at, consumers, make_stream, publish, publish_many, reading, spans
from pydantic import ValidationError


class Planned:
    """What a checkpoint says: nothing, until a batch was planned."""

    offset = None

    def planned(self):
        return None if self.offset is None else (0, self.offset)

    committed = planned


def options_of(server, stream, **more):
    given = {"servers": server.url, "stream": stream, "give_up": "2 s", **more}
    return JetStreamSourceOptions.model_validate(given)


def given(server, stream, *, progress=None, first=None, **more):
    return reading(options_of(server, stream, **more), progress=progress, first=first)


@pytest.fixture
def planner():
    """Plans batches as the driver does, looking at the server each time; all are closed at the end."""
    made = []

    def make(server, stream, **more):
        made.append(given(server, stream, **more).planner())
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(planning, "EVERY", 0.0)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_the_first_offset_is_kept(nats, planner, tmp_path, start):
    """Asked for again after a purge and more messages. Pass: as it was, once a batch was planned with it;
    another checkpoint in the same place has its own.
    """
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(10))
    progress, file = Planned(), tmp_path / "first" / "one.json"
    more = {"progress": progress, "first": file, "start": start}
    first = planner(nats, stream, **more).initial()
    assert first["read"][stream] == (0 if start == "earliest" else 10)
    progress.offset = {**first, "read": {stream: 10}}
    at(nats, lambda js, _: js.purge_stream(stream, seq=6))
    publish(nats, f"{stream}.a", range(5))
    assert planner(nats, stream, **more).initial() == first
    progress.offset = None
    again = planner(nats, stream, **more).initial()
    assert again["read"][stream] == (5 if start == "earliest" else 15)


def test_latest_is_held_by_an_empty_batch(nats, planner):
    """Nothing comes after the beginning. Pass: one batch without rows, then none."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(10))
    plans = planner(nats, stream, start="latest")
    start = plans.initial()
    end = plans.latest(start)
    assert end != start
    assert end["read"][stream] == start["read"][stream] == 10
    assert spans(plans, start, end) == []
    assert plans.latest(end) == end


@pytest.mark.in_turn
def test_a_stream_that_fell_back_is_seen_when_it_has_grown_again(tmp_path, planner):
    """The store is put back to five messages, and publishers have gone past what was read. Pass: an error
    that names both times, where a batch is planned and where it is read; and none before.
    """
    with NATS(tmp_path / "server") as server:
        stream = make_stream(server)
        publish(server, f"{stream}.a", range(5))
        server.stop()
        shutil.copytree(server.folder / "data", tmp_path / "kept")
        server.start()
        publish(server, f"{stream}.a", range(5))
        plans = planner(server, stream)
        start = plans.initial()
        end = plans.latest(start)
        assert (end["read"][stream], spans(plans, start, end)) == (10, [(0, 10)])
        server.stop()
        shutil.rmtree(server.folder / "data")
        shutil.copytree(tmp_path / "kept", server.folder / "data")
        server.start()
        with pytest.raises(
            ExternalError, match="ends at 5, and the checkpoint has read to 10"
        ) as error:
            plans.latest(end)
        assert isinstance(error.value, TransientError)  # a leader may be behind for a while
        with pytest.raises(ExternalError, match="ends at 5"):
            spans(plans, start, end)
        publish(server, f"{stream}.a", range(10))
        for step in (lambda: plans.latest(end), lambda: plans.parts(start, end)):
            with pytest.raises(ExternalError, match="message 10.*fell back.*_id") as error:
                step()
            assert isinstance(error.value, PermanentError)
            assert end["at"][stream] in str(error.value)
        plans.close()


def test_a_leader_that_is_behind_is_waited_for(nats, planner):
    """The stream ends before what was read, and gets beyond it a little later. Pass: no error."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(8))
    plans = planner(nats, stream, give_up="20 s")
    read = {**plans.initial(), "read": {stream: 10}}
    del read["first"]
    later = threading.Timer(0.5, publish, [nats, f"{stream}.a", range(4)])
    later.start()
    assert plans.latest(read)["read"][stream] in (11, 12)  # they come one by one
    later.join()


def test_a_sequence_to_begin_at_may_lie_ahead(nats, planner):
    """`start: 8` of a stream with five messages. Pass: it waits, and begins there."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(5))
    plans = planner(nats, stream, start=8)
    start = plans.initial()
    assert plans.latest(start) == start
    publish(nats, f"{stream}.a", range(5))
    end = plans.latest(start)
    assert end["read"][stream] == 10
    assert spans(plans, start, end) == [(7, 10)]


def test_other_subjects_that_go_are_no_gap(nats, planner, monkeypatch):
    """`on_loss: fail` and a filter; other subjects' messages come and are purged. Pass: no error, in this run
    and in a later one, and a range that tells of no gap; what goes before it was looked at is an error.
    """
    stream = make_stream(nats)
    more = {"subjects": [f"{stream}.a"], "on_loss": "fail"}
    plans = planner(nats, stream, **more)
    start = plans.initial()
    publish(nats, f"{stream}.b", range(20))
    assert plans.latest(start) == start
    at(nats, lambda js, _: js.purge_stream(stream, seq=15))
    assert plans.latest(start) == start
    publish(nats, f"{stream}.a", ["it"])
    end = plans.latest(start)
    assert (end["read"][stream], end["after"][stream]) == (21, 20)
    assert spans(plans, start, end) == [(20, 21)]
    publish(nats, f"{stream}.b", range(20))
    assert plans.latest(end) == end
    monkeypatch.setattr(planning, "MOVE", 0.0)
    moved = plans.latest(end)
    assert (moved["read"][stream], moved["after"][stream]) == (41, 41)
    assert spans(plans, end, moved) == []
    at(nats, lambda js, _: js.purge_stream(stream))
    publish(nats, f"{stream}.a", ["it"])
    assert planner(nats, stream, **more).latest(moved)["read"][stream] == 42
    with pytest.raises(ExternalError, match="begins at 42"):
        planner(nats, stream, **more).latest(end)


def test_a_bounded_run_moves_past_other_subjects(nats, planner):
    """It ends behind messages of other subjects. Pass: its last offset is the stream's end."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.b", range(20))
    plans = planner(nats, stream, subjects=[f"{stream}.a"])
    start = plans.initial()
    plans.prepare()
    end = plans.latest(start)
    assert end["read"][stream] == 20
    assert plans.latest(end) == end


def test_subjects_that_were_gone_unseen_are_told(nats, planner):
    """A filter, and the stream's beginning was purged before anybody looked. Pass: the batch begins before
    the gap, so that it is told, also where nothing else is there.
    """
    stream = make_stream(nats)
    publish(nats, f"{stream}.b", range(20))
    at(nats, lambda js, _: js.purge_stream(stream, seq=11))
    plans = planner(nats, stream, subjects=[f"{stream}.a"], on_loss="report")
    start = {**plans.initial(), "read": {stream: 4}}
    end = plans.latest(start)
    assert end["read"][stream] == 20
    assert spans(plans, start, end) == [(4, 20)]
    publish(nats, f"{stream}.a", ["it"])
    end = plans.latest(start)
    assert spans(plans, start, end) == [(4, 21)]


def test_a_read_that_is_closed_early_leaves_nothing(nats):
    """As Spark closes one of which it wants no more rows. Pass: no thread, no consumer."""
    stream = make_stream(nats)
    publish_many(nats, f"{stream}.a", (b"%d" % number for number in range(12_000)))
    whole = given(nats, stream)
    reader = Stream(options_of(nats, stream), stream, (), "t")
    with closing(reader):
        created = reader.state().created
    before = {thread.name for thread in threading.enumerate() if thread.name.startswith("nats ")}
    rows = whole.read(Part(created, stream, 0, 12_000), _schema())
    assert next(rows).num_rows
    rows.close()
    after = {thread.name for thread in threading.enumerate() if thread.name.startswith("nats ")}
    assert after == before
    assert consumers(nats, stream) == []


def _schema():
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import (
        BinaryType,
        MapType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    kinds = {
        "key": BinaryType(),
        "value": BinaryType(),
        "headers": MapType(StringType(), BinaryType()),
        "timestamp": TimestampType(),
        "origin": StringType(),
        "partition": StringType(),
        "position": StringType(),
    }
    fields = [StructField(name, kind) for name, kind in kinds.items()]
    return to_arrow_schema(StructType(fields), timezone="UTC")


def test_a_consumer_is_forgotten_over_no_new_connection(nats):
    """The connection is gone when a consumer is to be removed. Pass: none is made for that."""
    stream = make_stream(nats)
    reader = Stream(options_of(nats, stream), stream, (), "t")
    consumer = reader.consumer_after(0)
    reader.close()
    reader.forget(consumer)
    assert reader._connection is None


def test_a_closed_connection_says_so(nats):
    """Asked after `close`. Pass: our error, at once."""
    connection = Connection.open(options_of(nats, "s"), "t")
    connection.close()
    with pytest.raises(ExternalError, match="was closed here"):
        connection.flush()


def test_subjects_that_are_no_text(nats):
    """A subject with bytes that are no UTF-8. Pass: it is read; `key` has its bytes, `origin` replaces them."""
    from mainstem_broker_nats.source.columns import message_rows

    stream = make_stream(nats)
    subject = f"{stream}.".encode() + b"a\xff"
    with nats.connect() as raw:
        raw.sendall(b'CONNECT {"verbose":false}\r\nPUB ' + subject + b" 2\r\nhi\r\nPING\r\n")
        until = time.monotonic() + 10
        while b"PONG" not in raw.recv(4096):
            assert time.monotonic() < until
    with closing(Stream(options_of(nats, stream), stream, (), "t")) as reader:
        (chunk,) = Range(reader, reader.state().created, 0, 1, gaps=True).chunks()
    made = message_rows(chunk, stream, _schema())
    assert made["key"].to_pylist() == [subject]
    assert made["origin"].to_pylist() == [f"{stream}.a\ufffd"]


@pytest.mark.in_turn
def test_a_stale_consumer_is_waited_for(nats):
    """A stream that allows one consumer, which another reader has for a while. Pass: reading waits."""
    stream = make_stream(nats, max_consumers=1)
    publish(nats, f"{stream}.a", range(10))
    options = options_of(nats, stream, give_up="20 s")
    with closing(Stream(options, stream, (), "t")) as one:
        stale = one.consumer_after(0)
        with pytest.raises(ExternalError, match="max_consumers") as error:
            one.consumer_after(0)
        assert isinstance(error.value, TransientError)
        created = one.state().created
        timer = threading.Timer(
            0.5, at, [nats, lambda js, _: js.delete_consumer(stream, stale.name)]
        )
        timer.start()
        with closing(Stream(options, stream, (), "t")) as two:
            chunks = list(Range(two, created, 0, 10, gaps=True).chunks())
        timer.join()
    assert sum(len(chunk.messages) for chunk in chunks) == 10


def test_overlapping_patterns_are_refused_early():
    """Pass: an error at the option, before a server is asked."""
    whole = {"servers": "nats://host", "stream": "s", "subjects": ["a.>", "a.b"]}
    with pytest.raises(ValidationError, match=r"a\.> and a\.b overlap"):
        JetStreamSourceOptions.model_validate(whole)
    keys = {"servers": "nats://host", "bucket": "b", "keys": ["u.*", "u.x"]}
    with pytest.raises(ValidationError, match="overlap"):
        BucketOptions.model_validate(keys)
