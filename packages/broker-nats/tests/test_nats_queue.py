"""The receiver of `jetstream_queue`: redelivery, long work, limits of deliveries, and who shares what."""

from __future__ import annotations

import base64
import json
import pickle
import shutil
import time

import pytest
from mainstem import PermanentError, TransientError
from mainstem_broker_nats.inboxes import Raw
from mainstem_broker_nats.source.options import JetStreamQueueOptions
from mainstem_broker_nats.source.queue import JetStreamQueue
from mainstem_broker_nats.source.queue_receiver import GoingOn, QueueReceiver
from mainstem_broker_nats.testing import NATS
from mainstem_ingress import loss_of
from mainstem_ingress.segments import file_of
from nats.js.api import AckPolicy, ConsumerConfig
from nats_streams import api, at, consumers, info, make_stream, publish, publish_a_status, unique


def options(server, stream, **more):
    given = {"servers": server.url, "stream": stream, "consumer": "c", **more}
    return JetStreamQueueOptions.model_validate(given)


@pytest.fixture
def receivers(nats):
    """Makes receivers, connected; all are closed at the end."""
    made = []

    def make(stream, number=0, **more):
        made.append(QueueReceiver(options(nats, stream, **more), number, "t"))
        made[-1].connect(None)
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


def take(receiver, count, seconds=15.0):
    """Take until there are so many messages."""
    found, until = [], time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < until, f"{len(found)} of {count} came"
        found += receiver.take(0.1)
    return found


def consumer(server, stream, name="c"):
    return at(server, lambda js, _: js.consumer_info(stream, name))


def test_a_consumer_is_made_as_the_options_say(nats, receivers):
    """None is there. Pass: a durable one with explicit acknowledgements, and what was chosen."""
    stream = make_stream(nats, retention="workqueue")
    receivers(stream, ack_wait="7 s", max_deliver=5, prefetch=300, subjects=[f"{stream}.a.>"])
    config = consumer(nats, stream).config
    assert config.ack_policy == AckPolicy.EXPLICIT
    assert (config.durable_name, config.ack_wait, config.max_deliver) == ("c", 7.0, 5)
    assert config.filter_subject == f"{stream}.a.>"
    assert config.max_ack_pending >= 600


def test_pauses_leave_nothing_behind(nats, receivers):
    """Ten pauses, before each of which messages come that are not taken. Pass: each message comes, and the
    connection knows of as many inboxes as before the first."""
    stream = make_stream(nats, retention="workqueue")
    receiver = receivers(stream)
    inboxes = receiver._connection.client.inboxes
    known, found = len(inboxes), []
    for number in range(10):
        receiver.take(0)  # asks for more
        publish(nats, f"{stream}.a", [number])
        receiver.pause()
        receiver.resume()
        assert len(inboxes) == known
        found += take(receiver, 1)
    assert [message.value for message in found] == [b"%d" % number for number in range(10)]


def test_messages_have_what_jetstream_knows_of_them(nats, receivers):
    """With headers, one of them twice. Pass: value, subject, time, id by stream and sequence."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.a.b", ["v"], {"one": "1", "Nats-Msg-Id": "m"})
    (message,) = take(receivers(stream), 1)
    assert message.value == b"v"
    assert message.key == f"{stream}.a.b".encode()
    assert message.origin == f"{stream}.a.b"
    assert dict(message.headers) == {"one": b"1", "Nats-Msg-Id": b"m"}
    assert abs(message.timestamp / 1e6 - time.time()) < 60
    created = info(nats, stream).created
    assert message.id.split(b"/")[1] == b"1"
    assert str(created)[:10] in message.id.decode()


@pytest.mark.in_turn
def test_one_that_is_not_acknowledged_is_given_again_with_the_same_id(nats, receivers):
    """Taken, not acknowledged, and the wait is over. Pass: it comes again, told apart by nothing."""
    stream = make_stream(nats, retention="workqueue")
    receiver = receivers(stream, ack_wait="1 s")
    publish(nats, f"{stream}.a", range(3))
    first = take(receiver, 3)
    receiver.close()
    receiver.connect(None)
    again = take(receiver, 3)
    assert [message.id for message in again] == [message.id for message in first]
    receiver.acknowledge(again)
    assert info(nats, stream).state.messages == 0


@pytest.mark.in_turn
def test_what_waits_for_the_disk_is_not_given_again(nats, receivers):
    """In hand for three times the acknowledgement's wait. Pass: given once, to one of two receivers."""
    stream = make_stream(nats, retention="workqueue")
    receiver = receivers(stream, ack_wait="1 s", prefetch=10)
    publish(nats, f"{stream}.a", range(5))
    taken = take(receiver, 5)
    other = receivers(stream, 1, ack_wait="1 s")
    until = time.monotonic() + 3.5
    while time.monotonic() < until:
        assert list(receiver.take(0.05)) == []
        assert list(other.take(0.05)) == []
    receiver.acknowledge(taken)
    assert info(nats, stream).state.messages == 0
    assert consumer(nats, stream).num_redelivered == 0


