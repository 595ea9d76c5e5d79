"""What JetStream tells of a stream: where it begins and ends, and what comes where."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from mainstem import OptionError, PermanentError, TransientError
from mainstem.patience import retry

from mainstem_broker_nats.client import Connection
from mainstem_broker_nats.connection import APIError
from mainstem_broker_nats.source.options import ReadingOptions

T = TypeVar("T")

#: JetStream's own numbers for reasons.
_NO_STREAM, _NO_MESSAGE, _MANY_CONSUMERS = 10059, 10037, 10026
_SECOND = 10**9
#: For how long JetStream keeps an ephemeral consumer that nobody asks, in nanoseconds.
_FORGOTTEN = 30 * _SECOND


@dataclass(frozen=True)
class State:
    """What a stream is now.

    `created` tells it from another one of the same name. `first` is the sequence of the oldest message
    that is there, `last` that of the newest there ever was.
    """

    name: str
    created: str
    first: int
    last: int
    retention: str
    config: Mapping[str, Any]
    deleted: int


@dataclass(frozen=True)
class Consumer:
    """An ephemeral consumer: `pending` messages wait for it, the first of them after `before`."""

    name: str
    pending: int
    before: int


class Stream:
    """A stream as one reader sees it: over one connection, made anew when it broke.

    Args:
        options: of the component.
        name: of the stream.
        subjects: which of its subjects are read; none for all.
        reader: what the server's monitoring shows as the connection's name.
    """

    def __init__(
        self, options: ReadingOptions, name: str, subjects: Sequence[str], reader: str
    ) -> None:
        self.options = options
        self.name = name
        self.subjects = tuple(subjects)
        self._reader = reader
        self._connection: Connection | None = None
        self._turn = 0

    # -- the connection -------------------------------------------------------------------------

    def connection(self) -> Connection:
        """Return the connection, made if there is none.

        Raises:
            ExternalError: no server lets us in.
        """
        if self._connection is not None and self._connection.lost:
            self.close()
        if self._connection is None:
            self._connection = Connection.open(self.options, self._reader, self._turn)
        return self._connection

    def close(self) -> None:
        """End the connection; the next one is to the next server."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._turn += 1

    def patiently(self, work: Callable[[], T]) -> T:
        """Do work, and again while the server is away, for `give_up` at most.

        Raises:
            ExternalError: what was wrong the last time.
        """
        give_up = self.options.give_up.total_seconds()
        return retry(lambda _: work(), give_up, lambda _: self.close())

    def ask(self, verb: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what JetStream answers to `$JS.API.<verb>`."""
        return self.connection().ask(verb, body, self.options.domain)

    # -- what is there --------------------------------------------------------------------------

    def state(self) -> State:
        """Return what the stream is now.

        Raises:
            ExternalError: it is not there, or nobody answers.
        """
        try:
            found = self.ask(f"STREAM.INFO.{self.name}")
        except APIError as error:
            if error.err_code == _NO_STREAM:
                message = f"there is no stream {self.name!r} at {self.connection().server}"
                raise PermanentError(message) from None
            raise
        config, state = found["config"], found["state"]
        return State(
            config["name"],
            found["created"],
            state["first_seq"],
            state["last_seq"],
            config["retention"],
            config,
            state.get("num_deleted", 0),
        )

    def next(self, sequence: int) -> tuple[int, str] | None:
        """Return sequence and time of the first message that is read at or after a sequence."""
        found = []
        for subject in self.subjects or (">",):
            body = {"seq": sequence, "next_by_subj": subject}
            try:
                message = self.ask(f"STREAM.MSG.GET.{self.name}", body)["message"]
            except APIError as error:
                if error.err_code != _NO_MESSAGE:
                    raise
            else:
                found.append((int(message["seq"]), str(message["time"])))
        return min(found, default=None)

    def stored_at(self, sequence: int) -> str | None:
        """Return when a message was stored, as JetStream writes it; None if it is not there."""
        if sequence < 1:
            return None
        try:
            return str(
                self.ask(f"STREAM.MSG.GET.{self.name}", {"seq": sequence})["message"]["time"]
            )
        except APIError as error:
            if error.err_code != _NO_MESSAGE:
                raise
            return None

    def before(self, at: datetime) -> int:
        """Return the sequence after which everything is of that time or later."""
        text = at.astimezone(UTC).isoformat().replace("+00:00", "Z")
        consumer = self.consumer({"deliver_policy": "by_start_time", "opt_start_time": text})
        self.forget(consumer)
        return consumer.before

    def waiting(self, after: int) -> int:
        """Return how many messages that are read come after a sequence."""
        consumer = self.consumer_after(after)
        self.forget(consumer)
        return consumer.pending

    # -- consumers ------------------------------------------------------------------------------

    def consumer_after(self, sequence: int) -> Consumer:
        """Make an ephemeral consumer of what comes after a sequence, in its order."""
        return self.consumer({"deliver_policy": "by_start_sequence", "opt_start_seq": sequence + 1})

    def consumer(self, begin: Mapping[str, Any]) -> Consumer:
        """Make an ephemeral consumer; JetStream forgets it by itself should we not come to that."""
        name = f"mainstem_{time.time_ns():x}_{id(self):x}"
        config: dict[str, Any] = {
            "name": name,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _FORGOTTEN,
            **begin,
        }
        if len(self.subjects) == 1:
            config["filter_subject"] = self.subjects[0]
        elif self.subjects:
            config["filter_subjects"] = list(self.subjects)
        body = {"stream_name": self.name, "config": config}
        try:
            found = self.ask(f"CONSUMER.CREATE.{self.name}.{name}", body)
        except APIError as error:
            if error.err_code == _MANY_CONSUMERS:
                # One that a killed task left counts until it is forgotten.
                raise TransientError(
                    f"{error}: the stream's `max_consumers` leaves no room"
                ) from None
            raise
        return Consumer(name, int(found["num_pending"]), int(found["delivered"]["stream_seq"]))

    def forget(self, consumer: Consumer) -> None:
        """Remove a consumer; one that is gone already is fine, and so is a connection that is.

        Raises:
            ExternalError: nobody answers.
        """
        if self._connection is None or self._connection.lost:
            return  # JetStream forgets it by itself: no reason for another connection
        try:
            self.ask(f"CONSUMER.DELETE.{self.name}.{consumer.name}")
        except APIError as error:
            if error.code != 404:
                raise


def check_log(state: State) -> None:
    """Refuse a stream that can't be read as a log.

    Raises:
        OptionError: it removes what was acknowledged, by this reader or by another.
    """
    if state.retention != "limits":
        raise OptionError(
            f"the stream {state.name!r} has `retention: {state.retention}`: a message is gone when it is "
            "acknowledged, and can't be read again",
            option="stream",
            hint="Write `use: jetstream_queue`.",
        )


def age(at: str) -> float:
    """Return how long ago a time of JetStream's is, in seconds."""
    return max(0.0, time.time() - moment(at))


def moment(at: str) -> float:
    """Return a time of JetStream's (RFC 3339 with up to nine digits) in seconds since 1970."""
    whole, _, fraction = at.rstrip("Z").partition(".")
    second = datetime.fromisoformat(f"{whole}+00:00").timestamp()
    return second + (float(f"0.{fraction}") if fraction else 0.0)
