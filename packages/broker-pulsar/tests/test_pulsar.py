"""Messages as they come and go: keys, parts, compaction, numbers; who may come."""

from __future__ import annotations

import subprocess
import threading
import time
import uuid
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from mainstem import (
    DocumentError,
    FencedError,
    OptionError,
    PermanentError,
    Reached,
    TransientError,
)
from mainstem.columns import arrow_type, read_columns
from mainstem.patience import retry
from mainstem.plan.build import make_plan
from mainstem.positions import Part
from mainstem.positions.source import first_file
from mainstem.sinks import LANE, NUMBER, Refused
from mainstem_broker_pulsar.admin import Admin, Entry, Ledgers
from mainstem_broker_pulsar.client import Client, Timeout
from mainstem_broker_pulsar.content import LAST, Place, place_at, position
from mainstem_broker_pulsar.log import TopicLog
from mainstem_broker_pulsar.options import PulsarOptions, PulsarQueueOptions, PulsarSourceOptions
from mainstem_broker_pulsar.range import EarlierError, Range
from mainstem_broker_pulsar.receiver import PulsarReceiver
from mainstem_broker_pulsar.sender import NumberedSender, partition_of
from mainstem_broker_pulsar.sink import PulsarSink
from mainstem_broker_pulsar.source import PulsarSource
from mainstem_broker_pulsar.testing import Pulsar, jars
from mainstem_egress.sink import dispatcher_of
from mainstem_testkit.certificates import make_certificates
from mainstem_testkit.conformance.receiver import taken
from mainstem_testkit.conformance.sender import batch_of, send_by
from mainstem_testkit.pipelines import PipelineFolder, wait_for
from mainstem_testkit.server import free_port
from pulsar_clients import SHARED, client, put, read
from pulsar_secured import settings, token
from pydantic import ValidationError


@pytest.fixture
def topic():
    return f"t-{uuid.uuid4().hex}"


def path(topic):
    return f"persistent/public/default/{topic}"


def source_options(server, topic, **more):
    given = {
        "url": server.url,
        "admin_url": server.admin_url,
        "topic": topic,
        "give_up": "3 s",
        **more,
    }
    return PulsarSourceOptions.model_validate(given)


@contextmanager
def log(server, topic, **more):
    with closing(TopicLog(source_options(server, topic, **more), "node", "test")) as made:
        yield made


SCHEMA = pa.schema(
    [(each.name, arrow_type(each.type or "")) for each in read_columns(PulsarSource.columns)]
)


def rows(made, after=None, end=None, *, gaps=False):
    """Return the rows of all partitions, and gaps, or of a range of the first."""
    seen = made.look()
    found, missing = [], []
    for partition, span in seen.spans.items():
        begin = span.first - 1 if after is None else after
        part = Part(seen.identity, partition, begin, span.last if end is None else end)
        for chunk in made.read(part, SCHEMA, gaps=gaps):
            found += chunk.rows.to_pylist()
            missing += chunk.gaps
    return (found, missing) if gaps else found


def planned(server, topic, **more):
    """Return the rows of all batches, as the planner cuts them."""
    reading = PulsarSource(source_options(server, topic, **more)).reading("node", 2)
    found = []
    with closing(reading.planner()) as planner:
        at = planner.initial()
        planner.prepare()
        while (end := planner.latest(at)) != at:
            for part in planner.parts(at, end):
                found += [row for each in reading.read(part, SCHEMA) for row in each.to_pylist()]
            at = end
    return found


def options(kind, server, topic, **more):
    given = {"url": server.url, "topic": topic, "connect_timeout": "5 s", **more}
    if kind is PulsarOptions:
        given.setdefault("give_up", "10 s")
    return kind.model_validate(given)


@contextmanager
def receiver(server, topic, number=0, **more):
    told = options(PulsarQueueOptions, server, topic, subscription="ours", **more)
    made = PulsarReceiver(told, number, "node")
    made.connect(None)
    try:
        yield made
    finally:
        made.close()


def row(number, **more):
    told = {"key": b"k%d" % number, "value": b"%d" % number, "_id": number.to_bytes(16, "big")}
    return {**told, **more}


# -- rows -----------------------------------------------------------------------------------------------


