"""Plans the batches of a stream that is read by sequence.

An offset is `{"stream": its name, "created": when it was made, "sequence": the last one that was read}`.
What lies between two offsets is a fixed set of messages, until they are deleted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

from mainstem import failpoint

from mainstem_broker_nats.connecting import NATSError
from mainstem_broker_nats.source.options import ReadingOptions
from mainstem_broker_nats.source.ranges import check_created
from mainstem_broker_nats.source.stream import State, Stream, check_log

Offset = dict[str, Any]
#: Where reading begins: a sequence is the first that is read, an offset lies before it.
Begin = Literal["earliest", "latest"] | int | datetime | Mapping[str, Any]

#: Spark asks for news a hundred times in a second; the server is asked so often at most, in seconds.
_EVERY = 0.05
#: A task reads at least so many sequences, where there are enough.
_TASK_ROWS = 5_000


@dataclass(frozen=True)
class Given:
    """What one reading of a node is.

    `begin` is where a new checkpoint begins, `tasks` how many read at once, `node` names the connection,
    `build` the function of `columns` that makes the rows; `gaps` says what to do about sequences that are
    not there: `ignore` them, `report` them as rows, or `fail`.
    """

    options: ReadingOptions
    stream: str
    subjects: tuple[str, ...]
    begin: Begin
    tasks: int
    node: str
    build: str
    gaps: Literal["ignore", "report", "fail"]

    def open(self, part: str) -> Stream:
        """Return the stream, not connected yet; `part` tells who reads."""
        return Stream(self.options, self.stream, self.subjects, f"mainstem {self.node} {part}")


class Planner:
    """Says what each batch reads; lives in the driver's process of the source."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._stream = given.open("planner")
        self._asked = 0.0
        self._last: int | None = None
        #: Up to which sequence nothing was found that is read.
        self._nothing_upto = 0

    def initial(self) -> Offset:
        """Return the first offset: `begin`, looked up once."""
        found = self._stream.patiently(lambda: begin(self._stream, self._given.begin))
        failpoint("jetstream.after-first-offset")
        return found

    def latest(self, start: Offset) -> Offset:
        """Return where the next batch ends; `start` if there is nothing new."""
        now = time.monotonic()
        # A bounded run ends when nothing is new, so it is never told so unasked.
        if self._last is None and now - self._asked < _EVERY:
            return start
        found = self._stream.patiently(lambda: self._latest(start))
        self._asked = time.monotonic()
        failpoint("jetstream.after-latest")
        return found

    def _latest(self, start: Offset) -> Offset:
        state = self._checked(start)
        read = int(start["sequence"])
        last = state.last if self._last is None else min(state.last, self._last)
        begins = max(read, state.first - 1)
        if last <= read:
            return start
        if self._given.subjects:
            known = max(begins, self._nothing_upto)
            found = self._stream.next(known + 1) if known < last else None
            if found is None or found[0] > last:
                self._nothing_upto = last
                return start
            begins = found[0] - 1
        limit = max(begins, read) + self._given.options.max_rows
        return {**start, "sequence": min(last, limit)}

    def prepare(self) -> None:
        """Let the batches to come end where the stream ends now."""

        def look() -> int:
            return self._stream.state().last

        self._last = self._stream.patiently(look)

    def ranges(self, start: Offset, end: Offset) -> list[tuple[int, int]]:
        """Return the ranges of a batch, for one task each: after one sequence, up to another."""
        state = self._stream.patiently(lambda: self._checked(start))
        first, last = int(start["sequence"]), int(end["sequence"])
        if last <= first:
            return []
        # What is not there takes no time: the first task tells of it.
        begins = min(max(first, state.first - 1), last)
        parts = min(self._given.tasks, max(1, (last - begins) // _TASK_ROWS))
        cuts = [begins + (last - begins) * part // parts for part in range(parts + 1)]
        cuts[0] = first
        failpoint("jetstream.after-ranges")
        return list(pairwise(cuts))

    def close(self) -> None:
        """End the connection."""
        self._stream.close()

    def _checked(self, start: Mapping[str, Any]) -> State:
        """Return what the stream is now.

        Raises:
            NATSError: it is not the one that was read, or what is not read any more is gone and was not
                to be.
        """
        state = self._stream.state()
        check_created(state, start["created"])
        read = int(start["sequence"])
        if state.last < read:
            raise NATSError(
                f"the stream {state.name!r} ends at {state.last}, and the checkpoint has read to {read}: "
                "was it restored from an older copy? Begin with another checkpoint",
                lasting=True,
            )
        if self._given.gaps == "fail" and state.first > read + 1:
            raise NATSError(
                f"the stream {state.name!r} begins at {state.first}, and the checkpoint has read to "
                f"{read}: what is between was removed before it was read. `gaps: report` goes on and "
                "tells of it",
                lasting=True,
            )
        return state


def begin(stream: Stream, where: Begin) -> Offset:
    """Return the offset at which reading begins.

    Raises:
        NATSError: the stream is another one than that of an offset.
        OptionError: the stream can't be read by sequence.
    """
    state = stream.state()
    check_log(state)
    if isinstance(where, Mapping):
        check_created(state, where["created"])
        return dict(where)
    if isinstance(where, datetime):
        read = stream.before(where)
    elif isinstance(where, int):
        read = where - 1
    else:
        read = state.first - 1 if where == "earliest" else state.last
    # A sequence that is not there yet is where reading begins when it comes.
    return {"stream": state.name, "created": state.created, "sequence": max(0, read)}
