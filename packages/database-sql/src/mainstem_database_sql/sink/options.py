"""The options of the sink `sql`."""

from __future__ import annotations

from datetime import timedelta

from mainstem import PositiveDuration, option
from mainstem_database.options import DatabaseOptions


class SQLSinkOptions(DatabaseOptions):
    """Options of the sink `sql`."""

    create: bool = option(
        True, description="Whether a table that is not there is made, from the stream's columns."
    )
    add_columns: bool = option(
        False, description="Whether columns that the table lacks are added to it."
    )
    deletes_within: PositiveDuration = option(
        timedelta(days=7),
        description="For how long a deleted key is remembered, so that an older change that comes late "
        "does not bring it back.",
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long to retry after a lost connection, a deadlock, a failed serialization or a "
        "lock before the batch fails.",
    )
    ledger: str = option(
        "mainstem_ledger",
        min_length=1,
        advanced=True,
        description="The table, beside the sink's, that says which batches are in.",
    )
