"""Wires the operators to their words."""

from __future__ import annotations

from mainstem import Operator, hookimpl

from mainstem_operators_joins.stream_stream import StreamStreamJoin
from mainstem_operators_joins.stream_table import StreamTableJoin
from mainstem_operators_joins.table import ToTable
from mainstem_operators_joins.table_table import TableTableJoin


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    return {
        "stream_stream_join": StreamStreamJoin,
        "stream_table_join": StreamTableJoin,
        "table": ToTable,
        "table_table_join": TableTableJoin,
    }
