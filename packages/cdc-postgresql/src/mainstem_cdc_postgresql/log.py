"""The server's log and tables as `SnapshotThenLog` wants them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from mainstem import PermanentError, TransientError, failpoint
from mainstem_cdc import START_OVER, UNCHANGED, Change, Changes, Chunk, GapError, Values
from mainstem_cdc.log import DatabaseLog
from mainstem_ingress import Message

from mainstem_cdc_postgresql.connection import Connection, Stream, literal, lsn, written
from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions
from mainstem_cdc_postgresql.protocol import (
    Begin,
    Commit,
    Relation,
    Text,
    Truncate,
    Write,
    read,
)
from mainstem_cdc_postgresql.rows import RowReader
from mainstem_cdc_postgresql.slot import drop
from mainstem_cdc_postgresql.tables import PostgreSQLTable

#: How often the server is told how far all is stored, and asked how far it is where that is awaited, in
#: seconds.
_TELLING, _ASKING = 1.0, 0.05
#: How often the server is asked how much it keeps, in seconds.
_GUARDING = 10.0
#: After so many `answer_timeout`s in which the server has said nothing it is given up.
_SILENCE = 4
#: A transaction may be seen before it is in the log, for three times the server's pause at most: its
#: documentation of asynchronous commits.
_PAUSES = 3
#: A page of the log begins with a header, in which nothing ends.
_PAGE, _HEADER = 8192, 40
#: How many transactions that were read are remembered.
_REMEMBERED = 100_000

#: A place: where its transaction's commit is, and the change's number in it, from 1.
Position = list[int]


class WriteAheadLog(DatabaseLog[PostgreSQLTable]):
    """Reads the stream of a slot, and tables by key.

    Args:
        begin: the position behind which it is read.
    """

    options: PostgreSQLSourceOptions

    def __init__(
        self,
        connection: Connection,
        stream: Stream,
        options: PostgreSQLSourceOptions,
        tables: Mapping[str, PostgreSQLTable],
        begin: Position,
    ) -> None:
        super().__init__(options, tables, begin, [stream.end, 0])
        self._connection = connection
        self._stream = stream
        self._rows = RowReader(options)
        self._places = {(each.namespace, each.table): each for each in tables.values()}
        #: By the number of a relation: its table, and where that one's columns are.
        self._relations: dict[int, tuple[PostgreSQLTable, list[int | None]]] = {}
        #: The relations of whose rows the log does not tell the key as it was.
        self._untold: frozenset[int] = frozenset()
        self._open: Begin | None = None
        self._number = 0
        #: Behind what the call in hand is.
        self._after: Position = begin
        #: Transactions that ran when this connection began, while they may be of what was read before.
        self._unknown: set[int] | None = None
        self._seen: deque[int] = deque(maxlen=_REMEMBERED)
        #: Of transactions that are not stored: the last position, and where the log goes on behind them.
        self._ends: deque[tuple[Position, int]] = deque()
        self._told = self._asked = time.monotonic()
        #: The place that was awaited when the server was asked.
        self._asked_for: Position = [0, 0]
        #: When the slot was looked at, and how much is kept for it if that is too much.
        self._guarded, self._kept = 0.0, 0
        self._at: Position = begin
        #: Up to where all is stored.
        self.confirmed = begin[0]

    # -- the log ----------------------------------------------------------------------------------

    def changes(self, after: Position, seconds: float) -> Changes:
        self._after = after
        return super().changes(after, seconds)

    @property
    def at(self) -> Position:
        return self._at

    @property
    def within(self) -> bool:
        return self._open is not None

    def next(self) -> bytes | None:
        return self._stream.next()

    def quiet(self) -> None:
        if self._open is None and self._stream.reached > self._at[0]:
            self._at = [self._stream.reached, 0]

    def wait(self, seconds: float) -> None:
        self._stream.wait(min(seconds, _ASKING) if self.awaits else seconds)

    def hurried(self) -> bool:
        return self._stream.asked  # as a server does that is about to stop

    def read(self, data: bytes) -> None:
        sent = read(data)
        if isinstance(sent, Write):
            self._written(sent)
        elif isinstance(sent, Begin):
            self._open, self._number = sent, 0
            self._seen.append(sent.xid)
        elif isinstance(sent, Commit):
            self._open = None
            self.end_runs()
            self._ends.append((self._at, sent.end))
            # All of it was returned before: what is stored must go on behind it, as what is confirmed.
            self.ended = self.ended or (self._number > 0 and self._at == self._after)
            self._at = [sent.end, 0]
        elif isinstance(sent, Relation):
            self._related(sent)
        elif isinstance(sent, Text):
            self._said(sent)
        elif isinstance(sent, Truncate):
            found = [self._relations[r][0] for r in sent.relations if r in self._relations]
            self.emptied([table.sql for table in found if table.named])

    def _related(self, relation: Relation) -> None:
        """Note where a table's columns are from here on.

        Raises:
            PermanentError: a table has got another name, or another table its name.
        """
        table = self._places.get((relation.namespace, relation.name))
        known = next((each for each in self._places.values() if each.oid == relation.id), None)
        if known is not None and known is not table:
            name = f"{relation.namespace}.{relation.name}"
            raise PermanentError(f"{known.sql} is {name} now: {START_OVER}")
        if table is None and self.unnamed(relation.namespace, relation.name):
            table = PostgreSQLTable.unnamed(self._connection, relation, self.options)
            self._relations[relation.id] = (table, list(range(len(relation.columns))))
            return
        if table is None:
            return
        if table.oid not in (None, relation.id):
            raise PermanentError(f"{table.sql} is another table now: {START_OVER}")
        self._relations[relation.id] = (table, table.layout(relation))
        table.look(self._connection)
        # Of rows that only came nothing is lacking, whatever the log tells of others.
        told = set(table.key) <= set(relation.told)
        self._untold = self._untold - {relation.id} if told else self._untold | {relation.id}

    def _next(self) -> int | None:
        """Return the next number in the transaction in hand; None if it is of what comes again."""
        assert self._open is not None  # noqa: S101
        self._number += 1
        self._at = [self._open.commit, self._number]
        return self._number if self._at > self._after else None

    def _written(self, write: Write) -> None:
        number = self._next()
        place = self._relations.get(write.relation)
        if number is None or place is None:
            return
        table, layout = place
        old: Values | None = write.old
        new: Values | None = write.new
        if old is not None:
            old = [None if at is None else old[at] for at in layout]
            if not table.named and not write.whole:  # null stands for what is not told
                old = [UNCHANGED if value is None else value for value in old]
        lacks = (old is not None and None in table.key_of(old)) or (
            table.preimages and write.kind != "insert" and not write.whole
        )
        # An update without a row before has kept its key, as far as the log tells that.
        lacks = lacks or (old is None and write.kind == "update" and write.relation in self._untold)
        if (table.named and lacks) or (old is None and write.kind == "delete"):
            raise PermanentError(
                f"the log lacks what {table.sql} was before a change: its REPLICA IDENTITY, or that of a "
                f"partition, was changed; {START_OVER}"
            )
        if new is not None:
            new = [None if at is None else new[at] for at in layout]
            if UNCHANGED in new:
                new = table.with_key(new, old) if old is not None else new
                new = self.filled(table, new, old if write.whole else None)
        assert self._open is not None  # noqa: S101
        run = self.run(table, [self._open.commit], self._open.at, str(self._open.xid))
        run.write(number, old, new, inserts=write.kind == "insert")
        self.count += 1

    def now(self, table: PostgreSQLTable, key: Sequence[Any]) -> Values | None:
        found = table.now(self._connection, key)
        self.tend()
        return found

    def _said(self, text: Text) -> None:
        if text.transactional:
            assert self._open is not None  # noqa: S101
            if self._next() is None:
                return
            at = self._open.at
        else:  # it is of no transaction, and comes between them
            if [text.place, 0] <= self._after:
                return
            at = time.time_ns() // 1000
            self._at = max(self._at, [text.place, 0])
        said = Message(text.content, timestamp=at, origin=text.prefix)
        self.found.append(Change(self._at, "", (), said))
        self.count += 1

    # -- how far it is ----------------------------------------------------------------------------

    def keep(self, position: Position, *, ended: bool = True) -> None:
        place = position[0]
        while self._ends and (
            self._ends[0][0] < position or (ended and self._ends[0][0] == position)
        ):
            place = self._ends.popleft()[1]
        # Never beyond what a restart would go on from.
        self.confirmed = max(self.confirmed, min(place, self.reached[0]))

    def tend(self) -> None:
        self._tell()
        now = time.monotonic()
        if self.options.slot_limit is not None and now - self._guarded >= _GUARDING:
            self._guarded = now
            self._guard(self.options.slot_limit)

    def _tell(self) -> None:
        now = time.monotonic()
        patience = _SILENCE * self.options.answer_timeout.total_seconds()
        silent = now - self._stream.heard
        if silent > patience:
            raise TransientError(f"the server has said nothing for {patience:.0f} seconds")
        pause = _ASKING if self.awaits else _TELLING
        due = now - self._asked >= pause or self._asked_for < self.awaited
        asks = (self.awaits or silent > patience / 2) and due
        if asks or self._stream.asked or now - self._told >= _TELLING:
            self._stream.tell(self.confirmed, answer=asks)
            self._told = now
            if asks:
                self._asked, self._asked_for = now, self.awaited

    def _guard(self, limit: int) -> None:
        """See that the server does not keep more of its log than it may.

        Raises:
            PermanentError: it does, and the document says that this ends the run.
            GapError: it did, and the slot was dropped.
        """
        slot = self.options.slot
        found = self._connection.query(
            "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint FROM "
            f"pg_replication_slots WHERE slot_name = {literal(slot)}"
        )
        kept = int(found[0][0] or 0) if found else 0
        self._kept = kept if kept > limit else 0
        if not self._kept or self.options.on_slot_limit == "warn":
            return
        told = f"the server keeps {kept:,} bytes of its log for the slot {slot}, and may keep {limit:,}"
        if self.options.on_slot_limit == "fail":
            raise PermanentError(
                f"{told} (`slot_limit`): let this go on faster, end transactions that are open for long, "
                "or drop the slot before the server's disk is full"
            )
        failpoint("postgresql.before-drop")
        self._stream.close()
        drop(self._connection, slot)
        raise GapError(f"{told}, so it was dropped")

    def idle(self, seconds: float) -> None:
        time.sleep(seconds)
        self._stream.heard = time.monotonic()
        self.tend()

    def close(self) -> None:
        with suppress(TransientError):
            self._stream.tell(self.confirmed)
        self._stream.close()
        self._rows.close()
        self._connection.close()

    def prefix(self, position: Position) -> str:
        return f"{position[0]:016x}"

    def place(self) -> dict[str, Any]:
        stream = self._stream
        return {
            "system": stream.system,
            "timeline": stream.timeline,
            "began": stream.began,
            "oids": {name: table.oid for name, table in self.tables.items()},
        }

    def estimate(self, table: str) -> int | None:
        return self.tables[table].estimate(self._connection)

    def gauges(self) -> dict[str, float]:
        end = max(self._stream.reached, self.reached[0])
        return {
            "log_behind_bytes": end - self.reached[0],
            "log_kept_bytes": end - self.confirmed,
        }

    def facts(self) -> dict[str, Any]:
        return {
            "log": written(self.reached[0]),
            "stored": written(self.confirmed),
            "truncated": self.truncated,
            **({"slot_keeps_too_much": self._kept} if self._kept else {}),
        }

    # -- tables -----------------------------------------------------------------------------------

    def mark(self) -> Position:
        failpoint("postgresql.after-chunk")
        place = self._end("pg_current_wal_insert_lsn()")
        safe = self._end("pg_current_wal_flush_lsn()")
        if safe < place:
            # What is seen is on the server's disk, or will be by then; the rest may be much later.
            query = "SELECT setting FROM pg_settings WHERE name = 'wal_writer_delay'"
            until = (
                time.monotonic() + _PAUSES * int(self._connection.query(query)[0][0] or 200) / 1000
            )
            while safe < place and time.monotonic() < until:
                time.sleep(0.01)
                safe = self._end("pg_current_wal_flush_lsn()")
        place = min(place, safe)
        self.awaited = max(self.awaited, [place, 0])
        return [place, 0]

    def _end(self, function: str) -> int:
        ((found,),) = self._connection.query(f"SELECT {function}")
        place = lsn(str(found))
        return place - place % _PAGE if place % _PAGE <= _HEADER else place

    def chunk(self, table: str, after: Any, rows: int, where: str | None = None) -> Chunk | None:
        # A transaction is in the log a little before it is seen, and long where it waits for a standby.
        if not self._settled():
            return None
        if after is None:  # its columns may be others than when this began
            found = self.tables[table]
            before = found.oid
            found.find(self._connection)
            if before not in (None, found.oid):
                raise PermanentError(f"{found.sql} is another table now: {START_OVER}")
        return self.sized(table, rows, lambda most: self._chunk(table, after, most, where))

    def _chunk(self, table: str, after: Any, rows: int, where: str | None) -> Chunk | None:
        # What the server says meanwhile is not read: it is not silent for that.
        def meanwhile() -> None:
            self._stream.heard = time.monotonic()
            self._tell()

        snapshot, found = self.tables[table].chunk(
            self._connection, self._rows, after, rows, meanwhile, where
        )
        if self._unseen(snapshot):
            self._rows.outdated()
            return None
        return found

    def _settled(self) -> bool:
        """Whether no transaction that was read before this connection may still be unseen.

        Only one that waits for a standby can be for so long. Those that ran when this connection began
        are over, or come from the log now.
        """
        if self._unknown is None:
            waits = self._connection.query("SELECT current_setting('synchronous_standby_names')")
            self._unknown = self._running() if waits[0][0] else set()
        if self._unknown:
            self._unknown = (self._unknown - set(self._seen)) & self._running()
        return not self._unknown

    def _running(self) -> set[int]:
        """Return the transactions that are not over: each has a lock on its own id until it is seen."""
        found = self._connection.query(
            "SELECT transactionid FROM pg_locks WHERE locktype = 'transactionid' AND mode = "
            "'ExclusiveLock' AND granted"
        )
        return {int(str(xid)) for (xid,) in found}

    def _unseen(self, snapshot: str) -> bool:
        """Whether a transaction that was read is among those which a snapshot has not seen."""
        _, end, running = snapshot.split(":")
        hidden = {int(each) & 0xFFFFFFFF for each in running.split(",") if each}
        first_new = int(end) & 0xFFFFFFFF
        # Ids go round: those of the last two thousand million are the earlier ones.
        unseen = any(
            xid in hidden or (xid - first_new) & 0xFFFFFFFF < 0x80000000 for xid in self._seen
        )
        if not unseen:  # nor will they ever be again
            self._seen.clear()
        return unseen
