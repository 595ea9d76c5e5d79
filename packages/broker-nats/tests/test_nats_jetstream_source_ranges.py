"""Ranges of a stream: what is in one, read as tasks read it, without Spark."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from mainstem import ExternalError, OptionError, PermanentError
from mainstem.positions.planner import begin
from mainstem_broker_nats.source.headers import pairs
from mainstem_broker_nats.source.log import StreamLog
from mainstem_broker_nats.source.options import JetStreamSourceOptions
from mainstem_broker_nats.source.ranges import Range
from mainstem_broker_nats.source.stream import Stream
from nats.js.api import StreamSource
from nats_streams import (
    api,
    at,
    consumers,
    info,
    make_stream,
    publish,
    publish_a_status,
    publish_many,
    reading,
    spans,
    unique,
)


def options(server, stream, **more):
    given = {"servers": server.url, "stream": stream, "give_up": "20 s", **more}
    return JetStreamSourceOptions.model_validate(given)


@pytest.fixture
def opened(nats):
    """Opens streams as readers do; all are closed at the end."""
    made = []

    def make(stream, **more):
        given = options(nats, stream, **more)
        made.append(Stream(given, given.stream, given.subjects, "test"))
        return made[-1]

    yield make
    for stream in made:
        stream.close()


@pytest.fixture
def planner(nats):
    """Plans batches as the driver does; all connections are closed at the end."""
    made = []

    def make(stream, **more):
        given = options(nats, stream, **more)
        made.append(reading(given).planner())
        return made[-1]

    yield make
    for each in made:
        each.close()


def read(stream, after, end, *, gaps=True):
    """Return bodies, sequences and gaps of a range."""
    created = stream.state().created
    chunks = list(Range(stream, created, after, end, gaps=gaps).chunks())
    bodies = [raw.data for chunk in chunks for raw in chunk.messages]
    sequences = [sequence for chunk in chunks for sequence in chunk.sequences]
    return bodies, sequences, [gap for chunk in chunks for gap in chunk.gaps]


def numbered(count):
    return [b"%d" % number for number in range(1, count + 1)]


@pytest.mark.in_turn
def test_a_range_is_read_whole_and_in_order_and_again(nats, opened):
    """Thirty thousand messages, more than a pull brings, three times. Pass: the same each time."""
    stream = make_stream(nats)
    publish_many(nats, f"{stream}.a", numbered(30_000))
    reader = opened(stream)
    for _ in range(3):
        bodies, sequences, gaps = read(reader, 1_000, 29_000)
        assert bodies == numbered(29_000)[1_000:]
        assert sequences == list(range(1_001, 29_001))
        assert gaps == []


def test_no_consumer_is_left_behind(nats, opened):
    """After whole ranges, one that was left in the middle, and lookups. Pass: the stream has none."""
    stream = make_stream(nats)
    publish_many(nats, f"{stream}.a", numbered(12_000))
    reader = opened(stream)
    read(reader, 0, 12_000)
    left = Range(reader, reader.state().created, 0, 12_000, gaps=True).chunks()
    next(left)
    left.close()
    reader.waiting(0)
    reader.before(datetime.now(UTC))
    assert consumers(nats, stream) == []


def test_messages_that_are_gone_are_told_exactly(nats, opened):
    """Purged at the beginning, deleted inside and at the end. Pass: each gap once, with its count."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(1, 21))
    at(nats, lambda js, _: js.purge_stream(stream, seq=6))
    for sequence in (9, 10, 15, 20):
        at(nats, lambda js, _, s=sequence: js.delete_msg(stream, s))
    bodies, sequences, gaps = read(opened(stream), 2, 20)
    assert sequences == [6, 7, 8, 11, 12, 13, 14, 16, 17, 18, 19]
    assert bodies == [b"%d" % sequence for sequence in sequences]
    assert [(gap.first, gap.last, gap.count) for gap in gaps] == [
        (3, 5, 3),
        (9, 10, 2),
        (15, 15, 1),
        (20, 20, 1),
    ]
    assert "begins at 6" in gaps[0].reason
    assert "deleted" in gaps[1].reason
    assert read(opened(stream), 2, 20, gaps=False) == (bodies, sequences, [])


