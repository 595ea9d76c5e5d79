"""The receiver of the source `mysql`."""

from __future__ import annotations

from mainstem import TransientError
from mainstem_cdc.receiver import CaptureReceiver, Opened
from mainstem_cdc.requests import Cursor

from mainstem_cdc_mysql.connection import Connection, Stream
from mainstem_cdc_mysql.log import BinaryLog
from mainstem_cdc_mysql.options import MySQLSourceOptions
from mainstem_cdc_mysql.places import Place
from mainstem_cdc_mysql.server import identify, prepare
from mainstem_cdc_mysql.tables import MySQLTable


class MySQLReceiver(CaptureReceiver):
    """Takes rows of tables, and the changes in a binary log."""

    options: MySQLSourceOptions

    def open(self, cursor: Cursor | None, *, again: bool) -> Opened:
        options = self.options
        place = None if cursor is None else Place.decoded(cursor.place)
        tables = {name: MySQLTable(name, given, options) for name, given in options.tables.items()}
        connection = stream = None
        try:
            connection = Connection(options)
            beginning = prepare(connection, options, list(tables.values()), place, again=again)
            stream = Stream(options)
            if identify(stream, mariadb=beginning.mariadb) != beginning.server:
                raise TransientError(f"{options.place} is another server with each connection")
            stream.begin(beginning)
        except BaseException:
            for each in (stream, connection):
                if each is not None:
                    each.close()
            raise
        log = BinaryLog(connection, stream, options, tables, beginning)
        return Opened(log, tables, beginning.position)