def test_no_more_than_was_said_is_in_hand(nats, receivers):
    """A hundred wait and ten may be in hand. Pass: ten come, and ten more when those are acknowledged."""
    stream = make_stream(nats, retention="workqueue")
    receiver = receivers(stream, prefetch=10)
    publish(nats, f"{stream}.a", range(100))
    taken = take(receiver, 10)
    for _ in range(5):
        assert list(receiver.take(0.1)) == []
    assert len(taken) == 10
    receiver.acknowledge(taken)
    assert [int(message.value) for message in take(receiver, 10)] == list(range(10, 20))


def test_two_receivers_share_the_messages(nats, receivers):
    """Two receivers, two hundred messages. Pass: each message goes to one of them."""
    stream = make_stream(nats, retention="workqueue")
    both = [receivers(stream, number, prefetch=20, receivers=2) for number in range(2)]
    publish(nats, f"{stream}.a", range(200))
    found, until = [[], []], time.monotonic() + 20
    while sum(map(len, found)) < 200:
        assert time.monotonic() < until
        for receiver, got in zip(both, found, strict=True):
            messages = list(receiver.take(0.02))
            if messages:
                receiver.acknowledge(messages)
            got += [int(message.value) for message in messages]
    assert sorted(found[0] + found[1]) == list(range(200))
    assert all(found)
    assert info(nats, stream).state.messages == 0


@pytest.mark.in_turn
def test_a_message_that_jetstream_gives_up_on_is_told(nats, receivers):
    """Given twice, as often as may be, and never acknowledged. Pass: a row for `lost` with its sequence,
    and the message is in the stream still.
    """
    stream = make_stream(nats, retention="workqueue")
    publish(nats, f"{stream}.a", ["poison"])
    receiver = receivers(stream, ack_wait="1 s", max_deliver=2)
    for _ in range(2):
        take(receiver, 1)
        receiver.close()
        receiver.connect(None)
    (row,) = take(receiver, 1)
    loss = loss_of(row)
    assert (loss["from"], loss["count"]) == ("00000000000000000001", 1)
    assert "given 2 times" in loss["reason"]
    assert receiver.facts()["given_up"] == 1
    receiver.acknowledge([row])
    assert info(nats, stream).state.messages == 1