def test_a_range_of_which_nothing_is_left_ends(nats, opened):
    """All of it was purged. Pass: no message, one gap, at once."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(50))
    at(nats, lambda js, _: js.purge_stream(stream))
    bodies, _, gaps = read(opened(stream), 10, 40)
    assert bodies == []
    assert [(gap.first, gap.last, gap.count) for gap in gaps] == [(11, 40, 30)]


@pytest.mark.in_turn
def test_many_gaps_are_told_together(nats, opened):
    """Every second message of three thousand is gone. Pass: the count is right, the gaps are few."""
    stream = make_stream(nats, max_msgs_per_subject=1)
    publish(nats, lambda n: f"{stream}.{n}" if n % 2 else f"{stream}.same", range(3_001))
    bodies, _, gaps = read(opened(stream), 0, 3_001)
    assert len(bodies) == 1_501
    assert sum(gap.count for gap in gaps) == 1_500
    assert len(gaps) == 1_001


def test_a_filter_takes_some_subjects(nats, opened):
    """Two patterns of subjects, others between. Pass: theirs alone, and no gap is told for others."""
    stream = make_stream(nats)
    publish(nats, lambda n: f"{stream}.{'abc'[n % 3]}.x", range(300))
    reader = opened(stream, subjects=[f"{stream}.a.*", f"{stream}.c.>"])
    bodies, sequences, gaps = read(reader, 0, 290)
    assert bodies == [b"%d" % n for n in range(290) if n % 3 != 1]
    assert sequences == [n + 1 for n in range(290) if n % 3 != 1]
    assert gaps == []


def test_what_was_removed_before_a_filter_saw_it_is_told_without_a_count(nats, opened):
    """Purged at the beginning, of a stream of which some subjects are read. Pass: a gap without count."""
    stream = make_stream(nats)
    publish(nats, lambda n: f"{stream}.{'ab'[n % 2]}", range(20))
    at(nats, lambda js, _: js.purge_stream(stream, seq=11))
    bodies, _, gaps = read(opened(stream, subjects=[f"{stream}.a"]), 4, 20)
    assert bodies == [b"10", b"12", b"14", b"16", b"18"]
    assert [(gap.first, gap.last, gap.count) for gap in gaps] == [(5, 10, None)]


@pytest.mark.in_turn
def test_a_server_killed_in_the_middle_of_a_range(nats, opened):
    """Killed and started again twice while a range is read. Pass: all there, in order, once."""
    stream = make_stream(nats)
    publish_many(nats, f"{stream}.a", numbered(40_000))
    reader = opened(stream)
    found, kills = [], 0
    for chunk in Range(reader, reader.state().created, 0, 40_000, gaps=True).chunks():
        found += [raw.data for raw in chunk.messages]
        assert chunk.gaps == []
        if len(found) > (kills + 1) * 10_000 and kills < 2:
            kills += 1
            nats.kill_for(0.5)
    assert kills == 2
    assert found == numbered(40_000)


def test_a_consumer_that_somebody_removes(nats, opened):
    """Its consumer is deleted while a range is read. Pass: another one goes on, all is there once."""
    stream = make_stream(nats)
    publish_many(nats, f"{stream}.a", numbered(20_000))
    reader = opened(stream)
    found, removed = [], False
    for chunk in Range(reader, reader.state().created, 0, 20_000, gaps=True).chunks():
        found += [raw.data for raw in chunk.messages]
        if not removed:
            (name,) = consumers(nats, stream)
            api(nats, f"CONSUMER.DELETE.{stream}.{name}")
            removed = True
    assert found == numbered(20_000)


@pytest.mark.in_turn
def test_a_purge_while_a_range_is_read_ends_it(nats, opened):
    """What is not read yet is purged meanwhile. Pass: the rest is one gap, and reading ends."""
    stream = make_stream(nats)
    publish_many(nats, f"{stream}.a", numbered(40_000))
    reader = opened(stream)
    found, gaps = [], []
    for chunk in Range(reader, reader.state().created, 0, 40_000, gaps=True).chunks():
        if not found:
            at(nats, lambda js, _: js.purge_stream(stream))
        found += chunk.sequences
        gaps += chunk.gaps
    missing = sum(gap.count for gap in gaps)
    assert found == list(range(1, len(found) + 1))
    assert missing > 0
    assert len(found) + missing == 40_000


def test_a_stream_made_anew_is_refused(nats, planner, opened):
    """Deleted and made again under the same name. Pass: planning and reading say so, and both times."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(10))
    plans = planner(stream)
    start = plans.initial()
    end = plans.latest(start)
    assert end["read"][stream] == 10
    at(nats, lambda js, _: js.delete_stream(stream))
    make_stream(nats, stream)
    publish(nats, f"{stream}.a", range(20))
    for step in (
        lambda: planner(stream).latest(end),
        lambda: planner(stream).parts(start, end),
        lambda: list(Range(opened(stream), start["log"], 0, 10, gaps=True).chunks()),
    ):
        with pytest.raises(ExternalError, match="made anew") as error:
            step()
        assert isinstance(error.value, PermanentError)
        assert start["log"] in str(error.value)


