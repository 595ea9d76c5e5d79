"""What the server must be, for a checkpoint to begin or to go on."""

from __future__ import annotations

import time
from contextlib import suppress

from mainstem import PermanentError

from mainstem_cdc_mysql.connection import Connection
from mainstem_cdc_mysql.options import MySQLSourceOptions
from mainstem_cdc_mysql.places import (
    Beginning,
    Place,
    Server,
    beginning,
    file_number,
    gtids_of,
)
from mainstem_cdc_mysql.tables import MySQLTable

#: The oldest versions that write the names of columns into their log.
_OLDEST = {"mysql": (8, 0, 1), "mariadb": (10, 5, 0)}


def prepare(
    connection: Connection,
    options: MySQLSourceOptions,
    tables: list[MySQLTable],
    place: Place | None,
    *,
    again: bool = False,
) -> Beginning:
    """See that all is as it must be, and return where to begin.

    Args:
        again: whether changes may be lost, as the tables are read again.

    Raises:
        GapError: what comes behind the place is not to be had.
        PermanentError: somebody has to mend something; says what.
    """
    server = _server(connection, options, tables)
    for table in tables:
        table.find(connection)
    until = time.monotonic() + options.answer_timeout.total_seconds()
    while place is not None and _not_seen_yet(server, place) and time.monotonic() < until:
        time.sleep(0.1)
        server = _server(connection, options, tables)
    return beginning(server, place, again=again)


def _not_seen_yet(server: Server, place: Place) -> bool:
    """Whether the server lacks transactions that were taken, though its log has the place.

    One may be in the log before it counts as done.
    """
    if server.gtids is None or place.gtids is None or server.id != place.server:
        return False
    there = [file_number(server.file), server.end] >= [file_number(place.file), place.start]
    ours = gtids_of(place.gtids, mariadb=server.product == "mariadb")
    return there and not ours.within(server.gtids)


def _server(
    connection: Connection, options: MySQLSourceOptions, tables: list[MySQLTable]
) -> Server:
    ((text, logs, form),) = connection.texts("SELECT VERSION(), @@log_bin, @@global.binlog_format")
    mariadb = "mariadb" in text.lower()
    product = "mariadb" if mariadb else "mysql"
    version = tuple(int(part) for part in text.partition("-")[0].split(".")[:3] if part.isdigit())
    if version < _OLDEST[product]:
        oldest = ".".join(map(str, _OLDEST[product]))
        raise PermanentError(f"{options.place} is older than {product} {oldest}")
    if logs != "1":
        raise PermanentError(f"{options.place} writes no binary log: set log_bin and restart it")
    if form != "ROW":
        raise PermanentError(
            f"{options.place} has binlog_format {form}: SET GLOBAL binlog_format = 'ROW', in its "
            "configuration too"
        )
    ((metadata,),) = connection.texts("SELECT @@global.binlog_row_metadata")
    if metadata != "FULL":
        raise PermanentError(
            f"{options.place} does not write the names of columns into its log: SET GLOBAL "
            "binlog_row_metadata = 'FULL', in its configuration too"
        )
    whole = any(each.preimages for each in options.tables.values()) or options.unchanged == "refuse"
    ((image,),) = connection.texts("SELECT @@global.binlog_row_image")
    if image != "FULL" and whole:
        raise PermanentError(
            f"{options.place} does not write whole rows into its log: SET GLOBAL binlog_row_image = "
            "'FULL', in its configuration too, or leave out `preimages` and `unchanged: refuse`"
        )
    status = "SHOW MASTER STATUS"
    if not mariadb and version >= (8, 2):
        status = "SHOW BINARY LOG STATUS"
    if _relays_without_log(connection, version, mariadb=mariadb):
        raise PermanentError(
            f"{options.place} is a replica that does not write what it is sent into its log "
            "(log_slave_updates): read its source, or set that"
        )
    at = connection.status(status)
    if not at:
        raise PermanentError(f"{options.place} writes no binary log")
    only, never = (
        set(filter(None, at.get(f"binlog_{how}_db", "").split(","))) for how in ("do", "ignore")
    )
    for table in tables:
        if table.namespace in never or (only and table.namespace not in only):
            raise PermanentError(
                f"{options.place} leaves changes of {table.namespace} out of its log (binlog_do_db, "
                "binlog_ignore_db)"
            )
    files = {name: int(size) for name, size, *_ in connection.texts("SHOW BINARY LOGS")}
    purged = ""
    gtids: str | None
    if mariadb:
        ((gtids,),) = connection.texts(
            f"SELECT COALESCE(BINLOG_GTID_POS({connection.literal(at['file'].encode())}, "
            f"{at['position']}), '')"
        )
    else:
        ((mode, executed, purged),) = connection.texts(
            "SELECT @@global.gtid_mode, @@global.gtid_executed, @@global.gtid_purged"
        )
        gtids = str(gtids_of(executed, mariadb=False)) if mode == "ON" else None
    end = int(at["position"])
    number = identify(connection, mariadb=mariadb)
    return Server(product, number, at["file"], end, files, gtids, purged, status)


def _relays_without_log(connection: Connection, version: tuple[int, ...], *, mariadb: bool) -> bool:
    """Whether the server is a replica without a log of what it is sent, as far as this user may know."""
    found = connection.texts(
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_slave_updates', 'log_replica_updates')"
    )
    if not found or found[0][1] == "ON":
        return False
    word = "REPLICA" if not mariadb and version >= (8, 0, 22) else "SLAVE"
    with suppress(PermanentError):
        return bool(connection.status(f"SHOW {word} STATUS"))
    return False


def identify(connection: Connection, *, mariadb: bool) -> str:
    """Return what tells the server from others."""
    if not mariadb:
        return connection.texts("SELECT @@server_uuid")[0][0]
    # Older ones have no number of their own.
    found = connection.texts("SHOW GLOBAL VARIABLES LIKE 'server_uid'")
    if found:
        return found[0][1]
    ((name,),) = connection.texts("SELECT CONCAT(@@hostname, ':', @@port, '/', @@server_id)")
    return name
