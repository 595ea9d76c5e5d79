"""Source `postgresql`: tables of a database and their changes, through the ingress log."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Level, Shown, SourceCapabilities
from mainstem_cdc import CaptureSource, FoundTable
from mainstem_ingress import Receiver

from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions


class PostgreSQLSource(CaptureSource):
    """Gives the rows of tables and then every change, in the order of commits, by logical replication.

    A change's sequence is its place in the log: its commit's, and its number in the transaction. It is
    text of a fixed width, so that bytes compare as places do.
    """

    options: PostgreSQLSourceOptions
    #: What libpq reads, beside the options.
    inherits = ("PGPASSFILE", "PGSSL", "PGSERVICE")

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """Nothing is lost or doubled as long as the server keeps the slot."""
        return SourceCapabilities(
            ordered=True,
            assumptions=(
                f"the server keeps the slot {self.options.slot}, and nobody else reads it",
                "the disk keeps what it says it has written",
            ),
            shown=Shown(
                Level.EXACTLY_ONCE, "packages/cdc-postgresql/tests/test_postgresql_conformance.py"
            ),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_cdc_postgresql.receiver import PostgreSQLReceiver

        return PostgreSQLReceiver

    def found(self) -> Sequence[FoundTable]:
        from mainstem_cdc_postgresql.tables import found_tables

        return found_tables(self.options)