def test_batches_end_where_they_should(nats, planner):
    """A limit, gaps, what is new, what is not. Pass: offsets as said, ranges that cover them."""
    stream = make_stream(nats)
    plans = planner(stream, max_rows=6, on_loss="report")
    first = plans.initial()
    assert first["read"][stream] == 0
    assert plans.latest(first) == first
    publish(nats, f"{stream}.a", range(10))
    time.sleep(0.1)
    second = plans.latest(first)
    assert (second["log"], second["read"][stream]) == (first["log"], 6)
    assert list(second) == ["log", "read", "at"]
    assert spans(plans, first, second) == [(0, 6)]
    at(nats, lambda js, _: js.purge_stream(stream, seq=10))
    time.sleep(0.1)
    third = plans.latest(second)
    assert third["read"][stream] == 10
    assert spans(plans, second, third) == [(6, 10)]


def test_a_large_batch_is_read_by_several_tasks(nats, planner):
    """Twenty thousand messages for two tasks, after ten thousand that are gone. Pass: even halves."""
    stream = make_stream(nats)
    publish_many(nats, f"{stream}.a", numbered(30_000))
    at(nats, lambda js, _: js.purge_stream(stream, seq=10_001))
    plans = planner(stream, on_loss="report")
    start = {**plans.initial(), "read": {stream: 100}}
    assert spans(plans, start, plans.latest(start)) == [(100, 20_000), (20_000, 30_000)]


def test_other_subjects_make_no_batches(nats, planner):
    """Only subjects that are not read get messages, then one that is. Pass: one batch, for that one."""
    stream = make_stream(nats)
    plans = planner(stream, subjects=[f"{stream}.a"], max_rows=10)
    start = plans.initial()
    publish(nats, f"{stream}.b", range(50))
    time.sleep(0.1)
    assert plans.latest(start) == start
    publish(nats, f"{stream}.a", ["it"])
    publish(nats, f"{stream}.b", range(5))
    time.sleep(0.1)
    end = plans.latest(start)
    assert end["read"][stream] == 56
    time.sleep(0.1)
    assert plans.latest(end) == end