def test_a_message_is_a_row_of_both_sources(pulsar, topic):
    """Pass: value, key, properties, times and producer are there; nothing is nothing."""
    at = 1_790_000_000_123
    with client(pulsar.url) as made:
        producer = made.create_producer(topic, "somebody")
        producer.send(
            b"\xff", properties={"a": "b", "ä": ""}, partition_key="k", event_timestamp=at
        )
        producer.send(None, partition_key="gone")
    with log(pulsar, topic) as found:
        first, second = rows(found)
    assert (first["value"], first["key"], first["producer"]) == (b"\xff", b"k", "somebody")
    assert dict(first["headers"]) == {"a": b"b", "ä": b""}
    assert first["event_time"] == datetime.fromtimestamp(at / 1000, UTC)
    assert abs((first["timestamp"] - datetime.now(UTC)).total_seconds()) < 60
    assert first["position"] < second["position"]
    assert place_at(int(first["position"])) == tuple(map(int, first["message_id"].split(":")))
    assert (second["value"], second["key"], second["event_time"]) == (None, b"gone", None)
    assert second["headers"] is None
    with receiver(pulsar, topic) as made:
        one, two = taken(made, 2)
    assert (one.value, one.key, dict(one.headers)) == (b"\xff", b"k", {"a": b"b", "ä": b""})
    assert one.extra == (at * 1000, "somebody", 0)
    assert (two.value, two.key, two.extra) == (None, b"gone", (None, "somebody", 0))
    assert one.id != two.id


def test_what_is_given_again_has_the_same_id_and_counts(pulsar, topic):
    put(pulsar.url, topic, range(5))
    with receiver(pulsar, topic) as made:
        first = taken(made, 5)
        made.acknowledge(first[:2])
    with receiver(pulsar, topic, 1) as made:
        again = taken(made, 3)
        assert {each.id for each in again} == {each.id for each in first[2:]}
        assert not taken(made, 1, 0.3)


def test_what_others_refuse_counts(pulsar, topic):
    """Pass: `redeliveries` says how often a message was given back."""
    with client(pulsar.url) as made, receiver(pulsar, topic) as ours:
        other = made.subscribe(topic, "ours", SHARED, negative_ack_redelivery_delay_ms=100)
        put(pulsar.url, topic, range(40), batching=False)
        refused = other.receive(5000)
        other.negative_acknowledge(refused)
        found, until = [], time.monotonic() + 10
        while not any(each.extra[2] for each in found) and time.monotonic() < until:
            found += ours.take(0.05)
            with suppress(Timeout):
                other.negative_acknowledge(other.receive(10))
    assert any(each.extra[2] for each in found)


def test_keys_stay_with_their_receivers(pulsar, topic):
    """Pass: two receivers of a key_shared subscription have no key in common, and all of them."""
    with (
        receiver(pulsar, topic, mode="key_shared") as one,
        receiver(pulsar, topic, 1, mode="key_shared") as two,
    ):
        with client(pulsar.url) as made:
            producer = made.create_producer(topic)
            for number in range(60):
                producer.send(b"%d" % number, partition_key=f"k{number % 20}")
        found, until = ([], []), time.monotonic() + 10
        while sum(map(len, found)) < 60 and time.monotonic() < until:
            for each, made in zip(found, (one, two), strict=True):
                each += made.take(0.05)
    keys = [{each.key for each in taken} for taken in found]
    assert all(keys)
    assert not keys[0] & keys[1]
    assert sorted(int(m.value) for m in (*found[0], *found[1])) == list(range(60))


# -- a topic as a log -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(8))
def test_a_message_in_parts_is_of_the_range_that_its_last_is_in(pulsar, topic, cut):
    """Two messages in parts, one within the other's ledger: whole, once, wherever a range is cut."""
    with client(pulsar.url) as made:
        large = made.create_producer(topic, chunking_enabled=True)
        small = made.create_producer(topic)
        small.send(b"1")
        large.send(b"a" * 6_000_000)
        small.send(b"2")
        large.send(b"b" * 11_000_000)
    with log(pulsar, topic, give_up="10 s") as found:
        span = next(iter(found.look().spans.values()))
        where = position(Place(place_at(span.first).ledger, cut, LAST))
        before, missing = rows(found, span.first - 1, where, gaps=True)
        after, more = rows(found, where, span.last, gaps=True)
    assert [len(each["value"]) for each in before + after] == [1, 6_000_000, 1, 11_000_000]
    assert not missing
    assert not more


