"""Source `delta`: the rows of a Delta table, and then each change of them."""

from __future__ import annotations

from mainstem import Level, OptionError, Shown, SourceCapabilities
from mainstem.columns import has_arrow_type
from mainstem_ingress import IngressSource, Receiver

from mainstem_lake_delta.options import DeltaSourceOptions

_SHOWN = "packages/lake-delta/tests/test_delta_source_conformance.py"
#: The output with the changelog.
ROWS = "rows"


class DeltaSource(IngressSource):
    """Reads a table as it is, and its change data feed from there, into the output `rows`."""

    options: DeltaSourceOptions

    def __init__(self, options: DeltaSourceOptions) -> None:
        super().__init__(options)
        if options.receivers > 1:
            raise OptionError("a table has one receiver", option="receivers")
        for column in options.table_schema:
            if not has_arrow_type(column.type or ""):
                raise OptionError(f"no value is read as {column.ddl}", option="schema")
        self.tables = {ROWS: options.shape()}

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]
        """Nothing is lost or doubled that the table's log still has."""
        kept = "versions and their files stay until they were read (`delta.logRetentionDuration`, vacuum)"
        return SourceCapabilities(
            ordered=True,
            assumptions=("the disk keeps what it says it has written", kept),
            shown=Shown(Level.EXACTLY_ONCE, _SHOWN),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_lake_delta.receiver import DeltaReceiver

        return DeltaReceiver
