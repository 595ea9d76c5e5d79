"""The receiver of the source `nats`: what comes, what is counted as lost, and who is let in."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest
from mainstem import OptionError, PermanentError, TransientError
from mainstem_broker_nats.source.nats import NATSSource
from mainstem_broker_nats.source.nats_receiver import REPLY, CoreReceiver
from mainstem_broker_nats.source.options import NATSSourceOptions, overlap
from mainstem_broker_nats.testing import NATS
from mainstem_ingress import loss_of
from nats_streams import say, unique
from pydantic import ValidationError


def options(server, *subjects, **more):
    given = {"servers": server.url, "subjects": list(subjects), **more}
    return NATSSourceOptions.model_validate(given)


@pytest.fixture
def receivers(nats):
    """Makes receivers, connected; all are closed at the end."""
    made = []

    def make(*subjects, server=nats, **more):
        made.append(CoreReceiver(options(server, *subjects, **more), len(made), "t"))
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


def test_subjects_with_wildcards(nats, receivers):
    """Two patterns, messages to them and to others. Pass: theirs alone, each with its own subject."""
    root = unique("w")
    receiver = receivers(f"{root}.*.t", f"{root}.all.x.>")
    for subject in (f"{root}.a.t", f"{root}.a.x", f"{root}.all.x.y", f"{root}.b.t"):
        say(nats, subject, ["v"])
    found = take(receiver, 3)
    assert sorted(message.origin for message in found) == [
        f"{root}.a.t",
        f"{root}.all.x.y",
        f"{root}.b.t",
    ]
    assert all(message.key == message.origin.encode() for message in found)
    assert list(receiver.take(0.3)) == []


def test_headers_and_where_an_answer_is_wanted(nats, receivers):
    """Pass: headers are kept, the reply subject is one of them."""
    subject = unique("h")
    receiver = receivers(subject)
    say(nats, subject, ["v"], headers={"a": "1"}, reply="answers.here")
    (plain,) = take(receiver, 1)
    assert dict(plain.headers) == {"a": b"1", REPLY: b"answers.here"}
    assert plain.refused is None


def test_a_queue_group_shares(nats, receivers):
    """Two receivers of a group and one without. Pass: the two share the messages, the third has all."""
    subject = unique("q")
    one, two = (receivers(subject, queue="workers") for _ in range(2))
    alone = receivers(subject)
    say(nats, subject, range(400))
    assert [int(message.value) for message in take(alone, 400)] == list(range(400))
    shared, until = [], time.monotonic() + 15
    while len(shared) < 400:
        assert time.monotonic() < until, f"{len(shared)} came"
        shared += [*one.take(0.05), *two.take(0.05)]
    assert sorted(int(message.value) for message in shared) == list(range(400))


def test_what_there_is_no_room_for_is_counted(nats, receivers):
    """Room for ten, fifty come during a pause, then five more. Pass: ten, a row that tells of forty, five."""
    subject = unique("s")
    receiver = receivers(subject, pending_messages=10)
    receiver.pause()
    say(nats, subject, range(50))
    inbox = receiver._inboxes[0]
    until = time.monotonic() + 10
    while inbox.dropped < 40:
        assert list(receiver.take(0.05)) == []
        assert time.monotonic() < until
    receiver.resume()
    found = take(receiver, 11)
    gaps = [loss_of(message) for message in found if loss_of(message)]
    assert [(told["count"], "slow consumer" in told["reason"]) for told in gaps] == [(40, True)]
    assert [int(m.value) for m in found if not loss_of(m)] == list(range(10))
    assert receiver.facts()["dropped"] == 40
    say(nats, subject, range(50, 55))
    assert [int(message.value) for message in take(receiver, 5)] == list(range(50, 55))


def test_drops_before_a_broken_connection_are_counted(nats, receivers):
    """Ten are dropped and told, at once twenty more, then the connection breaks. Pass: thirty are told."""
    subject = unique("d")
    receiver = receivers(subject, pending_messages=10)
    counted = 0
    for dropped, count in ((10, 20), (30, 30)):
        receiver.pause()
        say(nats, subject, range(count))
        until = time.monotonic() + 10
        while receiver._inboxes[0].dropped < dropped:
            assert time.monotonic() < until
            time.sleep(0.02)
        receiver.resume()
        if not counted:
            counted += sum(loss_of(m)["count"] for m in take(receiver, 11) if loss_of(m))
    receiver._connection.run(receiver._connection.client.close())
    found = []
    with suppress(TransientError):
        for _ in range(100):
            found += receiver.take(0.05)
    assert counted + sum(loss_of(m)["count"] for m in found if loss_of(m)) == 30


def test_a_broken_connection_is_told(tmp_path, receivers):
    """The server is killed and comes back. Pass: unreachable, then a row of unknown count, then messages."""
    with NATS(tmp_path / "server") as server:
        subject = unique("b")
        receiver = receivers(subject, server=server)
        say(server, subject, ["before"])
        assert [message.value for message in take(receiver, 1)] == [b"before"]
        server.kill()
        with pytest.raises(TransientError):
            take(receiver, 1)
        receiver.close()
        server.start()
        receiver.connect(None)
        (told,) = take(receiver, 1)
        assert loss_of(told)["count"] is None
        assert "went to nobody here" in loss_of(told)["reason"]
        say(server, subject, ["after"])
        assert [message.value for message in take(receiver, 1)] == [b"after"]


def test_a_subject_that_is_forbidden(tmp_path):
    """The user may not subscribe. Pass: permanent, and the subject is named."""
    settings = 'authorization { users: [{user: a, password: b, permissions: {subscribe: {deny: "no.>"}}}] }'
    with NATS(tmp_path / "server", settings) as server:
        receiver = CoreReceiver(options(server, "no.entry", user="a", password="b"), 0, "t")
        with pytest.raises(PermanentError, match="Permissions Violation.*no.entry"):
            receiver.connect(None)
        receiver.close()


def test_nothing_is_left_behind_after_closing(nats, receivers):
    """Six connections, a new message over each. Pass: as many threads as before."""
    subject = unique("n")
    receiver = receivers(subject)
    receiver.close()
    before = threading.active_count()
    for number in range(6):
        receiver.connect(None)
        say(nats, subject, [number])
        assert [message.value for message in take(receiver, 1)] == [b"%d" % number]
        receiver.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.*", "a.c", True),
        ("a.*", "a.c.d", False),
        ("a.>", "a.c.d", True),
        ("a.>", "a", False),
        ("*.b", "a.*", True),
        ("a.b.>", "a.b", False),
        (">", "a", True),
    ],
)
def test_patterns_that_overlap(one, other, both):
    """Pass: told, in either order, whether a subject can match both."""
    assert overlap(one, other) is both
    assert overlap(other, one) is both


def test_options_that_would_double():
    """Pass: refused, with the reason."""
    whole = {"servers": "nats://host", "subjects": ["a"]}
    with pytest.raises(OptionError, match="or a `queue` that shares"):
        NATSSource(NATSSourceOptions.model_validate({**whole, "receivers": 2}))
    with pytest.raises(ValidationError, match="overlap"):
        NATSSourceOptions.model_validate({**whole, "subjects": ["a.>", "a.b"]})


@pytest.mark.in_turn
def test_a_break_during_a_pause_is_told_with_its_time(tmp_path):
    """The server goes while the log has no room, and room is there a second later. Pass: the row in `lost`
    has the time since the connection broke.
    """
    with NATS(tmp_path / "server") as server:
        receiver = CoreReceiver(options(server, unique("p")), 0, "t")
        receiver.connect(None)
        receiver.pause()
        server.kill()
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            assert list(receiver.take(0.1)) == []
        receiver.resume()
        with pytest.raises(TransientError):
            receiver.take(0.1)
        receiver.close()
        server.start()
        receiver.connect(None)
        (row,) = take(receiver, 1)
        receiver.close()
        seconds = float(loss_of(row)["reason"].split("back after ")[1].split(" s")[0])
        assert seconds > 1.0
