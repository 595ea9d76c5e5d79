"""The receiver of `jetstream_queue`: pulls of a durable consumer, acknowledged one by one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from mainstem import ExternalError, PermanentError, TransientError, failpoint
from mainstem_ingress import Message, Receiver, lost

from mainstem_broker_nats.client import Connection
from mainstem_broker_nats.connection import APIError, api_of
from mainstem_broker_nats.inboxes import Inbox, Raw
from mainstem_broker_nats.source.headers import pairs, status
from mainstem_broker_nats.source.options import JetStreamQueueOptions

T = TypeVar("T")

_ACK, _WORKING = b"+ACK", b"+WPI"
#: JetStream's own numbers for reasons.
_NO_STREAM, _NO_CONSUMER = 10059, 10014
#: The server says each so often that a pull still stands, and ends it after so long, in seconds.
_BEAT, _EXPIRES = 1.0, 20.0
#: A server that says nothing for so long stands still.
_SILENCE = 3.5 * _BEAT
#: Statuses of a pull that just came to its end.
_ENDED = ("batch completed", "message size exceeds maxbytes", "exceeded maxwaiting")
_GIVEN_UP = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES"


class QueueReceiver(Receiver):
    """Takes messages from a durable consumer, which several receivers may share."""

    options: JetStreamQueueOptions
    #: Whether the log had messages when the run began.
    goes_on = False

    def __init__(self, options: JetStreamQueueOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._turn = 0
        self._served = False
        self._given_up = 0
        #: When the stream was made of which messages were stored by this receiver.
        self._stored_of = ""
        self._begin()

    def _begin(self) -> None:
        self._connection: Connection | None = None
        self._inbox: Inbox | None = None
        self._advisories: Inbox | None = None
        self._box = ""
        self._pull = 0
        #: How many messages the pull in hand still brings; 0 when there is none.
        self._asked = 0
        self._paused = False
        #: What came before a pause, and was not taken then.
        self._left: list[Raw] = []
        self._waiting: int | None = None
        self._heard = time.monotonic()
        self._ack_wait = 0.0
        self._told = time.monotonic()
        #: Where to acknowledge what was taken, in order.
        self._in_hand: dict[bytes, None] = {}
        self._created = ""
        #: The most messages that the consumer gives to one pull (0: as many as asked), and for how long
        #: one stands, in seconds.
        self._most, self._expires = 0, _EXPIRES

    # -- what the log asks for ------------------------------------------------------------------

    def connect(self, cursor: str | None) -> None:
        self._begin()
        self._tell(self._set_up)
        self._served = True
        failpoint("jetstream.after-connect")

    def _set_up(self) -> None:
        options = self.options
        name = f"mainstem {self.node}-{self.number}"
        connection = self._connection = Connection.open(options, name, self._turn)
        stream = self._ask(f"STREAM.INFO.{options.stream}")
        self._created = stream["created"]
        found = self._consumer()
        config = found["config"]
        if config.get("ack_policy") != "explicit" or config.get("deliver_subject"):
            raise PermanentError(
                f"the consumer {options.consumer!r} of {options.stream!r} can't be used: expected one "
                "that is pulled from, with explicit acknowledgements"
            )
        self._check_options(config)
        self._most = int(config.get("max_batch") or 0)
        self._expires = min(_EXPIRES, (config.get("max_expires") or _EXPIRES * 1e9) / 1e9)
        self._ack_wait = config.get("ack_wait", 30 * 10**9) / 1e9
        self._waiting = int(found["num_pending"]) + int(found["num_ack_pending"])
        self._listen()
        if self.number == 0:
            self._advisories = connection.subscribe(
                f"{_GIVEN_UP}.{options.stream}.{options.consumer}"
            )
        connection.flush()
        self._heard = time.monotonic()

    def _check_options(self, config: Mapping[str, Any]) -> None:
        """Hold the options that were given against a consumer that is there.

        Raises:
            PermanentError: they differ.
        """
        options = self.options
        given = options.model_fields_set
        filters = config.get("filter_subjects") or [config.get("filter_subject") or ""]
        wait = int(options.ack_wait.total_seconds() * 1e9)
        seconds = [f"{each / 1e9:g} s" for each in (wait, config.get("ack_wait", 0))]
        there = sorted(filter(None, filters))
        differences = [
            f"`{name}` is {ours}, and the consumer's is {its}"
            for name, ours, its in (
                ("subjects", sorted(options.subjects), there),
                ("max_deliver", options.max_deliver, config.get("max_deliver", -1)),
                ("ack_wait", *seconds),
            )
            if name in given and ours != its
        ]
        if differences:
            raise PermanentError(
                f"the consumer {options.consumer!r} of {options.stream!r} is there and otherwise: "
                f"{'; '.join(differences)}. Change the consumer (`nats consumer edit`), or the options"
            )

    def _consumer(self) -> dict[str, Any]:
        """Return the consumer, made if it is not there and nothing of the stream is stored yet.

        Raises:
            PermanentError: it was there: a new one would give all messages again, also those that the
                log no longer knows.
        """
        options = self.options
        try:
            return self._ask(f"CONSUMER.INFO.{options.stream}.{options.consumer}")
        except APIError as error:
            if error.err_code != _NO_CONSUMER:
                raise
        if self.goes_on or self._stored_of == self._created:
            raise PermanentError(
                f"the consumer {options.consumer!r} of {options.stream!r} is gone, and messages that it "
                "gave are stored: a new one would give them all again. Make it where it is to go on "
                f"(`nats consumer add {options.stream} {options.consumer} --pull --ack explicit "
                "--deliver SEQUENCE`), or begin with another checkpoint, which takes all of the stream"
            )
        if self.number:
            # One alone decides, the one that is there in every run.
            raise TransientError(
                f"the consumer {options.consumer!r} of {options.stream!r} is not there yet: receiver 0 "
                "makes it"
            )
        config: dict[str, Any] = {
            "durable_name": options.consumer,
            "name": options.consumer,
            "ack_policy": "explicit",
            "ack_wait": int(options.ack_wait.total_seconds() * 1e9),
            "deliver_policy": "all",
            "max_deliver": options.max_deliver,
            "max_ack_pending": max(1000, 2 * options.prefetch * options.receivers),
        }
        if len(options.subjects) == 1:
            config["filter_subject"] = options.subjects[0]
        elif options.subjects:
            config["filter_subjects"] = options.subjects
        body = {"stream_name": options.stream, "config": config, "action": ""}
        return self._ask(f"CONSUMER.CREATE.{options.stream}.{options.consumer}", body)

    def take(self, seconds: float) -> Iterable[Message]:
        return self._tell(lambda: self._take(seconds))

    def _take(self, seconds: float) -> list[Message]:
        connection, inbox = self._connection, self._inbox
        assert connection is not None  # noqa: S101
        assert inbox is not None  # noqa: S101
        self._keep_in_hand(connection)
        found = self._gave_up(connection)
        room = self.options.prefetch - len(self._in_hand)
        if not self._paused and not self._asked and room > 0:
            self._ask_for(connection, min(room, self._most or room))
        raws, self._left = self._left, []
        raws += connection.take(inbox, 0 if found or raws else seconds)
        for raw in raws:
            self._heard = time.monotonic()
            if raw.is_status:
                self._hear(raw)
                continue
            self._asked = max(0, self._asked - 1)
            found.append(self._message(raw))
        if connection.lost:
            raise TransientError(f"{connection.server}: {connection.lost}")
        if self._asked and time.monotonic() - self._heard > _SILENCE:
            if connection.complaints:
                raise PermanentError(f"{connection.server}: {connection.complaints[-1]}")
            raise TransientError(f"{connection.server}: nothing came for {_SILENCE:g} s")
        return found

    def acknowledge(self, messages: Sequence[Message]) -> None:
        connection = self._connection
        assert connection is not None  # noqa: S101
        places = [message.token for message in messages if message.token is not None]
        self._tell(lambda: connection.run(self._answer(connection, places, _ACK)))
        self._stored_of = self._created
        for place in places:
            self._in_hand.pop(place, None)

    def pause(self) -> None:
        self._paused = True
        self._tell(self._listen_no_more)

    def resume(self) -> None:
        self._paused = False
        self._tell(self._listen)

    def _listen(self) -> None:
        """Let what pulls bring come into the inbox."""
        connection = self._connection
        assert connection is not None  # noqa: S101
        self._box = connection.client.new_inbox()
        old, self._inbox = self._inbox, connection.subscribe(f"{self._box}.*")
        self._left = []
        if old is not None:
            self._left = connection.take(old, 0)
            connection.forget(old)

    def _listen_no_more(self) -> None:
        """Take back the pull in hand: JetStream drops one whose answers nobody listens to."""
        connection, inbox = self._connection, self._inbox
        assert connection is not None  # noqa: S101
        if inbox is not None:
            connection.unsubscribe(inbox)
            connection.flush()
        self._asked = 0

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def waiting(self) -> int | None:
        return self._waiting

    def facts(self) -> dict[str, Any]:
        server = self._connection.server if self._connection is not None else ""
        return {"server": server, "in_hand": len(self._in_hand), "given_up": self._given_up}

    # -- messages -------------------------------------------------------------------------------

    def _message(self, raw: Raw) -> Message:
        self._in_hand[raw.reply] = None
        tokens = raw.reply.split(b".")
        # With a domain, or from another account, two more stand before the stream's name.
        sequence, at = (tokens[5], tokens[7]) if len(tokens) < 11 else (tokens[7], tokens[9])
        subject, headers = raw.subject, pairs(raw.headers)
        return Message(
            raw.data,
            subject,
            headers,
            int(at) // 1000,
            subject.decode("utf-8", "replace"),
            # A server that fell back gives sequences again; the time tells those messages apart.
            f"{self._created}/{sequence.decode()}/{at.decode()}".encode(),
            None,
            raw.reply,
        )

    def _gave_up(self, connection: Connection) -> list[Message]:
        """Return what stands for messages that were given as often as may be."""
        if self._advisories is None:
            return []
        found = []
        for raw in connection.take(self._advisories, 0):
            facts = json.loads(raw.data)
            self._given_up += 1
            sequence = f"{int(facts['stream_seq']):020d}"
            reason = (
                f"given {facts['deliveries']} times without an acknowledgement, as often as the consumer "
                f"{self.options.consumer} may: it is in the stream still, and never given again"
            )
            found.append(
                lost(reason, origin=self.options.stream, count=1, first=sequence, last=sequence)
            )
        return found

    # -- the consumer ---------------------------------------------------------------------------

    def _ask_for(self, connection: Connection, room: int) -> None:
        self._pull += 1
        self._asked = room
        self._heard = time.monotonic()
        body = {
            "batch": room,
            "expires": int(self._expires * 1e9),
            "idle_heartbeat": int(min(_BEAT, self._expires / 4) * 1e9),
        }
        options = self.options
        consumer = f"{options.stream}.{options.consumer}"
        subject = f"{api_of(options.domain)}.CONSUMER.MSG.NEXT.{consumer}"
        connection.publish(subject, json.dumps(body).encode(), f"{self._box}.{self._pull}")

    def _hear(self, raw: Raw) -> None:
        """Hear what the server itself says."""
        code, text = status(raw.headers) or (0, "")
        if code == 100:
            return
        if code in (404, 408) or any(word in text.lower() for word in _ENDED):
            if raw.subject.endswith(f".{self._pull}".encode()):
                self._asked = 0
            return
        raise TransientError(f"the consumer {self.options.consumer!r}: {text or code}")

    def _keep_in_hand(self, connection: Connection) -> None:
        """Tell JetStream of messages that wait for long that they are in hand still."""
        now = time.monotonic()
        if now - self._told < self._ack_wait / 3:
            return
        self._told = now
        if self._in_hand:
            connection.run(self._answer(connection, list(self._in_hand), _WORKING))

    @staticmethod
    async def _answer(connection: Connection, places: Sequence[bytes], answer: bytes) -> None:
        """Answer to messages, and wait until the server has the answers."""
        client = connection.client
        for place in places:
            await client.publish(place.decode(), answer)
        await client.barrier(_SILENCE)

    # -- the connection -------------------------------------------------------------------------

    def _ask(self, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        assert self._connection is not None  # noqa: S101
        return self._connection.ask(verb, body, self.options.domain)

    def _tell(self, work: Callable[[], T]) -> T:
        """Do work; when it fails, the next connection is to another server."""
        try:
            return work()
        except ExternalError as error:
            self._turn += 1
            gone = isinstance(error, APIError) and error.err_code in (_NO_STREAM, _NO_CONSUMER)
            # A stream that was there and is not can come again; one that never was is a slip of the pen.
            if gone and self._served:
                raise TransientError(str(error)) from error
            raise


class GoingOn(QueueReceiver):
    """Goes on with a log that has messages: their consumer is there, or is not made again."""

    goes_on = True
