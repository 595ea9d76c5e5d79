"""Plans the batches of a log that is read by position.

An offset is `{"log": the log's identity, "read": by partition the last position that was read, "at": what
`PositionLog.stamp` says of that, "notes": what `PositionLog.notes` says, if they say anything}`. What
lies between two offsets is a fixed set of messages, until they are deleted. The first offset of a
checkpoint has `"first": true` and no `at`. Of a partition that is new, and of a log of which not all is
read, an end has `after`: up to there nothing is read, and nothing was gone unseen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mainstem.contracts.log_source import Offset, Planner
from mainstem.crashpoints import failpoint
from mainstem.durable import made_folder, read_whole, write_whole
from mainstem.errors import OptionError, PermanentError, TransientError
from mainstem.patience import retry
from mainstem.positions.log import ANEW, Begin, Part, PositionLog, Seen, Span, another_log

if TYPE_CHECKING:
    from mainstem.contracts.contexts import Progress

T = TypeVar("T")
#: Spark asks for news a hundred times in a second; the server is asked so often at most, in seconds.
EVERY = 0.05
#: The offset moves on past messages that are not read so often, in seconds.
MOVE = 60.0
_NO_OFFSET = (
    'expected an offset such as {"read": 42}, by partition where there are several: what comes after it '
    "is read"
)


@dataclass(frozen=True)
class LogRead:
    """One read of a node's log.

    Attributes:
        open: returns the log; given who reads. It is pickled.
        begin: where a new checkpoint begins.
        give_up: how long to retry what passes, in seconds.
        tasks: how many read at once.
        rows_per_task: a task reads so many positions at least.
        max_rows: a batch spans so many positions at most.
        gaps: what to do about positions that are not there: `ignore` them, `report` them as rows, or
            `fail`.
        progress: what the checkpoint says of the read.
        first: the file that keeps its first offset: Spark asks for that again until the first batch is
            done.
    """

    open: Callable[[str], PositionLog]
    begin: Begin
    give_up: float
    tasks: int
    rows_per_task: int
    max_rows: int
    gaps: Literal["ignore", "report", "fail"]
    progress: Progress | None = None
    first: Path | None = None


class PositionPlanner(Planner):
    """Says what each batch reads."""

    def __init__(self, read: LogRead) -> None:
        self._read = read
        self._log = read.open("planner")
        self._asked = 0.0
        #: Of a bounded run, where each partition ends.
        self._last: Mapping[str, int] | None = None
        #: By partition, up to where nothing is read, and nothing was gone before that was looked.
        self._nothing: dict[str, int] = {}
        self._moved = time.monotonic()

    def initial(self) -> Offset:
        kept = self._kept()
        if kept is not None:
            return kept
        found = self._patiently(lambda: begin(self._log, self._read.begin))
        if self._read.first is not None:
            made_folder(self._read.first.parent)
            write_whole(self._read.first, json.dumps(found))
        failpoint("positions.after-first-offset")
        return found

    def _kept(self) -> Offset | None:
        """Return the first offset of a checkpoint that has planned a batch with it."""
        file, progress = self._read.first, self._read.progress
        if file is None or progress is None or not file.exists():
            return None
        planned = progress.planned()
        if planned is None or planned[1] is None:
            return None  # of an older checkpoint in the same place
        found: Offset = json.loads(read_whole(file))
        return found

    def latest(self, start: Offset) -> Offset:
        now = time.monotonic()
        # A bounded run ends when nothing is new, so it is never told so unasked.
        if self._last is None and now - self._asked < EVERY:
            return start
        found = self._patiently(lambda: self._latest(start))
        self._asked = time.monotonic()
        failpoint("positions.after-latest")
        return found

    def _latest(self, start: Offset) -> Offset:
        seen = self._checked(start, self._nothing)
        news = {
            p: span
            for p, span in seen.spans.items()
            if self._end_of(p, span) > _read(start, p, span)
        }
        room = max(1, self._read.max_rows // max(1, len(news)))
        moves = {}
        for partition in sorted(news):
            if (move := self._move(start, partition, news[partition], room)) is not None:
                moves[partition] = move
        if not news and start.get("first") and self._read.begin == "latest":
            # A batch of nothing, so that what comes before the first message is not skipped by a restart.
            moves = {partition: (read, None) for partition, read in start["read"].items()}
        return self._offset(start, moves) if moves else start

    def _end_of(self, partition: str, span: Span) -> int:
        return span.last if self._last is None else min(span.last, self._last.get(partition, -1))

    def _move(
        self, start: Offset, partition: str, span: Span, room: int
    ) -> tuple[int, int | None] | None:
        """Return up to where a batch reads a partition, and `after`; None to leave it where it is."""
        read, last = _read(start, partition, span), self._end_of(partition, span)
        begins = max(read, span.first - 1)
        if not self._log.sparse:
            # Where it began, when it came: what is gone by the time that the batch is read is a loss.
            end = self._log.ahead(partition, begins, room)
            return min(last, end), None if partition in start["read"] else begins
        known = max(read, self._nothing.get(partition, 0))
        whole = begins <= known
        begins = max(begins, known)
        found = self._log.next(partition, begins + 1) if begins < last else None
        if found is None or found > last:
            if not whole:
                return last, min(known, last)
            self._nothing[partition] = last
            waits = self._last is None and time.monotonic() - self._moved < MOVE
            return None if waits else (last, last)
        begins = found - 1
        return min(last, self._log.ahead(partition, begins, room)), begins if whole else known

    def _offset(self, start: Offset, moves: Mapping[str, tuple[int, int | None]]) -> Offset:
        """Return the offset of a batch that reads some partitions up to some positions."""
        self._check_stamps(start, moves)
        self._moved = time.monotonic()
        read = {**start["read"], **{partition: end for partition, (end, _) in moves.items()}}
        found = {"log": start["log"], "read": dict(sorted(read.items()))}
        if self._log.stamped:
            stamps = {p: self._log.stamp(p, end) for p, (end, _) in sorted(moves.items())}
            found["at"] = {**start.get("at", {}), **stamps}
        if notes := self._log.notes():
            found["notes"] = notes
        after = {p: begins for p, (_, begins) in sorted(moves.items()) if begins is not None}
        return {**found, "after": after} if after else found

    def prepare(self) -> None:
        """Let the batches to come end where the log ends now."""
        seen = self._patiently(self._log.look)
        self._last = {partition: span.last for partition, span in seen.spans.items()}

    def parts(self, start: Offset, end: Offset) -> list[Part]:
        firsts = {}
        for partition, last in end["read"].items():
            read = start["read"].get(partition)
            after = end.get("after", {}).get(partition)
            if read is None or (after is not None and last > read):
                firsts[partition] = after if read is None else max(read, after)
            else:
                firsts[partition] = read

        def look() -> Seen:
            known = {partition: first for partition, first in firsts.items() if first is not None}
            seen = self._checked(start, known)
            for offset in (start, end):
                self._check_stamps(offset, offset["read"])
            for partition, last in end["read"].items():
                self._check_reaches(seen, partition, last)
            return seen

        seen = self._patiently(look)
        ranges = []
        for partition, last in end["read"].items():
            span, first = seen.spans[partition], firsts[partition]
            first = span.first - 1 if first is None else first
            if last > first:
                # What is not there takes no time: the first task tells of it.
                begins = min(max(first, span.first - 1), last)
                rows = self._patiently(partial(self._log.between, partition, begins, last))
                ranges.append((partition, first, begins, last, rows))
        whole = sum(rows for *_, rows in ranges)
        tasks = min(self._read.tasks, max(1, whole // self._read.rows_per_task))
        found: list[Part] = []
        for partition, first, begins, last, rows in ranges:
            parts = max(1, tasks * rows // max(1, whole))
            cuts = [first, *self._cuts(partition, begins, rows, parts), last]
            named = (str(start["log"]), partition)
            found += [Part(*named, a, b) for a, b in pairwise(cuts) if a < b]
        failpoint("positions.after-ranges")
        return found

    def _cuts(self, partition: str, begins: int, rows: int, parts: int) -> list[int]:
        """Return where a range is cut into so many parts, each of about as many rows."""

        def cut(part: int) -> int:
            return self._log.ahead(partition, begins, rows * part // parts)

        return self._patiently(lambda: [cut(part) for part in range(1, parts)])

    def close(self) -> None:
        self._log.close()

    def _patiently(self, work: Callable[[], T]) -> T:
        return retry(lambda _: work(), self._read.give_up, lambda _: self._log.reset())

    # -- what is refused --------------------------------------------------------------------------

    def _checked(self, start: Mapping[str, Any], nothing: Mapping[str, int]) -> Seen:
        """Return what the log is now.

        Args:
            start: what was read.
            nothing: by partition, the position up to which nothing is to be read.

        Raises:
            ExternalError: it is not the one that was read, or what is not read any more is gone and was
                not to be.
        """
        self._log.recall(start.get("notes", {}))
        seen = self._log.look()
        check_identity(self._log, seen, start["log"])
        ahead = start.get("first") and isinstance(self._read.begin, int)
        for partition, read in start["read"].items():
            if partition not in seen.spans:
                raise PermanentError(
                    f"{self._log.called(partition)} is gone, and was read to "
                    f"{self._log.written(read)}"
                )
            if not ahead:  # a position to begin at need not be there yet
                self._check_reaches(seen, partition, read)
            read = max(read, nothing.get(partition, 0))
            first = seen.spans[partition].first
            if self._read.gaps == "fail" and first > read + 1:
                raise PermanentError(
                    f"{self._log.called(partition)} begins at {self._log.written(first)}, and the "
                    f"checkpoint has read to {self._log.written(read)}: what is between was removed "
                    "before it was read. `on_loss: report` goes on and tells of it"
                )
        return seen

    def _check_reaches(self, seen: Seen, partition: str, read: int) -> None:
        """Refuse a partition that ends before an offset; a leader or a mirror may be behind for a while.

        Raises:
            ExternalError: it does.
        """
        last = seen.spans[partition].last
        if last < read:
            raise TransientError(
                f"{self._log.called(partition)} ends at {self._log.written(last)}, and the checkpoint "
                f"has read to {self._log.written(read)}: was it restored from an older copy? {ANEW}"
            )

    def _check_stamps(self, offset: Mapping[str, Any], partitions: Mapping[str, Any]) -> None:
        """Refuse a partition whose message of an offset is another one now.

        Raises:
            ExternalError: it fell back, and has given positions to new messages.
        """
        for partition in partitions:
            noted = offset.get("at", {}).get(partition)
            read = offset["read"].get(partition)
            at = self._log.stamp(partition, read) if noted else None
            if at is not None and at != noted:
                raise PermanentError(
                    f"message {self._log.written(read)} of {self._log.called(partition)} is another one "
                    f"({at}) than the checkpoint has read ({noted}): it fell back (an older copy, or a "
                    "server that lost what it had not synced), and its positions mean something else. "
                    f"{ANEW}"
                )


def _read(offset: Mapping[str, Any], partition: str, span: Span) -> int:
    """Return the last position of a partition that was read; of a new one, what is before its first."""
    return int(offset["read"].get(partition, span.first - 1))


def check_identity(log: PositionLog, seen: Seen, identity: str) -> None:
    """Refuse a log that was made anew since its positions were noted.

    Raises:
        ExternalError: it was.
    """
    if seen.identity != identity:
        raise another_log(log.called(next(iter(seen.spans), "")), seen.identity, identity)


def begin(log: PositionLog, where: Begin) -> Offset:
    """Return the offset at which reading begins.

    Raises:
        ExternalError: the log is another one than that of an offset.
        OptionError: it can't be read by position.
    """
    seen = log.look()
    if isinstance(where, Mapping):
        check_identity(log, seen, where["log"])
        return dict(where)
    if isinstance(where, datetime):
        read = dict(log.at(where))
    elif isinstance(where, int):
        read = dict.fromkeys(seen.spans, where - 1)
    elif where == "earliest":
        read = {partition: span.first - 1 for partition, span in seen.spans.items()}
    else:
        read = {partition: span.last for partition, span in seen.spans.items()}
    # A position that is not there yet is where reading begins when it comes.
    known = {partition: max(0, position) for partition, position in sorted(read.items())}
    found = {"log": seen.identity, "read": known, "first": True}
    return {**found, "notes": notes} if (notes := log.notes()) else found


def offset_of(log: PositionLog, point: Mapping[str, Any]) -> Offset:
    """Return an offset that somebody has written; one without `log` is of the log there is.

    Raises:
        OptionError: it is none, or the log no longer has what comes after it.
    """
    if not isinstance(point, Mapping):
        raise OptionError(_NO_OFFSET)
    read = point.get("read")
    unknown = set(point) - {"log", "read", "at", "notes", "after", "first"}
    log.recall(point.get("notes") or {})
    seen = log.look()
    if isinstance(read, int) and not isinstance(read, bool) and len(seen.spans) == 1:
        read = dict.fromkeys(seen.spans, read)
    if not isinstance(read, Mapping) or unknown or not all(_is_position(n) for n in read.values()):
        raise OptionError(_NO_OFFSET)
    if point.get("log", seen.identity) != seen.identity:
        raise OptionError(
            f"the offset is of another log ({point['log']}) than this one ({seen.identity})"
        )
    for partition, position in read.items():
        span = seen.spans.get(partition)
        if span is None:
            raise OptionError(f"there is no partition {partition!r}: {', '.join(seen.spans)}")
        if position + 1 < span.first or position > span.last:
            raise OptionError(
                f"{log.called(partition)} has the positions {log.written(span.first)} to "
                f"{log.written(span.last)}, and {log.written(position + 1)} was asked for"
            )
    found = {"log": seen.identity, "read": dict(sorted(read.items()))}
    return {**found, "notes": point["notes"]} if point.get("notes") else found


def _is_position(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
