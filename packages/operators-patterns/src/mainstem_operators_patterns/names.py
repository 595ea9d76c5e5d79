"""The columns that come out of each match."""

from __future__ import annotations

from mainstem.columns import Column

ID = "match_id"
MATCH = [
    Column(ID, "string", nullable=False),
    Column("match_start", "timestamp", nullable=False),
    Column("match_end", "timestamp", nullable=False),
]
#: Of each row of a match.
ALL = [Column("match_row", "int", nullable=False), Column("classifier", "string", nullable=False)]
#: Of a partial match that took too long, beside `MATCH`: how many rows it had, the last one's variable.
LEFT = [Column("rows", "int", nullable=False), Column("reached", "string", nullable=False)]
