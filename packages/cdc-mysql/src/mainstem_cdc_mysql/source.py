"""Source `mysql`: tables of MySQL or MariaDB and their changes, through the ingress log."""

from __future__ import annotations

from mainstem import Level, Shown, SourceCapabilities
from mainstem_ingress import IngressSource, Receiver

from mainstem_cdc_mysql.options import MySQLSourceOptions, shapes_of


class MySQLSource(IngressSource):
    """Gives the rows of tables and then every change, in the order of the binary log.

    A change's sequence is its place there: how often the server was another one, the file, the beginning
    of its transaction, and its number among the changes of its table in that. It is text of a fixed
    width, so that bytes compare as places do.
    """

    options: MySQLSourceOptions

    def __init__(self, options: MySQLSourceOptions) -> None:
        super().__init__(options)
        self.tables = shapes_of(options)
        self.together = options.together == "transaction"

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