def test_where_reading_begins(nats):
    """Earliest, latest, a sequence, a time, of a stream whose beginning is gone. Pass: as said."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(5))
    time.sleep(0.6)
    since = datetime.now(UTC)
    time.sleep(0.1)
    publish(nats, f"{stream}.a", range(5))
    at(nats, lambda js, _: js.purge_stream(stream, seq=3))
    log = StreamLog(options(nats, stream), stream, (), "t", "messages", "reader")
    hour = timedelta(hours=1)
    assert begin(log, "earliest")["read"][stream] == 2
    assert begin(log, "latest")["read"][stream] == 10
    assert begin(log, 7)["read"][stream] == 6
    assert begin(log, since)["read"][stream] == 5
    assert begin(log, since - hour)["read"][stream] == 2
    assert begin(log, datetime.now(UTC) + hour)["read"][stream] == 10
    offset = {"log": log.look().identity, "read": {stream: 4}}
    assert begin(log, offset) == offset
    log.close()


def test_gaps_can_end_the_run(nats, planner):
    """Retention has passed the position. Pass: refused, with the way on."""
    stream = make_stream(nats, max_msgs=5)
    plans = planner(stream)
    start = plans.initial()
    publish(nats, f"{stream}.a", range(12))
    time.sleep(0.1)
    with pytest.raises(ExternalError, match=r"begins at 8.*read to 0.*on_loss: report"):
        plans.latest(start)


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_a_work_queue_is_no_log(nats, planner, retention):
    """A stream that removes what is acknowledged, be it by others. Pass: an error that names `jetstream_queue`."""
    stream = make_stream(nats, retention=retention)
    with pytest.raises(OptionError, match="can't be read again") as error:
        planner(stream).initial()
    assert error.value.hint == "Write `use: jetstream_queue`."


def test_mirrors_and_streams_of_sources(nats, opened):
    """A mirror has the origin's sequences, a stream with two sources its own. Pass: both are read whole."""
    one, two = make_stream(nats), make_stream(nats)
    publish(nats, f"{one}.a", range(20))
    publish(nats, f"{two}.a", range(20, 40))
    mirror = make_stream(nats, unique("M"), subjects=[], mirror=StreamSource(name=one))
    both = [StreamSource(name=one), StreamSource(name=two)]
    whole = make_stream(nats, unique("W"), subjects=[], sources=both)
    until = time.monotonic() + 20
    while info(nats, mirror).state.messages < 20 or info(nats, whole).state.messages < 40:
        assert time.monotonic() < until, "not copied"
        time.sleep(0.1)
    bodies, sequences, gaps = read(opened(mirror), 5, 20)
    assert (bodies, gaps) == ([b"%d" % n for n in range(5, 20)], [])
    assert sequences == list(range(6, 21))
    bodies, sequences, _ = read(opened(whole), 0, 40)
    assert sorted(map(int, bodies)) == list(range(40))
    assert sequences == list(range(1, 41))


def test_headers_keep_each_value():
    """A name several times, odd spaces, none, bytes that are no text. Pass: all values, none changed."""
    raw = b"NATS/1.0\r\nA: 1\r\nB:x:y\r\nA:  2 \r\nEmpty:\r\nBin: \xff\xfe\r\n\r\n"
    assert pairs(raw) == [
        ("A", b"1, 2"),
        ("B", b"x:y"),
        ("Empty", b""),
        ("Bin", b"\xff\xfe"),
    ]
    assert pairs(None) == []


def test_a_stream_that_is_not_there(nats, planner):
    """Its name is wrong. Pass: an error at once that names it and the server."""
    with pytest.raises(
        ExternalError, match=f"no stream 'nowhere' at 127.0.0.1:{nats.port}"
    ) as error:
        planner("nowhere").initial()
    assert isinstance(error.value, PermanentError)


def test_a_consumer_that_does_not_see_all_yet_is_not_believed(nats, opened, monkeypatch):
    """The first consumers see nothing, one goes away, as beside a replica that is behind. Pass: all
    messages come, and none is told as gone.
    """
    stream = make_stream(nats)
    publish_many(nats, f"{stream}.a", numbered(100))
    reader = opened(stream)
    make, made = reader.consumer_after, []

    def behind(sequence):
        made.append(sequence)
        if len(made) < 3:
            return make(100)
        consumer = make(sequence)
        if len(made) == 3:
            at(nats, lambda js, _: js.delete_consumer(stream, consumer.name))
        return consumer

    monkeypatch.setattr(reader, "consumer_after", behind)
    bodies, _, gaps = read(reader, 0, 100)
    assert bodies == numbered(100)
    assert gaps == []
    assert len(made) > 3


def test_a_bounded_run_is_never_told_unasked_that_nothing_is_new(nats, planner):
    """Offsets are asked for at once, one after another, in batches of three. Pass: to the end, no pause."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(10))
    plans = planner(stream, max_rows=3)
    start = plans.initial()
    plans.prepare()
    publish(nats, f"{stream}.a", range(10))
    ends = []
    while (end := plans.latest(start)) != start:
        ends.append(end["read"][stream])
        start = end
    assert ends == [3, 6, 9, 10]


def test_a_message_that_looks_like_the_servers_word_is_a_message(nats, opened):
    """Pass: whatever its status says, it is read, and so are those behind it."""
    stream = make_stream(nats)
    for code in (404, 503, 100):
        publish_a_status(nats, f"{stream}.a", code)
    publish(nats, f"{stream}.a", ["behind"])
    bodies, sequences, gaps = read(opened(stream), 0, 4)
    assert (bodies, sequences, gaps) == ([b"", b"", b"", b"behind"], [1, 2, 3, 4], [])
