"""Operator `sql_lookup`: a row asks a table of a database."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Inputs, OptionError, Shape
from mainstem.columns import find_column
from mainstem_lookup import Lookup, LookupOperator

from mainstem_database_sql.lookup.options import SQLLookupOptions
from mainstem_database_sql.type_support import DECIMAL, check_readable


class SQLLookupOperator(LookupOperator):
    """Adds to each row what a table has for its key: many keys by one statement.

    The table's values are read as the source `sql` reads them, exactly or not at all. For a table that
    changes with the stream, and answers as of a row's time, keep it as one: `stream_table_join`.
    """

    options: SQLLookupOptions

    def __init__(self, options: SQLLookupOptions) -> None:
        super().__init__(options)
        check_readable(options.table_schema)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        for name in self.options.key.values() if self.options.product == "sqlite" else ():
            column = find_column(inputs.only.columns, name, "key")
            if DECIMAL.fullmatch(column.type or ""):
                # It keeps one as it likes: as a text, or a number of another kind.
                raise OptionError(f"{column.ddl} can't be a key in SQLite", option="key")
        return super().shape(inputs)

    def lookup(self) -> type[Lookup]:
        from mainstem_database_sql.lookup.table import TableLookup

        return TableLookup

    def key(self) -> Sequence[tuple[str, str]]:
        return [("key", name) for name in self.options.key.values()]
