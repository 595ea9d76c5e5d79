"""What a stream knows of a message that is sent again: by its id for a while, by its place for longer."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from mainstem import TransientError, write_duration

from mainstem_broker_nats.connection import APIError
from mainstem_broker_nats.sink.link import Verdict, is_acknowledged, is_known, judge

if TYPE_CHECKING:
    from mainstem_broker_nats.client import Connection
    from mainstem_broker_nats.sink.messages import Message

_LOG = logging.getLogger(__name__)


class Unanswered:
    """Remembers messages that were sent and got no answer: they may be in the stream.

    Args:
        stream: its name, for the log.

    Attributes:
        window: for how long the stream knows the ids of its messages.
    """

    def __init__(self, stream: str) -> None:
        self.window = timedelta(0)
        self._stream = stream
        self._first: dict[str, float] = {}
        self._told = False

    def __bool__(self) -> bool:
        return bool(self._first)

    def add(self, messages: Iterable[tuple[Message, float]]) -> None:
        """Note messages that will be sent again, with when they were sent."""
        for message, sent in messages:
            if message.name is not None:
                self._first.setdefault(message.name, sent)
        self._told = False

    def remove(self, message: Message) -> None:
        """Forget a message, whose fate is known."""
        if message.name is not None:
            self._first.pop(message.name, None)

    def check(self, message: Message, now: float) -> None:
        """Log, once for all that are sent again, that the stream may no longer know them.

        Args:
            message: one that is being sent.
            now: when.
        """
        if self._told:
            return
        window = self.window.total_seconds()
        past = now - self._first.get(message.name or "", now)
        if past <= window:
            return
        self._told = True
        _LOG.warning(
            "%d messages that got no answer are sent again %.1f s after they were first sent, and stream "
            "%s knows its messages for %s: those that it took then may be there twice",
            sum(now - sent > window for sent in self._first.values()),
            past,
            self._stream,
            write_duration(self.window),
        )


def is_there(connection: Connection, stream: str, message: Message, expect: str) -> bool:
    """Return whether a message that came too late for its expected sequence is itself why.

    The server looks at the expected sequence before it looks for a duplicate. If the message is there, it
    is the very next one after that sequence. If it was removed, as a stream with a limit for each subject
    does with what was the newest, the stream may still know its id.

    Args:
        connection: to the server.
        stream: that was written to.
        message: that was answered with a conflict.
        expect: what its expected sequence is of: `stream` or `subject`.

    Raises:
        ExternalError: it can't be said now.
    """
    if message.expected is None or message.name is None:
        return False
    body: dict[str, Any] = {"seq": message.expected + 1}
    if expect == "subject":
        body["next_by_subj"] = message.subject
    try:
        found = connection.ask(f"STREAM.MSG.GET.{stream}", body)
    except APIError as error:
        if error.code != 404:
            raise
    else:
        head = base64.b64decode(found["message"].get("hdrs") or "")
        if b"\r\nNats-Msg-Id: %b\r\n" % message.name.encode() in head:
            return True
    return _is_remembered(connection, stream, message.subject, message.name)


def _is_remembered(connection: Connection, stream: str, subject: str, name: str) -> bool:
    """Return whether an id is in the stream's duplicate window.

    What asks is a message of that id that is never taken: it is to follow a message that there is not.
    The server looks for a duplicate before it looks at that.
    """
    asking = {
        "Nats-Expected-Stream": stream,
        "Nats-Msg-Id": name,
        "Nats-Expected-Last-Msg-Id": f"none-{uuid4().hex}",
    }
    data = connection.request(subject, headers=asking).data
    if is_acknowledged(data):
        return is_known(data)
    verdict, reason = judge(data, None)
    if verdict in (Verdict.AGAIN, Verdict.NEVER):
        raise TransientError(reason)
    return False
