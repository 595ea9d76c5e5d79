"""The server's binary log and tables as `SnapshotThenLog` wants them."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from mainstem import PermanentError, TransientError, failpoint
from mainstem_cdc import START_OVER, UNCHANGED, Chunk, GapError, Values
from mainstem_cdc.log import DatabaseLog

from mainstem_cdc_mysql import statements
from mainstem_cdc_mysql.charsets import Charsets
from mainstem_cdc_mysql.connection import Connection, Stream
from mainstem_cdc_mysql.options import MySQLSourceOptions
from mainstem_cdc_mysql.places import Beginning, Place, file_number, gtids_of
from mainstem_cdc_mysql.protocol import (
    ANONYMOUS,
    FORMAT,
    GTID,
    HEARTBEAT,
    KNOWN,
    LOAD,
    MARIADB_GTID,
    PAYLOAD,
    QUERY,
    QUERY_COMPRESSED,
    ROTATE,
    ROWS,
    TABLE,
    TAGGED_GTID,
    XA_PREPARE,
    XID,
    Begin,
    Event,
    Query,
    begin,
    event,
    payload,
    query,
    rotated,
    rows_body,
    summed,
)
from mainstem_cdc_mysql.rows import Layout, RowReader
from mainstem_cdc_mysql.tables import MySQLTable

#: How many tables' layouts are remembered.
_LAYOUTS = 10_000
#: Places in a file are told modulo this.
_TURN = 1 << 32
#: Of a sequence, for the first parts of a place: a file is of 8 GiB at most.
_VERSION_BITS = (7, 23, 33)

#: A place: how often the server was another one, the number of the file, where the transaction begins in
#: it, and how many of its changes are before.
Position = list[int]


class BinaryLog(DatabaseLog[MySQLTable]):
    """Reads the stream of a binary log, and tables by key."""

    options: MySQLSourceOptions
    numbered = False

    def __init__(
        self,
        connection: Connection,
        stream: Stream,
        options: MySQLSourceOptions,
        tables: Mapping[str, MySQLTable],
        beginning: Beginning,
    ) -> None:
        super().__init__(options, tables, beginning.position, beginning.end)
        self._connection = connection
        self._stream = stream
        self._beginning = beginning
        ((folds,),) = connection.texts("SELECT @@lower_case_table_names")
        self._fold: Callable[[str], str] = str if folds == "0" else str.lower
        self._places = {
            (self._fold(each.namespace), self._fold(each.table)): each for each in tables.values()
        }
        self._charsets = Charsets(connection)
        #: By a table event's bytes: the table and what reads its rows; by number: the same.
        self._layouts: dict[bytes, tuple[MySQLTable, RowReader] | None] = {}
        self._numbered: dict[int, tuple[MySQLTable, RowReader] | None] = {}
        #: Where the event in hand ends, and how the file is called.
        self._epoch, self._file, self._end = beginning.epoch, beginning.file, beginning.start
        self._made = 0
        self._summed = stream.summed
        #: Of the transaction in hand: what began it, where, how many changes there were, by table too.
        self._open: Begin | None = None
        self._start = beginning.start
        self._count = 0
        self._counts: dict[str, int] = {}
        #: Whether it has several phases, and whether it ends by an event of its own.
        self._xa = self._whole = False
        #: By transaction, how many changes of each table were taken before this connection; and of the
        #: one in hand.
        self._taken = dict(beginning.taken)
        self._skipped: dict[str, int] = {}
        self._gtids = (
            None
            if beginning.gtids is None
            else gtids_of(beginning.gtids, mariadb=beginning.mariadb)
        )
        #: Transactions that were read, while it is not known that they are seen.
        self._unseen = gtids_of(beginning.gtids or "", mariadb=beginning.mariadb)
        self._any_unseen = self._gtids is not None
        for gtid in filter(None, beginning.taken):
            self._unseen.add(gtid)
        #: Whether there may be more events, and when the last one was, in seconds since 1970.
        self._behind, self._last = False, 0
        self._place = self._here()
        self._passes_statements = options.on_statement == "ignore"
        #: How many statements there were in place of rows, which were passed over.
        self.statements = 0

    # -- the log ----------------------------------------------------------------------------------

    @property
    def at(self) -> Position:
        where = self._end if self._open is None else self._start
        taken = self._skipped if self._open is not None else self._leftover
        count = max(self._count, sum(taken.values()))
        return [self._epoch, file_number(self._file), where, count]

    @property
    def _leftover(self) -> Mapping[str, int]:
        """Of the transaction that comes next, what was taken of it before this connection."""
        return next(iter(self._taken.values()), {})

    @property
    def within(self) -> bool:
        return self._open is not None

    @property
    def undecided(self) -> bool:
        return self._xa

    def next(self) -> bytes | None:
        return self._stream.next()

    def quiet(self) -> None:
        self._behind = False

    def tend(self) -> None:
        self._stream.listen()

    def wait(self, seconds: float) -> None:
        self._stream.wait(seconds)

    def moved(self) -> None:
        self._place = self._here()

    def read(self, data: bytes) -> None:
        of = event(data, summed=self._summed)
        kind = of.kind
        self._behind, self._last = kind != HEARTBEAT, of.at or self._last
        if kind == ROTATE:
            file, place = rotated(of.body)
            # One that is sent first says where the server looks for our transactions.
            end = max(self._end, place) if file == self._file else place
            self._made = self._made if file == self._file else 0
            self._file, self._end = file, end
            return
        if kind == FORMAT:
            self._began(of)
        low = self._end % _TURN
        if of.end >= low:
            self._end += of.end - low
        elif of.end and low > _TURN // 4 * 3 and of.end < _TURN // 4:
            self._end += _TURN - low + of.end
        try:
            if kind == PAYLOAD:
                for inner in payload(of.body):
                    self._taken_in(event(inner, summed=False))
            else:
                self._taken_in(of)
        except (ValueError, IndexError, KeyError, struct.error) as error:
            raise PermanentError(
                f"an event that ends at {self._end} of {self._file} can't be read "
                f"({type(error).__name__}): this is a fault of mainstem-cdc-mysql; report it"
            ) from error

    def _taken_in(self, of: Event) -> None:
        kind = of.kind
        if kind in ROWS:
            self._written(of)
        elif kind == TABLE:
            self._related(of)
        elif kind in (GTID, ANONYMOUS, MARIADB_GTID):
            self._begun(begin(of), of)
        elif kind == XID:
            self._ended()
        elif kind in (QUERY, QUERY_COMPRESSED):
            self._stated(query(of))
        elif kind == XA_PREPARE:
            self._prepared(of)
        elif kind == LOAD:
            self._changed(Query("", "LOAD DATA"))
        elif kind == TAGGED_GTID:
            raise PermanentError("the server's transactions have tags, which are not known here")
        elif kind not in KNOWN and not of.ignorable:
            raise PermanentError(
                f"the log has an event of kind {kind} at {self._end} of {self._file}, which is not known "
                f"here: changes may be lost; {START_OVER}"
            )

    def _began(self, of: Event) -> None:
        """See that a file is the one of the checkpoint.

        Raises:
            GapError: it is another one of its name.
        """
        self._numbered.clear()
        self._summed = summed(of)
        wanted, self._made = self._beginning.made, of.at
        if self._file == self._beginning.file and wanted not in (0, of.at):
            raise GapError(
                f"the file {self._file} of the server's log is another one than this checkpoint is of: "
                "somebody has reset the log (RESET MASTER)"
            )

    def _begun(self, begun: Begin, of: Event) -> None:
        self._open = begun
        self._count, self._counts = 0, {}
        self._start = self._end - of.size if of.end else self._end
        same = bool(begun.gtid) or self._start == self._beginning.start
        self._skipped = self._taken.pop(begun.gtid, {}) if same else {}
        self._whole = self._beginning.mariadb and not begun.alone
        if self._gtids is not None and begun.gtid:
            self._unseen.add(begun.gtid)
            self._any_unseen = True

    def _ended(self) -> None:
        if self._open is not None and self._open.gtid and self._gtids is not None:
            self._gtids.add(self._open.gtid)
        self._open, self._xa, self._whole, self._skipped = None, False, False, {}
        self.ended = self.ended or self._count > 0
        self._count, self._counts = 0, {}
        self.end_runs()

    def _prepared(self, of: Event) -> None:
        """See that a transaction of several phases had but one.

        Raises:
            PermanentError: its changes may be taken back yet.
        """
        if self._count and not of.body[0]:
            raise PermanentError(
                "the log has a prepared transaction (XA PREPARE) with changes of these tables, of which "
                f"nobody knows yet whether they stay; {START_OVER}"
            )
        self._ended()

    def _stated(self, stated: Query) -> None:
        text = stated.text.lstrip()
        word = text[:12].upper()
        if word.startswith(("BEGIN", "SAVEPOINT")) or text.endswith("START TRANSACTION"):
            # The last is the table of a CREATE TABLE ... SELECT, whose rows follow.
            self._whole = True
            return
        if word.startswith("COMMIT"):
            self._ended()
            return
        if word.startswith("ROLLBACK"):
            if self._count:
                raise PermanentError(
                    "the log has a transaction that was rolled back in part, with a table that can't be: "
                    f"its changes are not known; {START_OVER}"
                )
            if not word.startswith("ROLLBACK TO"):
                self._ended()
            return
        if word.startswith(("XA START", "XA BEGIN")):
            self._xa = self._whole = True
            return
        if word.startswith("XA END"):
            return
        if word.startswith("XA "):
            self._ended()
            return
        self._changed(stated)
        if not self._whole:
            self._ended()

    def _changed(self, stated: Query) -> None:
        """See what a statement did to tables of the document."""
        what = statements.read(stated.text, stated.database)
        if what is None:
            return
        if what.kind == "written":
            if self._passes_statements:
                self.statements += 1
                return
            raise PermanentError(
                f"a statement ({stated.text[:6].strip()} in {stated.database or 'no database'}) is in "
                "the log in place of the rows that it changes: a session has another binlog_format than "
                f"ROW. Where it changes none of these tables: `on_statement: ignore`; else {START_OVER}"
            )
        found = {(self._fold(d), None if n is None else self._fold(n)) for d, n in what.tables}
        ours = [
            table
            for (database, name), table in self._places.items()
            if (database, name) in found or (database, None) in found
        ]
        if not ours:
            return
        if what.kind == "replaced":
            raise PermanentError(
                f"{', '.join(t.sql for t in ours)} is gone, or another table now: {START_OVER}"
            )
        if what.kind == "altered":
            for table in ours:
                table.check_cascades(self._connection)
            return
        self.emptied([table.sql for table in ours])

    def _related(self, of: Event) -> None:
        """Note what reads rows of a table, as it is from here on."""
        body = of.body
        key = body[6:]
        if key not in self._layouts:
            if len(self._layouts) >= _LAYOUTS:
                self._layouts.clear()
            self._layouts[key] = self._reader(body)
        self._numbered[int.from_bytes(body[:6], "little")] = self._layouts[key]

    def _reader(self, body: bytes) -> tuple[MySQLTable, RowReader] | None:
        end = 9 + body[8]
        place = body[9:end].decode(), body[end + 2 : end + 2 + body[end + 1]].decode()
        table = self._places.get((self._fold(place[0]), self._fold(place[1])))
        if table is None and not self.unnamed(*place):
            return None
        layout = Layout(body, mariadb=self._beginning.mariadb)
        if table is None:
            table = MySQLTable.unnamed(self._connection, *place, layout.names, self.options)
        with suppress(PermanentError):  # its columns may be others than when this began
            if table.named:
                table.find(self._connection)
        if not layout.names:
            raise PermanentError(
                f"the log has rows of {table.sql} without the names of its columns: they were written "
                f"while binlog_row_metadata was not FULL; {START_OVER}"
            )
        places = table.places(layout.names)
        return table, RowReader(layout, places, table.special, self._charsets.decoder)

    def _written(self, of: Event) -> None:
        number = int.from_bytes(of.body[:6], "little")
        known = self._numbered.get(number)
        if known is None:
            return
        table, reader = known
        what, second = ROWS[of.kind]
        body = rows_body(of.kind, of.body)
        at = 8 + (int.from_bytes(body[8:10], "little") if second else 0)
        if self._open is None:  # a server without numbers, from before MySQL 5.7
            self._begun(Begin("", of.at * 1_000_000, alone=False), of)
        if what in ("update", "partial"):
            for old, new in reader.update(body, at, partial=what == "partial"):
                self._wrote(table, old, new, inserts=False)
        else:
            for row in reader.insert_or_delete(body, at):
                if what == "insert":
                    self._wrote(table, None, row, inserts=True)
                else:
                    self._wrote(table, row, None, inserts=False)

    def _wrote(
        self, table: MySQLTable, old: Values | None, new: Values | None, *, inserts: bool
    ) -> None:
        number = self._counts[table.name] = self._counts.get(table.name, 0) + 1
        self._count += 1
        if number <= self._skipped.get(table.name, 0):
            return
        self.count += 1
        lacks = old is not None and UNCHANGED in old
        if (
            table.named
            and old is not None
            and lacks
            and (table.preimages or UNCHANGED in table.key_of(old))
        ):
            raise PermanentError(
                f"the log lacks what {table.sql} was before a change: a session has binlog_row_image "
                f"MINIMAL; {START_OVER}"
            )
        if new is not None and UNCHANGED in new:
            new = self.filled(table, new, old)
        assert self._open is not None  # noqa: S101
        place = [self._epoch, file_number(self._file), self._start]
        transaction = self._open.gtid or f"{self._file}:{self._start}"
        run = self.run(table, place, self._open.at, transaction)
        run.write(number, old, new, inserts=inserts)

    def now(self, table: MySQLTable, key: Sequence[Any]) -> Values | None:
        return table.now(self._connection, key)

    # -- how far it is ----------------------------------------------------------------------------

    def _here(self) -> Place:
        open_ = self._open
        taken = dict(self._taken)
        if open_ is not None and (self._counts or self._skipped):
            taken[open_.gtid] = {
                table: max(self._counts.get(table, 0), self._skipped.get(table, 0))
                for table in {*self._counts, *self._skipped}
            }
        return Place(
            server=self._beginning.server,
            epoch=self._epoch,
            file=self._file,
            start=self._end if open_ is None else self._start,
            made=self._made,
            gtids=None if self._gtids is None else str(self._gtids),
            taken=taken,
        )

    def prefix(self, position: Position) -> str:
        # 63 bits, as sinks take them that compare versions as numbers.
        version = 0
        for part, bits in zip(position, _VERSION_BITS, strict=False):
            if part >> bits:
                raise PermanentError(
                    f"the log is at {position}, beyond what a sequence holds ({_VERSION_BITS} bits): "
                    f"{START_OVER}"
                )
            version = version << bits | part
        return f"{version:016x}"

    def place(self) -> dict[str, Any]:
        return self._place.encoded()

    def estimate(self, table: str) -> int | None:
        return self.tables[table].estimate(self._connection)

    def idle(self, seconds: float) -> None:
        time.sleep(seconds)
        self._stream.heard = time.monotonic()

    def gauges(self) -> dict[str, float]:
        return {"log_behind_seconds": max(0.0, time.time() - self._last) if self._behind else 0.0}

    def facts(self) -> dict[str, Any]:
        return {
            "log": f"{self._place.file}:{self._place.start}",
            "gtids": self._place.gtids,
            "truncated": self.truncated,
            "statements": self.statements,
        }

    def close(self) -> None:
        self._stream.close()
        self._connection.close()

    # -- tables -----------------------------------------------------------------------------------

    def mark(self) -> Position:
        failpoint("mysql.after-chunk")
        found = self._connection.status(self._beginning.status)
        mark = [self._epoch, file_number(found["file"]), int(found["position"]), 0]
        self.awaited = max(self.awaited, mark)
        return mark

    def chunk(self, table: str, after: Any, rows: int, where: str | None = None) -> Chunk | None:
        # A transaction is in the log a little before it is seen, and long where it waits for a replica.
        read = self._mariadb_chunk if self._beginning.mariadb else self._mysql_chunk
        if after is None:  # its columns may be others than when this began
            self.tables[table].find(self._connection)
        return self.sized(table, rows, lambda most: read(self.tables[table], after, most, where))

    def _mariadb_chunk(
        self, table: MySQLTable, after: Any, rows: int, where: str | None
    ) -> Chunk | None:
        """Return rows of a snapshot of which the server says where in its log it is."""
        ask = self._connection.query
        ask("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        ask("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        status = self._connection.texts("SHOW STATUS LIKE 'binlog_snapshot_%'")
        said = {name: value for name, value, *_ in status}
        file, place = said["Binlog_snapshot_file"], int(said["Binlog_snapshot_position"])
        seen = [self._epoch, file_number(file), place, 0] >= self.at
        try:
            if not seen:
                return None
            return table.chunk(self._connection, after, rows, "", self._stream.listen, where)
        finally:
            with suppress(TransientError):
                ask("ROLLBACK")

    def _mysql_chunk(
        self, table: MySQLTable, after: Any, rows: int, where: str | None
    ) -> Chunk | None:
        if self._gtids is None:
            # Whoever is about to commit has its rows locked until they are seen.
            return table.chunk(
                self._connection, after, rows, " LOCK IN SHARE MODE", self._stream.listen, where
            )
        if self._any_unseen:
            wanted = self._connection.literal(str(self._unseen).encode())
            ((seen,),) = self._connection.texts(
                f"SELECT GTID_SUBSET({wanted}, @@global.gtid_executed)"
            )
            if seen != "1":
                return None
            self._unseen, self._any_unseen = gtids_of("", mariadb=False), False
        return table.chunk(self._connection, after, rows, "", self._stream.listen, where)
