"""Wires the operators to their words."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_operators() -> dict[str, str]:
    return {
        "stream_stream_join": "mainstem_operators_joins.stream_stream:StreamStreamJoin",
        "stream_table_join": "mainstem_operators_joins.stream_table:StreamTableJoin",
        "table": "mainstem_operators_joins.table:ToTable",
        "table_table_join": "mainstem_operators_joins.table_table:TableTableJoin",
    }
