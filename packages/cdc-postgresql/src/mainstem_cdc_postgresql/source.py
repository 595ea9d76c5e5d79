"""Source `postgresql`: tables of a database and their changes, through the ingress log."""

from __future__ import annotations

from dataclasses import replace

from mainstem import COMMIT_VERSION, Changelog, Level, OptionError, Shown, SourceCapabilities
from mainstem_ingress import IngressSource, Receiver

from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions, TableOptions
from mainstem_cdc_postgresql.values import has_reader


class PostgreSQLSource(IngressSource):
    """Gives the rows of tables and then every change, in the order of commits, by logical replication.

    A change's sequence is its place in the log: its commit's, and its number in the transaction. It is
    text of a fixed width, so that bytes compare as places do.
    """

    options: PostgreSQLSourceOptions
    #: What libpq reads, beside the options.
    inherits = ("PGPASSFILE", "PGSSL", "PGSERVICE")

    def __init__(self, options: PostgreSQLSourceOptions) -> None:
        super().__init__(options)
        self.tables = {name: _shape(name, each) for name, each in options.tables.items()}

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


def _shape(name: str, options: TableOptions) -> Changelog:
    columns = []
    key = {each.lower() for each in options.key}
    for column in options.table_schema:
        if not has_reader(column.type or ""):
            raise OptionError(
                f"the table {name} has no values of type {column.type} for column {column.name}",
                option="tables",
                hint="Read it as STRING: that holds what PostgreSQL prints, of any type.",
            )
        # A delete has the key alone.
        columns.append(replace(column, nullable=column.name.lower() not in key))
    return Changelog(
        columns,
        key=options.key,
        sequence=COMMIT_VERSION,
        preimages=options.preimages,
        identity=(*options.key, COMMIT_VERSION, "_change_type"),
        sequence_type="string",
    )
