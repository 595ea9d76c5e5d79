"""The options of the operator `sql_lookup`."""

from __future__ import annotations

from mainstem import option
from mainstem_database.options import DatabaseOptions
from mainstem_lookup import LookupOptions


class SQLLookupOptions(LookupOptions, DatabaseOptions):
    """Options of the operator `sql_lookup`."""

    key: dict[str, str] = option(
        min_length=1,
        description="The table's key: for each of its columns the row's column with the same value. A "
        "row whose key has several rows in the table is refused.",
        example={"id": "customer_id"},
    )
    keys_per_request: int = option(
        500,
        gt=0,
        le=1000,
        advanced=True,
        description="How many keys one statement asks for at most.",
    )
