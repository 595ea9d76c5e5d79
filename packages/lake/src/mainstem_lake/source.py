"""A source of a table of any format: its rows, and then each change of them."""

from __future__ import annotations

from mainstem import OptionError
from mainstem.columns import has_arrow_type
from mainstem_ingress import IngressSource

from mainstem_lake.options import LakeSourceOptions

#: The output with the changelog.
ROWS = "rows"


class LakeSource(IngressSource):
    """Reads a table as it is, and its changes from there, into the output `rows`."""

    options: LakeSourceOptions

    def __init__(self, options: LakeSourceOptions) -> None:
        super().__init__(options)
        if options.receivers > 1:
            raise OptionError("a table has one receiver", option="receivers")
        for column in options.table_schema:
            if not has_arrow_type(column.type or ""):
                raise OptionError(f"no value is read as {column.ddl}", option="schema")
        self.tables = {ROWS: options.shape()}
