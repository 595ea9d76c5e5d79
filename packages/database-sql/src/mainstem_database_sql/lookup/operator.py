"""Operator `sql_lookup`: a row asks a table of a database."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem_lookup import Lookup, LookupOperator

from mainstem_database_sql.lookup.options import SQLLookupOptions


class SQLLookupOperator(LookupOperator):
    """Adds to each row what a table has for its key: many keys by one statement.

    The table's values are read as the source `sql` reads them, exactly or not at all. For a table that
    changes with the stream, and answers as of a row's time, keep it as one: `stream_table_join`.
    """

    options: SQLLookupOptions

    def lookup(self) -> type[Lookup]:
        from mainstem_database_sql.lookup.table import TableLookup

        return TableLookup

    def key(self) -> Sequence[tuple[str, str]]:
        return [("key", name) for name in self.options.key.values()]