def test_a_stream_made_anew_has_other_ids(nats, receivers):
    """Deleted and made again while the receiver is there. Pass: it goes on; sequence 1 is another message."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", ["old"])
    receiver = receivers(stream)
    (old,) = take(receiver, 1)
    at(nats, lambda js, _: js.delete_stream(stream))
    make_stream(nats, stream)
    publish(nats, f"{stream}.a", ["new"])
    receiver.close()
    receiver.connect(None)
    (new,) = take(receiver, 1)
    assert new.value == b"new"
    assert new.id != old.id
    assert new.id.split(b"/")[1] == old.id.split(b"/")[1] == b"1"


def test_a_consumer_that_pushes_is_refused(nats):
    """The durable consumer has a deliver subject. Pass: permanent, and the reason."""
    stream = make_stream(nats)
    config = ConsumerConfig(
        durable_name="c", deliver_subject=unique("d"), ack_policy=AckPolicy.EXPLICIT
    )
    at(nats, lambda js, _: js.add_consumer(stream, config))
    receiver = QueueReceiver(options(nats, stream), 0, "t")
    with pytest.raises(PermanentError, match="pulled from, with explicit"):
        receiver.connect(None)
    receiver.close()


def test_a_server_that_fell_back_gives_other_ids(tmp_path):
    """The store is put back, as after a loss of power, and another message gets the sequence. Pass: its id
    is another one, so that it is stored.
    """
    with NATS(tmp_path / "server") as server:
        stream = make_stream(server, retention="workqueue")
        kept = tmp_path / "kept"
        ids = []
        for body in ("old", "new"):
            server.stop()
            if kept.exists():
                shutil.rmtree(server.folder / "data")
                shutil.copytree(kept, server.folder / "data")
            else:
                shutil.copytree(server.folder / "data", kept)
            server.start()
            publish(server, f"{stream}.a", [body])
            receiver = QueueReceiver(options(server, stream), 0, "t")
            receiver.connect(None)
            (message,) = take(receiver, 1)
            receiver.acknowledge([message])
            receiver.close()
            assert message.value == body.encode()
            ids.append(message.id)
        old, new = (each.split(b"/") for each in ids)
        assert old[:2] == new[:2]
        assert old != new


def test_a_consumer_that_is_gone_is_not_made_again(nats):
    """Removed after a message was stored. Pass: permanent with the choices; with nothing stored, or of
    another stream of that name, it is made; a second receiver leaves it to the first.
    """
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", ["it"])
    receiver = QueueReceiver(options(nats, stream), 0, "t")
    receiver.connect(None)
    (message,) = take(receiver, 1)
    receiver.acknowledge([message])
    receiver.close()
    receiver.connect(None)
    receiver.close()
    at(nats, lambda js, _: js.delete_consumer(stream, "c"))
    with pytest.raises(
        PermanentError, match="is gone.*all again.*nats consumer add.*another checkpoint"
    ):
        receiver.connect(None)
    receiver.close()
    later = GoingOn(options(nats, stream), 0, "t")
    with pytest.raises(PermanentError, match="is gone"):
        later.connect(None)
    later.close()
    assert consumers(nats, stream) == []
    second = QueueReceiver(options(nats, stream, receivers=2), 1, "t")
    with pytest.raises(TransientError, match="receiver 0 makes it"):
        second.connect(None)
    second.close()
    first = QueueReceiver(options(nats, stream), 0, "t")
    first.connect(None)
    first.close()
    assert consumers(nats, stream) == ["c"]


def test_a_log_with_messages_is_gone_on_with(nats, tmp_path):
    """Pass: the receivers of a later run know that messages were stored."""
    source = JetStreamQueue(options(nats, "s"))
    for stored, name in ((False, "QueueReceiver"), (True, "GoingOn")):
        if stored:
            log = source.log(tmp_path)
            log.receiver("0").mkdir(parents=True)
            file_of(log.receiver("0"), 0).touch()
        (process,) = source.processes("n", tmp_path)
        task = pickle.loads(base64.b64decode(process.stdin))  # our own
        assert task.receiver.endswith(f".queue_receiver:{name}")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subjects": ["S.b"]}, r"`subjects` is \['S.b'\], and the consumer's is \['S.a'\]"),
        ({"max_deliver": 7}, "`max_deliver` is 7, and the consumer's is 4"),
        ({"ack_wait": "9 s"}, "`ack_wait` is 9 s, and the consumer's is 5 s"),
        ({}, ""),
        ({"subjects": ["S.a"], "max_deliver": 4, "ack_wait": "5 s"}, ""),
    ],
)
def test_options_that_differ_from_the_consumer(nats, given, said):
    """Pass: permanent, with both values; those that are left out or the same are no matter."""
    stream = make_stream(nats)
    given = {name: _named(value, stream) for name, value in given.items()}
    config = ConsumerConfig(
        durable_name="c",
        ack_policy=AckPolicy.EXPLICIT,
        filter_subject=f"{stream}.a",
        max_deliver=4,
        ack_wait=5,
    )
    at(nats, lambda js, _: js.add_consumer(stream, config))
    receiver = QueueReceiver(options(nats, stream, **given), 0, "t")
    try:
        if said:
            with pytest.raises(PermanentError, match=said.replace("S.", f"{stream}.")):
                receiver.connect(None)
        else:
            receiver.connect(None)
    finally:
        receiver.close()


def _named(value, stream):
    if isinstance(value, list):
        return [each.replace("S.", f"{stream}.") for each in value]
    return value


def test_pulls_keep_to_the_consumers_limits(nats, receivers):
    """A consumer that gives five messages to a pull, which stands for two seconds. Pass: all come."""
    stream = make_stream(nats)
    config = {
        "durable_name": "c",
        "ack_policy": "explicit",
        "max_batch": 5,
        "max_expires": 2 * 10**9,
    }
    body = json.dumps({"stream_name": stream, "config": config}).encode()
    assert b'"error"' not in api(nats, f"CONSUMER.CREATE.{stream}.c", body)
    receiver = receivers(stream)
    publish(nats, f"{stream}.a", range(12))
    assert [int(message.value) for message in take(receiver, 12)] == list(range(12))


def test_a_message_that_looks_like_the_servers_word_is_a_message(nats, receivers):
    """Pass: whatever its status says, it comes, is acknowledged and gone, and so are those behind it."""
    stream = make_stream(nats, retention="workqueue")
    for code in (404, 503, 100):
        publish_a_status(nats, f"{stream}.a", code)
    publish(nats, f"{stream}.a", ["behind"])
    receiver = receivers(stream)
    found = take(receiver, 4)
    assert [message.value for message in found] == [b"", b"", b"", b"behind"]
    receiver.acknowledge(found)
    assert info(nats, stream).state.messages == 0


def test_the_servers_word_has_a_status_and_no_reply():
    """Pass: a message is none, with a status too, should a server ever keep one."""
    status = b"NATS/1.0 404 No Messages\r\n\r\n"
    assert Raw(b"_INBOX.a.b", b"", b"", status).is_status
    for reply, headers in (
        (b"$JS.ACK.s", status),
        (b"$JS.ACK.s", None),
        (b"", b"NATS/1.0\r\na: b\r\n\r\n"),
    ):
        assert not Raw(b"s.a", reply, b"", headers).is_status
