"""The permissions that the README says a user of the sources needs are enough."""

from __future__ import annotations

import time

import pytest
from mainstem import ExternalError, PermanentError
from mainstem_broker_nats.source.log import StreamLog
from mainstem_broker_nats.source.options import JetStreamQueueOptions, JetStreamSourceOptions
from mainstem_broker_nats.source.queue_receiver import QueueReceiver
from mainstem_broker_nats.source.ranges import Range
from mainstem_broker_nats.testing import NATS
from nats_streams import make_stream, publish, reading

LOG = (
    "STREAM.INFO.S", "STREAM.MSG.GET.S", "CONSUMER.CREATE.S.>", "CONSUMER.DELETE.S.>",
    "CONSUMER.MSG.NEXT.S.>",
)  # fmt: skip
QUEUE = ("STREAM.INFO.S", "CONSUMER.INFO.S.C", "CONSUMER.CREATE.S.C", "CONSUMER.MSG.NEXT.S.C")


class Open:
    """The same server, for who may do all."""

    def __init__(self, server):
        self.url = server.url.replace("//", "//all:all@")


@pytest.fixture
def server(tmp_path):
    def user(name, publish, subscribe):
        told = ", ".join(f'"{subject}"' for subject in publish)
        heard = ", ".join(f'"{subject}"' for subject in subscribe)
        rights = f"permissions: {{publish: [{told}], subscribe: [{heard}]}}"
        return f"{{user: {name}, password: {name}, {rights}}}"

    log = user("log", [f"$JS.API.{verb}" for verb in LOG], ["mine.>"])
    advisory = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C"
    queue = user(
        "queue", [*(f"$JS.API.{verb}" for verb in QUEUE), "$JS.ACK.S.C.>"], ["_INBOX.>", advisory]
    )
    deaf = user("deaf", ["$JS.API.STREAM.>", "$JS.API.CONSUMER.CREATE.>"], ["_INBOX.>"])
    users = f"{{user: all, password: all}}, {log}, {queue}, {deaf}"
    settings = f"authorization {{ users: [{users}] }}"
    with NATS(tmp_path / "server", settings) as server:
        make_stream(Open(server), "S")
        publish(Open(server), "S.a", range(20))
        yield server


def given(server, user, model=JetStreamSourceOptions, **more):
    options = {"servers": server.url, "user": user, "password": user, "stream": "S"}
    return model.model_validate({**options, "answer_timeout": "3 s", **more})


def test_a_log(server):
    """Planned and read with a filter, with an inbox of the user's own. Pass: all of it comes."""
    options = given(server, "log", inbox="mine.inbox", subjects=["S.>"], on_loss="report")
    whole = reading(options)
    planner, log = whole.planner(), whole.open("reader")
    try:
        start = planner.initial()
        end = planner.latest(start)
        (part,) = planner.parts(start, end)
        range_ = Range(log.stream, part.identity, part.after, part.end, gaps=True)
        chunks = list(range_.chunks())
        assert log.waiting("S", 5, 20) == 15
    finally:
        planner.close()
        log.close()
    assert [int(raw.data) for chunk in chunks for raw in chunk.messages] == list(range(20))


def test_a_queue(server):
    """The consumer is made, messages are taken and acknowledged. Pass: all of it, and none again."""
    receiver = QueueReceiver(given(server, "queue", JetStreamQueueOptions, consumer="C"), 0, "t")
    receiver.connect(None)
    try:
        found, until = [], time.monotonic() + 15
        while len(found) < 20:
            assert time.monotonic() < until, f"{len(found)} came"
            found += receiver.take(0.1)
        receiver.acknowledge(found)
        assert receiver._ask("CONSUMER.INFO.S.C")["num_ack_pending"] == 0
        assert receiver._connection.complaints == []
    finally:
        receiver.close()


@pytest.mark.in_turn
def test_a_user_who_may_not_pull(server):
    """The consumer can be made, and nothing asked of it. Pass: an error that names the subject, and soon."""
    options = given(server, "deaf", give_up="60 s")
    stream = StreamLog(options, "S", (), "t", "messages", "reader").stream
    try:
        state = stream.state()
        with pytest.raises(
            ExternalError, match=r"Permissions Violation.*CONSUMER.MSG.NEXT"
        ) as error:
            list(Range(stream, state.created, 0, 20, gaps=True).chunks())
    finally:
        stream.close()
    assert isinstance(error.value, PermanentError)
