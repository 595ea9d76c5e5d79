"""Where to begin: what the server must have, and what its slot and our place say of each other."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from mainstem import PermanentError, TransientError, failpoint
from mainstem_cdc import START_OVER, GapError

from mainstem_cdc_postgresql.connection import Connection, Stream, literal, lsn, quoted, written
from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions
from mainstem_cdc_postgresql.tables import PostgreSQLTable

#: The oldest version whose plugin gives messages.
_OLDEST = 140_000
#: The oldest version whose standbys keep slots.
_KEPT_BY_STANDBYS = 170_000
#: A slot is made when all transactions of that moment have ended, in seconds.
_MAKING = 600.0
#: How long it is waited for that a reader lets go of it, in seconds.
_LETTING_GO = 10.0


@dataclass(frozen=True)
class Place:
    """Where a checkpoint is.

    Attributes:
        system: the server's identifier.
        timeline: the number of its history: a standby that is promoted begins another one; 0 if that is
            not known.
        began: where in the log that history began.
        log: behind which place in the log it goes on, and the change in the transaction that is there.
        tables: as `SnapshotThenLog` wrote it.
        oids: the tables that were followed, by their names in the document.
    """

    system: str
    tables: str
    timeline: int = 0
    began: int = 0
    oids: Mapping[str, int] = field(default_factory=dict)

    @property
    def log(self) -> int:
        """The place in the log behind which it goes on."""
        return int(json.loads(self.tables)["log"][0])

    @property
    def within(self) -> bool:
        """Whether the transaction that is there was taken in part."""
        return bool(json.loads(self.tables)["log"][1])


@dataclass(frozen=True)
class Slot:
    """A slot as the server has it.

    Attributes:
        confirmed: up to where it was read; None for one that is not whole.
        active: whether somebody reads it, or still makes it.
        lost: why the server has let go of what it should keep; empty if it has not.
    """

    plugin: str
    database: str
    confirmed: int | None
    lost: str
    active: bool = False


def beginning(
    slot: Slot | None, name: str, database: str, end: int, place: Place | None
) -> int | None:
    """Return the place in the log to begin at; None where a slot is to be made.

    Args:
        end: where the server's log ends.
        place: where the checkpoint is; None for a new one.

    Raises:
        GapError: the changes that are wanted are not to be had.
        PermanentError: nor will others be; says what to do.
        TransientError: somebody is about to make the slot.
    """
    if place is not None and place.log > end:
        raise PermanentError(
            f"the server's log ends at {written(end)}, before {written(place.log)}, where this "
            f"checkpoint is: it was set back to an older state; {START_OVER}"
        )
    if slot is None:
        if place is None:
            return None
        raise GapError(
            f"the slot {name} is gone, and with it the changes since {written(place.log)}"
        )
    if slot.plugin != "pgoutput" or slot.database != database:
        raise PermanentError(
            f"the slot {name} is of plugin {slot.plugin} and database {slot.database}: give another name"
        )
    if slot.confirmed is None and slot.active:
        raise TransientError(
            f"the slot {name} is still being made: a transaction is open since before"
        )
    if slot.lost or slot.confirmed is None:
        why = f"the server has let go of the slot {name} ({slot.lost or 'it is not whole'})"
        dropped = f"drop it (SELECT pg_drop_replication_slot({literal(name)}))"
        if place is not None:
            raise GapError(why, f"{dropped}, then ")
        raise PermanentError(f"{why}: {dropped}")
    if place is None:
        return slot.confirmed
    if slot.confirmed > place.log:
        raise GapError(
            f"the slot {name} was read up to {written(slot.confirmed)}, and this checkpoint is at "
            f"{written(place.log)}: somebody else reads it, or the checkpoint is an old copy. What is "
            f"between is lost here. Give each checkpoint a slot of its own"
        )
    return place.log


def prepare(
    connection: Connection,
    stream: Stream,
    options: PostgreSQLSourceOptions,
    tables: list[PostgreSQLTable],
    place: Place | None,
    *,
    again: bool = False,
) -> int:
    """See that all is as it must be, make what may be made, and return the place to begin at.

    Args:
        again: whether changes may be lost, as the tables are read again.

    Raises:
        GapError: what comes behind the place is not to be had.
        PermanentError: somebody has to mend something; says what.
    """
    version, level, database, standby, end = connection.query(
        "SELECT current_setting('server_version_num'), current_setting('wal_level'), current_database(), "
        "pg_is_in_recovery(), CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() END"
    )[0]
    if int(version or 0) < _OLDEST:
        raise PermanentError(f"{options.place} is older than PostgreSQL 14")
    if options.failover and int(version or 0) < _KEPT_BY_STANDBYS:
        raise PermanentError(
            f"{options.place} is older than PostgreSQL 17, whose slots are lost with the server: leave "
            "out `failover`"
        )
    if level != "logical":
        raise PermanentError(
            f"{options.place} has wal_level {level}: set it to logical (ALTER SYSTEM SET wal_level = "
            "logical) and restart the server"
        )
    if place is not None and place.system != stream.system:
        raise PermanentError(
            f"{options.place} is another server ({stream.system}) than the one this checkpoint is of "
            f"({place.system}); {START_OVER}"
        )
    if standby == "t":
        raise TransientError(f"{options.place} is a standby, until it is promoted")
    stream.identify()  # it may have been promoted since the connection was made
    for table in tables:
        table.find(connection)
        followed = table.oid if place is None else place.oids.get(table.name, table.oid)
        if followed != table.oid and not again:
            raise GapError(
                f"{table.sql} is another table than the one that this checkpoint has followed"
            )
    _publish(connection, options, tables)
    slot = _slot(connection, options.slot)
    try:
        if place is not None:
            _descended(stream, place)
        begin = beginning(slot, options.slot, str(database), lsn(str(end)), place)
    except GapError:
        if not again:
            raise
        if place is not None and place.log > lsn(str(end)):
            # Sequences would go back, and what is read again would be older than what was given.
            raise TransientError(
                f"the server's log ends at {written(lsn(str(end)))}: the tables are read again when it "
                f"is beyond {written(place.log)}, where this checkpoint is"
            ) from None
        if slot is not None and (slot.lost or slot.confirmed is None):
            drop(connection, options.slot)
            slot = None
        begin = None if slot is None else slot.confirmed
        if begin is not None and place is not None:  # sequences go on above those that were given
            begin = max(begin, place.log)
    if begin is not None:
        if options.failover:
            _keep_on_standbys(connection, stream, options.slot)
        return begin
    failpoint("postgresql.before-slot")
    kept = ", failover => true" if options.failover else ""
    ((made,),) = connection.query(
        f"SELECT lsn FROM pg_create_logical_replication_slot({literal(options.slot)}, 'pgoutput'{kept})",
        seconds=_MAKING,
    )
    failpoint("postgresql.after-slot")
    return lsn(str(made))


def _descended(stream: Stream, place: Place) -> None:
    """See that the server's history has what a checkpoint has.

    Raises:
        GapError: it was promoted at an earlier place, without the last changes of the server before.
    """
    if not place.timeline or (stream.timeline, stream.began) == (place.timeline, place.began):
        return
    if stream.timeline == place.timeline:  # of two standbys each was promoted
        parted: int | None = min(stream.began, place.began)
    else:
        parted = stream.parted(place.timeline)
    if parted is None or place.log > parted or (place.log == parted and place.within):
        where = "nowhere" if parted is None else f"up to {written(parted)} alone"
        raise GapError(
            f"the server has another history (timeline {stream.timeline}) than the one that this "
            f"checkpoint has followed to {written(place.log)} (timeline {place.timeline}), and shares it "
            f"{where}: it was promoted without the last changes. Changes of both are lost here"
        )


def _keep_on_standbys(connection: Connection, stream: Stream, name: str) -> None:
    """See that standbys keep a slot that is there."""
    found = connection.query(
        f"SELECT failover FROM pg_replication_slots WHERE slot_name = {literal(name)}"
    )
    if found and found[0][0] != "t":
        stream.query(f"ALTER_REPLICATION_SLOT {quoted(name)} (FAILOVER true)")


def drop(connection: Connection, name: str) -> None:
    """Let go of a slot that nobody reads any more, and of the log that is kept for it.

    Raises:
        TransientError: somebody reads it still.
    """
    where = f"FROM pg_replication_slots WHERE slot_name = {literal(name)}"
    until = time.monotonic() + _LETTING_GO
    while connection.query(f"SELECT 1 {where} AND active"):
        if time.monotonic() > until:
            raise TransientError(f"the slot {name} is still being read")
        time.sleep(0.05)
    connection.query(f"SELECT pg_drop_replication_slot(slot_name) {where}")


def _slot(connection: Connection, name: str) -> Slot | None:
    found = connection.query(
        "SELECT plugin, database, confirmed_flush_lsn, wal_status, active FROM pg_replication_slots "
        f"WHERE slot_name = {literal(name)}"
    )
    if not found:
        return None
    plugin, database, confirmed, status, active = found[0]
    lost = "its log is removed: max_slot_wal_keep_size" if status == "lost" else ""
    place = lsn(confirmed) if confirmed else None
    return Slot(str(plugin), str(database), place, lost, active == "t")


def _publish(
    connection: Connection, options: PostgreSQLSourceOptions, tables: list[PostgreSQLTable]
) -> None:
    """See that the publication has the tables, or make it."""
    name = options.published
    found = connection.query(
        "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot, "
        "current_setting('server_version_num')::int >= 150000 FROM pg_publication WHERE pubname = "
        f"{literal(name)}"
    )
    names = ", ".join(table.sql for table in tables)
    if not found:
        if options.patterns:
            raise PermanentError(
                f"there is no publication {name}: make one that has the tables of `all` too, such as "
                f"CREATE PUBLICATION {quoted(name)} FOR ALL TABLES WITH (publish_via_partition_root = "
                "true). Tables without a primary key can't be updated then"
            )
        if not options.create:
            raise PermanentError(
                f"there is no publication {name}: CREATE PUBLICATION {quoted(name)}"
                + (f" FOR TABLE {names}" if names else "")
            )
        what = f"FOR TABLE {names} " if names else ""
        connection.query(
            f"CREATE PUBLICATION {quoted(name)} {what}WITH (publish_via_partition_root = true)"
        )
        return
    whole, via_root, filters = found[0]
    if whole != "t":
        raise PermanentError(
            f"the publication {name} leaves out some kinds of changes: ALTER PUBLICATION {quoted(name)} "
            "SET (publish = 'insert, update, delete, truncate')"
        )
    limits = (
        "rowfilter IS NOT NULL, array_to_string(attnames, chr(1))"
        if filters == "t"
        else "false, NULL"
    )
    there = {
        (space, table): (limited == "t", None if columns is None else str(columns).split("\1"))
        for space, table, limited, columns in connection.query(
            f"SELECT schemaname, tablename, {limits} FROM pg_publication_tables WHERE pubname = "
            f"{literal(name)}"
        )
    }
    for table in tables:
        if (table.namespace, table.table) not in there:
            if table.parted and via_root != "t":
                raise PermanentError(
                    f"the publication {name} names the partitions of {table.sql} and not the table: "
                    f"ALTER PUBLICATION {quoted(name)} SET (publish_via_partition_root = true)"
                )
            raise PermanentError(
                f"{table.sql} is not in the publication {name}: ALTER PUBLICATION {quoted(name)} "
                f"ADD TABLE {table.sql}"
            )
        limited, columns = there[table.namespace, table.table]
        if missing := table.unpublished(columns):
            raise PermanentError(
                f"the publication {name} leaves out {', '.join(missing)} of {table.sql}, and changes "
                f"would come without, as those since have: BEGIN; ALTER PUBLICATION {quoted(name)} DROP "
                f"TABLE {table.sql}; ALTER PUBLICATION {quoted(name)} ADD TABLE {table.sql}; COMMIT. Or "
                "leave them out of `schema`"
            )
        if limited:
            raise PermanentError(
                f"the publication {name} leaves out rows of {table.sql}: rows that come and go with its "
                "condition are no changes of the table. Leave the condition to a step of the document"
            )
