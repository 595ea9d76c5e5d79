"""The server's change stream and collections as `SnapshotThenLog` wants them.

Tokens are text in hexadecimal that orders as events do. They begin with the time of the write, which the
events of one transaction share.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mainstem import PermanentError, failpoint
from mainstem_cdc import START_OVER, Chunk, GapError
from mainstem_cdc.log import DatabaseLog

from mainstem_cdc_mongodb.connection import Connection, NoSnapshotError, Stream, UnfitPlaceError
from mainstem_cdc_mongodb.documents import (
    ID,
    TIME,
    before,
    place_of,
    read,
    shown_time,
    stamp_of,
)
from mainstem_cdc_mongodb.options import MongoDBSourceOptions
from mainstem_cdc_mongodb.tables import Collection

_WRITES = ("insert", "update", "replace", "delete")
_DEFINING = ("drop", "rename", "dropDatabase", "invalidate")
#: The version that takes large events apart.
_SPLITS = (6, 0, 9)

#: A place: a token, and how many changes of its transaction are before it; 0 where that has ended.
Position = list[Any]


def open_stream(
    connection: Connection,
    options: MongoDBSourceOptions,
    tables: Mapping[str, Collection],
    after: str | None,
) -> tuple[Stream, bool]:
    """Let the server tell changes; return them, and whether it looks documents up as they are by then.

    Args:
        after: the token behind which they are; None for from now on.

    Raises:
        GapError: its log does not go back so far.
        PermanentError: somebody has to mend something; says what.
    """
    kept = [table.find(connection) for table in tables.values()]
    places = [(table.namespace, table.table) for table in tables.values()]
    databases = {database for database, _ in places} or {options.database}
    several = len(databases) > 1 or bool(options.patterns)
    images = all(kept) and not options.patterns
    looks = options.unchanged == "read" and not images
    stream: dict[str, Any] = {"fullDocument": "updateLookup" if looks else "whenAvailable"}
    if any(table.preimages for table in tables.values()):
        stream["fullDocumentBeforeChange"] = "whenAvailable"
    if several:
        stream["allChangesForCluster"] = True
    if after is not None:
        stream["startAfter"] = {"_data": after}
    stages: list[dict[str, Any]] = [{"$changeStream": stream}]
    if not options.patterns:
        ours: list[dict[str, Any]] = [{"ns.db": d, "ns.coll": c} for d, c in places]
        stages.append({"$match": {"$or": [*ours, {"operationType": {"$in": list(_DEFINING)}}]}})
    if tuple(connection.command("admin", {"buildInfo": 1})["versionArray"][:3]) >= _SPLITS:
        stages.append({"$changeStreamSplitLargeEvent": {}})
    where = "admin" if several else databases.pop()
    try:
        return Stream(connection, where, stages), looks
    except GapError as error:
        since = "" if after is None else f" since {shown_time(after)}"
        raise GapError(f"the changes{since} are gone: {error.why}") from None
    except UnfitPlaceError:
        # The last event was taken apart, and is smaller by now: what came of it is passed over.
        assert after is not None  # noqa: S101
        del stream["startAfter"]
        stream["startAtOperationTime"] = stamp_of(after)
        return Stream(connection, where, stages), looks


class ChangeStreamLog(DatabaseLog[Collection]):
    """Reads a change stream, and collections by their documents' ids.

    Args:
        settled: whether the begin is no event's place: no change of its time was taken.
        looks: whether the server looks documents up, as they are by then.
    """

    options: MongoDBSourceOptions

    def __init__(
        self,
        connection: Connection,
        stream: Stream,
        options: MongoDBSourceOptions,
        tables: Mapping[str, Collection],
        begin: Position,
        awaited: Position,
        *,
        settled: bool,
        looks: bool,
    ) -> None:
        super().__init__(options, tables, begin, awaited)
        self._connection = connection
        self._stream = stream
        self._places = {(each.namespace, each.table): each for each in tables.values()}
        self._at, self._settled, self._looks = begin, settled, looks
        #: Events up to here were taken before.
        self._begin = str(begin[0])
        #: The time of the last change, how many of ours had it, and whether others may follow.
        self._time, self._number = begin[0][TIME], begin[1]
        self._within: bool = begin[1] > 0
        if stream.token < self._begin:  # those come again, and are counted
            self._time, self._number = "", 0
        self._kept_settled = settled
        #: Of an event that is too large for one document.
        self._fragments: dict[str, Any] = {}
        self._mark: Position = begin
        #: When the last change was, in seconds since 1970; 0 at the log's end.
        self._last = 0.0

    # -- the log ----------------------------------------------------------------------------------

    @property
    def at(self) -> Position:
        return self._at

    @property
    def within(self) -> bool:
        return self._within

    def next(self) -> bytes | None:
        return self._stream.next()

    def wait(self, seconds: float) -> None:
        try:
            self._stream.wait(seconds)
        except GapError as error:
            since = shown_time(self._at[0])
            raise GapError(f"the changes since {since} are gone: {error.why}") from None

    def tend(self) -> None:
        """Nothing is to be done: the server answers each question, or is given up."""

    def quiet(self) -> None:
        self._last = 0.0
        if self._stream.token > self._at[0] and not self._fragments:
            # The server has looked beyond the last event: no other has that one's time.
            self._over()
            self._at, self._settled = [self._stream.token, 0], True

    def moved(self) -> None:
        self._kept_settled = self._settled

    def _over(self) -> None:
        """Note that the transaction in hand has ended."""
        self.ended = self.ended or self._within
        self._within = False
        self.end_runs()

    def read(self, data: bytes) -> None:
        event = read(data)
        if "splitEvent" in event:
            self._fragments |= event
            if event["splitEvent"]["fragment"] < event["splitEvent"]["of"]:
                return
            event, self._fragments = self._fragments, {}
        token = str(event[ID]["_data"])
        if token[TIME] != self._time:
            self._over()
            self._time, self._number = token[TIME], 0
        kind = event["operationType"]
        if token <= self._begin:
            ours = (event.get("ns", {}).get("db"), event.get("ns", {}).get("coll"))
            self._number += kind in _WRITES and (ours in self._places or self.unnamed(*ours))
            return
        self._at, self._settled = [token, self._number if self._within else 0], False
        if kind in _WRITES:
            self._written(event, token)
        elif kind in _DEFINING:
            self._defined(kind, event)

    def _defined(self, kind: str, event: Mapping[str, Any]) -> None:
        """See that collections stay what they are.

        Raises:
            PermanentError: one is gone, or another one.
        """
        of = event.get("ns", {})
        places = {(each.get("db"), each.get("coll")) for each in (of, event.get("to", {}))}
        gone = [
            table.origin
            for place, table in self._places.items()
            if kind == "invalidate"
            or place in places
            or (kind == "dropDatabase" and place[0] == of.get("db"))
        ]
        if gone:
            raise PermanentError(
                f"{', '.join(gone)} is gone, or another collection now ({kind}): {START_OVER}"
            )

    def _written(self, event: Mapping[str, Any], token: str) -> None:
        space, name = event["ns"]["db"], event["ns"]["coll"]
        table = self._places.get((space, name))
        if table is None and self.unnamed(space, name):
            table = Collection.unnamed(space, name, self.options)
        if table is None:
            return
        self._within = "txnNumber" in event
        self._number += 1
        self._at = [token, self._number if self._within else 0]
        stamp, at = stamp_of(token), event.get("wallTime")
        self._last = at.timestamp() if isinstance(at, datetime) else float(stamp.time)
        kind, key = event["operationType"], event["documentKey"][ID]
        was = event.get("fullDocumentBeforeChange") if table.preimages else None
        if table.preimages and kind != "insert" and was is None:
            raise PermanentError(
                f"the server has no document of {table.origin} as it was before a change: it keeps none, "
                f"or not for so long (expireAfterSeconds); {START_OVER}"
            )
        old = None if was is None else table.row(was)
        new = None
        if kind == "delete":
            old = table.gone(key) if old is None else old
        elif event.get("fullDocument") is not None:
            new = table.row(event["fullDocument"])
        elif self.options.unchanged == "refuse":
            new = table.changed(key, event["updateDescription"])
        elif self._looks:  # it was deleted since, which comes next
            new = table.gone(key)
        else:  # the server keeps documents now, and did not then, or not for so long
            new = table.by_now(self._connection, key)
        transaction = f"{stamp.time}.{stamp.inc}"
        run = self.run(table, [place_of(stamp)], int(self._last * 1_000_000), transaction)
        run.write(self._number, old, new, inserts=kind == "insert")
        self.count += 1

    # -- how far it is ----------------------------------------------------------------------------

    def prefix(self, position: Position) -> str:
        return str(position[0])[TIME].lower()

    def place(self) -> dict[str, Any]:
        return {
            "set": self._connection.hello.get("setName", ""), "settled": self._kept_settled,
        }  # fmt: skip

    def idle(self, seconds: float) -> None:
        time.sleep(seconds)

    def estimate(self, table: str) -> int | None:
        return self.tables[table].estimate(self._connection)

    def gauges(self) -> dict[str, float]:
        return {"log_behind_seconds": max(0.0, time.time() - self._last) if self._last else 0.0}

    def facts(self) -> dict[str, Any]:
        return {"log": shown_time(self.reached[0])}

    def close(self) -> None:
        self._connection.close()

    # -- collections ------------------------------------------------------------------------------

    def mark(self) -> Position:
        failpoint("mongodb.after-chunk")
        self.awaited = max(self.awaited, self._mark)
        return self._mark

    def chunk(self, table: str, after: Any, rows: int, where: str | None = None) -> Chunk | None:
        # As of the place in the log: before its time, of which more may come; or, where some of that time
        # was taken, with all of it.
        stamp = stamp_of(self._at[0])
        if self._settled:
            seen, self._mark = before(stamp), self._at
        else:
            seen, self._mark = stamp, [place_of(stamp, 1), 0]
        try:
            return self.tables[table].chunk(self._connection, after, rows, where, seen)
        except NoSnapshotError:  # of a later time there may be one
            time.sleep(0.001)
            return None
