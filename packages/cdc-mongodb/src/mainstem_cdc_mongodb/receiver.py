"""The receiver of the source `mongodb`."""

from __future__ import annotations

import time

from mainstem import PermanentError
from mainstem_cdc import START_OVER
from mainstem_cdc.receiver import CaptureReceiver, Opened
from mainstem_cdc.requests import Cursor

from mainstem_cdc_mongodb.connection import Connection
from mainstem_cdc_mongodb.documents import place_of, shown_time
from mainstem_cdc_mongodb.log import ChangeStreamLog, Position, open_stream
from mainstem_cdc_mongodb.options import MongoDBSourceOptions
from mainstem_cdc_mongodb.tables import Collection

#: The oldest version of the protocol: MongoDB 6, which reads snapshots and keeps documents as they were.
_OLDEST = 17


class MongoDBReceiver(CaptureReceiver):
    """Takes documents of collections, and the changes of a change stream."""

    options: MongoDBSourceOptions

    def open(self, cursor: Cursor | None, *, again: bool) -> Opened:
        options = self.options
        tables = {name: Collection(name, given, options) for name, given in options.tables.items()}
        connection = Connection(options)
        try:
            self._check(connection, cursor)
            end = connection.now()
            resumed = None if cursor is None or again else cursor
            after = None if resumed is None else str(resumed.position[0])
            stream, looks = open_stream(connection, options, tables, after)
        except BaseException:
            connection.close()
            raise
        begin: Position = [stream.token, 0] if resumed is None else resumed.position
        awaited = begin if resumed is None else [place_of(end, 1), 0]
        settled = resumed is None or bool(resumed.place["settled"])
        log = ChangeStreamLog(
            connection, stream, options, tables, begin, awaited, settled=settled, looks=looks
        )
        return Opened(log, tables, begin)

    def _check(self, connection: Connection, cursor: Cursor | None) -> None:
        """See that the server is one that can do it, and that of the checkpoint.

        Raises:
            PermanentError: it is not; says what to do.
        """
        place, hello = self.options.place, connection.hello
        if int(hello.get("maxWireVersion", 0)) < _OLDEST:
            raise PermanentError(f"{place} is older than MongoDB 6")
        name = str(hello.get("setName", ""))
        if not name and hello.get("msg") != "isdbgrid":
            raise PermanentError(
                f"{place} is no replica set and no sharded cluster, and tells no changes: a single "
                "server can be a set of its own (--replSet, rs.initiate())"
            )
        if cursor is None:
            return
        if name != cursor.place["set"]:
            raise PermanentError(
                f"{place} is of another replica set ({name}) than the one this checkpoint is of "
                f"({cursor.place['set']}); {START_OVER}"
            )
        # A stream may begin one count beyond the server's time.
        end, at = place_of(connection.now(), 1), str(cursor.position[0])
        until = time.monotonic() + self.options.answer_timeout.total_seconds()
        # Another server of the same cluster may not have heard of that time yet.
        while end < at[: len(end)] and time.monotonic() < until:
            time.sleep(0.1)
            end = place_of(connection.now(), 1)
        if end < at[: len(end)]:
            raise PermanentError(
                f"{place} is at {shown_time(end)}, before {shown_time(at)}, where this checkpoint is: it "
                f"was set back to an older state, or is another server; {START_OVER}"
            )
