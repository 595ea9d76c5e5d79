"""What tests of a source of change data capture need: a receiver, and what a log would store of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from mainstem_ingress import Columns, Message, Rows, row_of

from mainstem_cdc.receiver import CaptureReceiver

#: How long something may take to come, in seconds.
PATIENCE = 30.0


class Taking:
    """A receiver, and what a log would have stored of it.

    Args:
        cursor: where it goes on.
    """

    def __init__(self, receiver: CaptureReceiver, cursor: str | None = None) -> None:
        self.receiver = receiver
        self.stored: list[Message] = []
        self.cursor = cursor

    def __enter__(self) -> Taking:
        try:
            self.receiver.connect(self.cursor)
        except BaseException:
            self.receiver.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.receiver.close()

    def take(self, seconds: float = 0.05) -> None:
        """Take once, and store."""
        found: Any = self.receiver.take(seconds)
        self.stored += taken(self.receiver, found)
        self.cursor = self.receiver.cursor()
        if found:
            self.receiver.acknowledge(found)

    def until(self, done: Callable[[], bool]) -> None:
        """Take until something is so."""
        until = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < until, self.stored[-3:]
            self.take()

    def load(self) -> None:
        """Take until all is here that there was when it began."""
        self.until(lambda: bool(self.receiver.caught_up()))

    def some(self, count: int) -> list[Message]:
        """Return so many messages, none of which was returned before."""
        self.until(lambda: len(self.stored) >= count)
        found, self.stored = self.stored[:count], self.stored[count:]
        return found


def taken(receiver: CaptureReceiver, found: Any) -> list[Message]:
    """Return a message for each row, with the row's values as `extra`, as a log would have them."""
    if not isinstance(found, Rows):
        return list(found)
    tables = receiver.options.tables
    made: list[Message] = []
    for part in found.parts:
        if isinstance(part, Columns):
            rows: Any = part.rows
            made += [
                Message(
                    None, timestamp=at, origin=part.origin, extra=row_of(tables, part.table, row)
                )
                for at, row in zip(part.timestamps, rows.to_pylist(), strict=True)
            ]
        else:
            made += part
    return made


def changes(messages: Iterable[Message]) -> list[tuple[Any, ...]]:
    """Return the rows of tables: the kind of the change, and the values without reserved ones."""
    found = []
    for message in messages:
        assert message.refused is None, message.refused
        row = next(each for each in message.extra[1:] if each is not None)
        values = (value for name, value in row.items() if not name.startswith("_"))
        found.append((row["_change_type"], *values))
    return found


def versions(messages: Iterable[Message]) -> list[str]:
    """Return the sequences of rows."""
    return [
        next(each for each in message.extra[1:] if each is not None)["_commit_version"]
        for message in messages
    ]