@pytest.mark.in_turn
def test_transactions_are_read_when_they_are_committed(tmp_path, topic):
    """Pass: an open one holds up what comes after it, one that is given up is passed, marks are no messages."""
    settings = {"transactionCoordinatorEnabled": "true"}
    with Pulsar(tmp_path / "broker", settings) as server:
        server.ask(path(topic), "PUT")
        with transactions(server, topic) as does, log(server, topic) as made:

            def values():  # a topic that is loaded anew looks for open transactions first
                return [each["value"].decode() for each in retry(lambda _: rows(made), 30.0)]

            does("plain one", "begin a", "begin b", "send a two", "send b gone", "plain three")
            assert values() == ["one"]
            does("abort b")
            assert values() == ["one"]
            server.ask(f"{path(topic)}/unload", "PUT")  # what is open is in an older ledger then
            does("plain four")
            assert values() == ["one"]
            does("commit a")
            wait_for(lambda: values() == ["one", "two", "three", "four"], 20)
            span = next(iter(made.look().spans.values()))
            does("begin c", "send c five")
            again = next(iter(made.look().spans.values()))
            assert again.last >= span.last  # the end does not move back
            does("commit c")
            wait_for(lambda: values() == ["one", "two", "three", "four", "five"], 20)
        found = planned(server, topic)
    assert [each["value"].decode() for each in found] == ["one", "two", "three", "four", "five"]


