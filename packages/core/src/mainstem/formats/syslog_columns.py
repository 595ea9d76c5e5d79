"""What a line of syslog has, without Arrow: for plans."""

from __future__ import annotations

from mainstem.contracts.ddl import Column

#: The columns of every line.
SYSLOG = (
    Column("facility", "int", nullable=False),
    Column("severity", "int", nullable=False),
    Column("at", "timestamp"),
    Column("host", "string"),
    Column("app", "string"),
    Column("process", "string"),
    Column("message_id", "string"),
    Column("data", "map<string,map<string,string>>"),
    Column("message", "string"),
)
