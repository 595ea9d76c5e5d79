"""Source `mysql`: tables of MySQL or MariaDB and their changes, through the ingress log."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Level, Shown, SourceCapabilities
from mainstem_cdc import CaptureSource, FoundTable
from mainstem_ingress import Receiver

from mainstem_cdc_mysql.options import MySQLSourceOptions


class MySQLSource(CaptureSource):
    """Gives the rows of tables and then every change, in the order of the binary log.

    A change's sequence is its place there: how often the server was another one, the file, the beginning
    of its transaction, and its number among the changes of its table in that. It is text of a fixed
    width, so that bytes compare as places do.
    """

    options: MySQLSourceOptions

    capabilities = SourceCapabilities(
        ordered=True,
        assumptions=(
            "the server keeps its binary log until it was read, and writes all changes into it",
            "the disk keeps what it says it has written",
        ),
        shown=Shown(Level.EXACTLY_ONCE, "packages/cdc-mysql/tests/test_mysql_conformance.py"),
    )

    def receiver(self) -> type[Receiver]:
        from mainstem_cdc_mysql.receiver import MySQLReceiver

        return MySQLReceiver

    def found(self) -> Sequence[FoundTable]:
        from mainstem_cdc_mysql.tables import found_tables

        return found_tables(self.options)