@contextmanager
def transactions(server, topic):
    """Yield what takes steps of a program in Java, which sends by the broker's own client."""
    program = Path(__file__).with_name("Transactions.java")
    java = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", str(program)]
    process = subprocess.Popen(
        [*java, server.url, topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def answered(line):
        while (told := process.stdout.readline().strip()) != line:
            assert told or process.poll() is None, "the program ended"

    answered("ready")

    def does(*steps):
        for step in steps:
            process.stdin.write(f"{step}\n")
            process.stdin.flush()
            answered("done")

    try:
        yield does
    finally:
        process.kill()
        process.wait()


def test_compaction_leaves_the_newest_of_each_key(pulsar, topic):
    """Pass: `compacted` reads what is left, then what came since, also when the rest is gone."""
    with client(pulsar.url) as made:
        producer = made.create_producer(topic)
        for number in range(30):
            producer.send(b"%d" % number, partition_key=f"k{number % 3}")
        producer.send(None, partition_key="k0")
        pulsar.ask(f"{path(topic)}/compaction", "PUT")
        wait_for(lambda: pulsar.ask(f"{path(topic)}/compaction")["status"] == "SUCCESS", 30)
        producer.send(b"new", partition_key="k1")
    with log(pulsar, topic, compacted=True) as found:
        values = [(each["key"], each["value"]) for each in rows(found) if each["value"]]
    assert values == [(b"k1", b"28"), (b"k2", b"29"), (b"k1", b"new")]
    with log(pulsar, topic) as found:
        assert len(rows(found)) == 32
    # Compaction's ledger outlives the topic's.
    pulsar.ask(f"{path(topic)}/unload", "PUT")
    put(pulsar.url, topic, [7])
    pulsar.ask(f"{path(topic)}/truncate", "DELETE")
    wait_for(lambda: len(pulsar.ask(f"{path(topic)}/internalStats")["ledgers"]) == 1, 20)
    with log(pulsar, topic, compacted=True) as found:
        left = [each["key"] for each in planned(pulsar, topic, compacted=True)]
        assert left == [each["key"] for each in rows(found)]
    assert {b"k1", b"k2", b"key 1"} <= set(left)


def test_what_was_never_looked_at_is_not_missed(pulsar, topic, tmp_path):
    """Pass: ledgers have numbers of their own, so what was before the oldest is nobody's knowledge; what is gone
    since a read began is told, as where it began is on record."""
    pulsar.ask(path(topic), "PUT")
    put(pulsar.url, topic, range(4))
    source = PulsarSource(source_options(pulsar, topic))
    began = Reached(None, tmp_path / "query" / "sources" / "numbers", tmp_path)
    assert source.gone(began) == ""
    file = first_file(tmp_path, began.spark_folder)
    planner = source.reading("node", 1, first=file).planner()
    planner.initial()
    planner.close()
    assert source.gone(began) == ""
    pulsar.ask(f"{path(topic)}/unload", "PUT")
    put(pulsar.url, topic, range(4))
    wait_for(lambda: len(pulsar.ask(f"{path(topic)}/internalStats")["ledgers"]) > 1, 20)
    pulsar.ask(f"{path(topic)}/truncate", "DELETE")
    wait_for(lambda: "messages " in source.gone(began), 20)


def test_a_ledger_that_was_empty_is_no_loss_while_the_topic_is_retained(pulsar, topic):
    """Moved again and again, an idle topic begins where it did; not if nothing retains what came."""
    pulsar.ask(path(topic), "PUT")
    for retained in (-1, 0):
        limit = {"retentionTimeInMinutes": retained, "retentionSizeInMB": retained}
        pulsar.ask(f"{path(topic)}/retention", "POST", limit)
        told = f"{path(topic)}/retention?applied=true"
        wait_for(lambda told=told, limit=limit: pulsar.ask(told) == limit, 20)
        with log(pulsar, topic) as found:
            first, notes = _first(found), found.notes()
            for _ in range(2):
                pulsar.ask(f"{path(topic)}/unload", "PUT")
                assert (_first(found) == first) == bool(retained)
        with log(pulsar, topic) as again:
            again.look()  # as a planner does before it is given an offset to go on from
            again.recall(notes)
            assert (_first(again) == first) == bool(retained)


def _first(found):
    return next(iter(found.look().spans.values())).first


@pytest.mark.parametrize(
    ("sizes", "given", "first", "last"),
    [
        ({7: 0}, (7, -1), (7, 0, 0), (7, 0, -1)),
        ({3: 5, 7: 0}, (3, 4), (3, 0, 0), (7, 0, -1)),  # all is read: on to the next ledger
        ({3: 5, 7: 2}, (7, 1), (3, 0, 0), (7, 1, LAST)),
        ({3: 5, 7: 2}, (8, 0), (3, 0, 0), (7, 1, LAST)),  # there was another one in between
        ({3: 5, 7: 2}, (7, 0), (3, 0, 0), (7, 0, LAST)),  # a transaction is open
        ({3: 5, 7: 2}, (3, 2), (3, 0, 0), (3, 2, LAST)),
        (
            {3: 5, 7: 1},
            (3, 4),
            (3, 0, 0),
            (7, 0, -1),
        ),  # not before where it ended while 7 was empty
        ({3: 5, 7: 0}, (3, 2), (3, 0, 0), (3, 2, LAST)),
    ],
)
def test_a_topic_ends_where_readers_are_given_messages(topic, sizes, given, first, last):
    """Pass: an open transaction holds up what comes after it, also in another ledger."""
    told = {"url": "pulsar://host", "admin_url": "http://host", "topic": topic}
    made = TopicLog(PulsarSourceOptions.model_validate(told), "node", "test")
    made._ledgers = {topic: Ledgers(sizes, given, 0)}
    span = made._span(topic)
    assert (span.first, span.last) == (position(first), position(last))


def parts(*chunks, first=0):
    """Return a range over a ledger of parts of one message, from the entry `first` on."""
    entries = [Entry(1, None, ("uuid", each, 3), open=False, void=False) for each in chunks]
    admin = SimpleNamespace(entry=lambda _, __, number: entries[number])
    made = SimpleNamespace(
        admin=admin,
        options=SimpleNamespace(compacted=False),
        topic=lambda _: "t",
        called=lambda _: "the topic",
    )
    begun = position((1, first, 0)) - 1
    return Range(made, Part("then", "t", begun, position((1, len(chunks), 0)) - 1), "n", gaps=True)


def missing(found, count):
    """Return the gaps of such a range, of which no message came."""
    told = found._missing(
        found._part.after, found._part.end, Ledgers({1: count}, (1, 0), 0), SCHEMA
    )
    return [gap for chunk in told for gap in chunk.gaps]


def test_an_end_that_was_sent_twice_is_no_message():
    """Pass: it is passed; the message came with the first of the two."""
    assert missing(parts(0, 1, 2, 2, first=3), 4) == []


def test_a_message_that_begins_before_is_read_from_there_once():
    """Pass: again from its first part; what does not come then either is an error, or a loss that is told."""
    found = parts(0, 1, 2, first=2)
    with pytest.raises(EarlierError):
        missing(found, 3)
    assert found._back == position((1, 0, 0)) - 1
    with pytest.raises(TransientError, match="did not come"):
        missing(found, 3)
    torn = parts(0, 1, 1, 2, first=3)
    with pytest.raises(EarlierError):
        missing(torn, 4)
    (gap,) = missing(torn, 4)
    assert gap.count == 1
    assert "do not follow each other" in gap.reason
    (gone,) = missing(parts(1, 2, first=1), 2)
    assert "whose first are gone" in gone.reason


def test_parts_are_read_again_without_patience(pulsar, topic):
    """Pass: to begin earlier is no failure, which `give_up: 0` would not bear."""
    with client(pulsar.url) as made:
        made.create_producer(topic, chunking_enabled=True).send(b"a" * 6_000_000)
    with log(pulsar, topic, give_up="0 s") as found:
        span = next(iter(found.look().spans.values()))
        where = position((place_at(span.first).ledger, 0, LAST))
        assert [len(each["value"]) for each in rows(found, where, span.last)] == [6_000_000]


def test_retention_that_is_raised_does_not_hide_a_loss(monkeypatch, topic):
    """Pass: what it was when the offset was planned counts, and the lesser of the two."""
    told = {"url": "pulsar://host", "admin_url": "http://host", "topic": topic}
    for noted, now, same in ((0.0, inf, False), (None, 0.0, False), (None, inf, True)):
        made = TopicLog(PulsarSourceOptions.model_validate(told), "node", "test")
        admin = SimpleNamespace(
            partitions=lambda _: [f"persistent://public/default/{topic}"],
            ledgers=lambda _: Ledgers({7: 4}, (7, 3), 0),
            made=lambda _: "then",
            retained=lambda _, now=now: now,
        )
        monkeypatch.setattr(TopicLog, "admin", admin)
        end = position((3, 9, LAST))
        made.recall({"kept": noted, "looked": time.time() - 86_400, "ends": {topic: end}})
        assert (made.look().spans[topic].first == end + 1) == same
        assert made.notes()["kept"] == (None if now == inf else now)


def test_a_topic_that_is_not_there_is_told(pulsar, topic):
    with log(pulsar, topic) as found, pytest.raises(PermanentError, match="there is no topic"):
        found.look()
    nowhere = f"http://127.0.0.1:{free_port()}"
    away = log(pulsar, topic, admin_url=nowhere)
    with away as found, pytest.raises(TransientError, match="administration"):
        found.look()


def test_a_broker_that_sends_us_to_another_one_is_followed_with_the_login():
    """Pass: the other one is asked with the token too."""
    came = []

    class Broker(BaseHTTPRequestHandler):
        def do_GET(self):
            came.append((self.server, self.headers["Authorization"]))
            if self.server is first:
                self.send_response(307)
                self.send_header("Location", f"http://127.0.0.1:{second.server_port}{self.path}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", "16")
            self.end_headers()
            self.wfile.write(b'{"partitions":2}')

        def log_message(self, *_):
            pass

    with (
        HTTPServer(("127.0.0.1", 0), Broker) as first,
        HTTPServer(("127.0.0.1", 0), Broker) as second,
    ):
        for each in (first, second):
            threading.Thread(target=each.serve_forever, daemon=True).start()
        given = {"url": "pulsar://127.0.0.1", "topic": "t", "token": "ours"}
        told = {**given, "admin_url": f"http://127.0.0.1:{first.server_port}"}
        with closing(Admin(PulsarSourceOptions.model_validate(told))) as admin:
            assert len(admin.partitions("persistent://public/default/t")) == 2
        for each in (first, second):
            each.shutdown()
    assert came == [(first, "Bearer ours"), (second, "Bearer ours")]


def test_it_ends_where_the_offset_does_not_reach(pulsar, topic):
    put(pulsar.url, topic, range(3))
    source = PulsarSource(source_options(pulsar, topic))
    with pytest.raises(OptionError, match=r"has the positions \d+:0:0 to"):
        source.starting_at({"read": {topic: 10**33}})


# -- the sink ---------------------------------------------------------------------------------------------


def test_keys_go_where_clients_in_java_send_them(pulsar, topic):
    """By `String.hashCode`: values from its definition; each partition has its keys in order."""
    assert [partition_of(key, 10**9) for key in ("", "a", "Aa", "BB")] == [0, 97, 2112, 2112]
    assert partition_of("polygenelubricants", 10) == 0  # the least integer, without its sign
    assert partition_of("ä\U0001f600", 10**9) == ((228 * 31 + 0xD83D) * 31 + 0xDE00) % 10**9
    pulsar.ask(f"{path(topic)}/partitions", "PUT", 4)
    sent = [row(number, key=b"k%d" % (number % 9)) for number in range(90)]
    assert not send_by(PulsarSink(options(PulsarOptions, pulsar, topic)), sent)
    with log(pulsar, topic) as found:
        made = rows(found)
    for key in {each["key"] for each in made}:
        own = [each for each in made if each["key"] == key]
        assert {each["partition"] for each in own} == {
            f"{topic}-partition-{partition_of(key.decode(), 4)}"
        }
        assert [int(each["value"]) for each in own] == sorted(int(each["value"]) for each in own)
    assert len(made) == 90


def test_a_large_message_goes_in_parts_or_is_refused(pulsar, topic):
    large = row(1, value=b"x" * 6_000_000)
    refused = send_by(PulsarSink(options(PulsarOptions, pulsar, topic)), [row(0), large, row(2)])
    assert len(refused) == 1
    assert "max_message" in refused[0]["reason"]
    beyond = options(PulsarOptions, pulsar, topic, max_message="100 MB")
    assert len(send_by(PulsarSink(beyond), [large])) == 1  # the brokers' own limit
    assert not send_by(PulsarSink(options(PulsarOptions, pulsar, topic, chunks=True)), [large])
    assert [len(each.data()) for each in read(pulsar.url, topic)] == [1, 1, 6_000_000]


def by_numbers(server, topic, rows, batch, **more):
    """Send rows as a task does, by numbers of a batch."""
    told = options(PulsarOptions, server, topic, **more)
    numbers = pa.array([(batch << 36) + n + 1 for n in range(len(rows))], pa.int64())
    lanes = pa.repeat(pa.scalar(0, pa.int32()), len(rows))
    made = batch_of(rows).append_column(NUMBER, numbers).append_column(LANE, lanes)
    sender = NumberedSender(told, "test", producers="ours")
    with closing(dispatcher_of(sender, told, lambda *_: None)) as sends:
        for message in sender.messages(made, Refused()):
            sends.send(message)
        sends.flush()


def test_an_old_copy_is_told_by_the_topic_itself(pulsar, topic):
    """Pass: what has numbers of an older batch is refused, and not taken for what is there."""
    by_numbers(pulsar, topic, [row(0)], 5)
    by_numbers(pulsar, topic, [row(0), row(1)], 5)
    with pytest.raises(FencedError, match="rows of batch 5"):
        by_numbers(pulsar, topic, [row(2)], 4)
    by_numbers(pulsar, topic, [row(3)], 6)
    assert [each.data() for each in read(pulsar.url, topic)] == [b"0", b"1", b"3"]


def test_all_rows_of_a_retry_are_sent(pulsar, topic, monkeypatch):
    """Pass: also those below the last number that the broker tells, which it may not have stored."""
    opened = Client.producer

    def producer(*given, **more):
        made = opened(*given, **more)
        monkeypatch.setattr(made, "last_sequence_id", lambda: (5 << 36) + 9)
        return made

    monkeypatch.setattr(Client, "producer", producer)
    by_numbers(pulsar, topic, [row(n) for n in range(5)], 5)
    assert [each.data() for each in read(pulsar.url, topic)] == [b"%d" % n for n in range(5)]


def test_parts_have_no_numbers(tmp_path):
    """Pass: with `chunks` the plan takes `microbatch`, and says why not `numbered` if that is asked for."""
    given = {"use": "pulsar", "from": "rows", "with": {"url": "pulsar://host", "topic": "t"}}
    words = {}
    for chunks in (False, True):
        sink = {**given, "with": {**given["with"], "chunks": chunks}}
        document = PipelineFolder(tmp_path / f"{chunks}").document(
            sources={"rows": {"use": "files", "with": {"path": "./in", "format": "message"}}},
            sinks={"out": sink},
        )
        words[chunks] = make_plan(document.file).nodes["out"].delivery_word
    assert words == {False: "numbered", True: "microbatch"}
    sink = {**given, "deliver": "numbered", "with": {**given["with"], "chunks": True}}
    document = PipelineFolder(tmp_path / "asked").document(
        sources={"rows": {"use": "files", "with": {"path": "./in", "format": "message"}}},
        sinks={"out": sink},
    )
    with pytest.raises(DocumentError, match="chunks"):
        make_plan(document.file)


@pytest.mark.in_turn
def test_a_broker_that_is_killed_on_the_way_has_each_row_once(tmp_path, topic):
    """Pass: killed again and again between a producer's return and its answers, by numbers: each once."""
    sent = [row(number) for number in range(20_000)]
    with Pulsar(tmp_path / "broker", {"journalSyncData": "true"}) as server:
        by_numbers(server, topic, sent[:1], 0)
        failed = []

        def send():
            try:
                by_numbers(server, topic, sent, 1, give_up="90 s", in_flight=200)
            except Exception as error:
                failed.append(error)

        sending = threading.Thread(target=send)
        sending.start()
        for _ in range(2):
            time.sleep(0.15)
            assert sending.is_alive()
            server.kill()
            server.start()
        sending.join()
        assert not failed
        by_numbers(server, topic, sent, 1)  # a retry
        found = [int(each.data()) for each in read(server.url, topic)]
    assert found == [0, *range(20_000)]


@pytest.mark.parametrize("how", ["lz4", "zlib", "zstd", "snappy"])
def test_what_is_compressed_is_read_again(pulsar, topic, how):
    sink = PulsarSink(options(PulsarOptions, pulsar, topic, compression=how, batching="by_key"))
    assert not send_by(
        sink, [row(n, event_time=datetime(2026, 1, 1, tzinfo=UTC)) for n in range(9)]
    )
    with log(pulsar, topic) as found:
        assert sorted(int(each["value"]) for each in rows(found)) == list(range(9))


# -- who may come -----------------------------------------------------------------------------------------


@pytest.mark.in_turn
def test_tokens_and_tls(tmp_path, topic):
    """The right token and certificates let in; others, and none, do not, and are in no error."""
    made = tmp_path / "certificates"
    make_certificates(made, {"server": "DNS:localhost"})
    tls, web = free_port(), free_port()
    secured = Pulsar(tmp_path / "secured", settings(made, tls, web), tls)
    secured.token = token("root")
    with secured:
        secured.ask("namespaces/public/default/permissions/us", "POST", ["produce", "consume"])
        mine = {"ca": str(made / "ca.pem")}
        good = {
            "url": f"pulsar+ssl://localhost:{tls}",
            "token": token("us"),
            "tls": mine,
            "connect_timeout": "3 s",
        }
        sink = options(PulsarOptions, secured, topic, **good)
        assert not send_by(PulsarSink(sink), [row(0), row(1)])
        root = {**good, "token": token("root"), "admin_url": f"https://localhost:{web}"}
        with log(secured, topic, **root) as found:
            assert len(rows(found)) == 2
        for wrong in (
            {"token": token("nobody")},
            {"token": "no.such.token"},
            {"token": None},
            {"tls": {"ca": str(made / "other.pem")}},
        ):
            bad = options(PulsarOptions, secured, topic, **{**good, **wrong})
            how = {"batching": "none", "compression": "none", "chunks": False}
            fails = pytest.raises((PermanentError, TransientError))
            with fails as caught, closing(Client(bad)) as opened:
                opened.producer(bad.topic, None, **how, pending=1, seconds=3)
            assert not any(str(each) in str(caught.value) for each in wrong.values() if each)
        nobody = log(secured, topic, **{**root, "token": token("nobody")})
        with nobody as found, pytest.raises(PermanentError, match="40[13]"):
            found.look()


# -- options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"url": "pulsar://us:hunter2@host"}, "without a user"),
        ({"url": "amqp://host"}, "expected pulsar://"),
        ({"user": "us"}, "go together"),
        ({"token": "t", "user": "us", "password": "hunter2"}, "two ways"),
        ({"tls": {}}, r"pulsar\+ssl"),
        ({"topic": "a/b"}, "expected a topic"),
        ({"chunks": True, "batching": "by_key"}, "batching"),
        ({"ledger": "persistent://public/other/ledger"}, "another namespace"),
    ],
)
def test_options_that_do_not_fit_are_refused(given, told):
    with pytest.raises(ValidationError, match=told) as caught:
        PulsarOptions.model_validate({"url": "pulsar://host", "topic": "t", **given})
    assert "hunter2" not in str(caught.value)


def test_positions_are_places():
    for place in (Place(0, 0, 0), Place(2**63 - 1, 7, LAST), Place(3, 10**10 - 1, 5)):
        assert place_at(position(place)) == place
    assert place_at(position(Place(3, 4, LAST)) + 1) == (3, 5, 0)
