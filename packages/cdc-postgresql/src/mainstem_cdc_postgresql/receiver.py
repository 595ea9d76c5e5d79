"""The receiver of the source `postgresql`."""

from __future__ import annotations

from mainstem_cdc.receiver import CaptureReceiver, Opened
from mainstem_cdc.requests import Cursor

from mainstem_cdc_postgresql.connection import Connection, Stream
from mainstem_cdc_postgresql.log import Position, WriteAheadLog
from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions
from mainstem_cdc_postgresql.slot import Place, prepare
from mainstem_cdc_postgresql.tables import PostgreSQLTable


class PostgreSQLReceiver(CaptureReceiver):
    """Takes rows of tables, and the changes of a slot."""

    options: PostgreSQLSourceOptions

    def open(self, cursor: Cursor | None, *, again: bool) -> Opened:
        options = self.options
        place = None if cursor is None else Place(**cursor.place, tables=cursor.tables)
        tables = {name: PostgreSQLTable(name, t, options) for name, t in options.tables.items()}
        connection = stream = None
        try:
            connection, stream = Connection(options), Stream(options)
            begin = prepare(connection, stream, options, list(tables.values()), place, again=again)
            stream.begin(options.slot, options.published, begin)
        except BaseException:
            for each in (stream, connection):
                if each is not None:
                    each.close()
            raise
        at: Position = [begin, 0] if cursor is None or again else cursor.position
        log = WriteAheadLog(connection, stream, options, tables, at)
        return Opened(log, tables, at)
