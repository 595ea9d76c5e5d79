"""What the document says of the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Literal
from urllib.parse import urlsplit

from mainstem import (
    COMMIT_VERSION,
    Changelog,
    Hidden,
    HostTLSOptions,
    OptionError,
    Options,
    PositiveDuration,
    Schema,
    Secret,
    check_database_url,
    option,
)
from mainstem.columns import find_column
from mainstem_ingress import IngressOptions
from pydantic import field_validator, model_validator

from mainstem_cdc_postgresql.values import has_reader

_HERE = ("localhost", "127.0.0.1", "::1")
_OUTPUT = re.compile(r"[a-z][a-z0-9_]*")
#: Outputs that every source on the ingress log has, or may get.
_TAKEN = ("rejected", "lost", "late", "early")


def _check(url: Secret) -> Secret:
    expected = "expected a URL: postgresql://USER:PASSWORD@HOST/DATABASE"
    return check_database_url(url, ("postgresql", "postgres"), expected)


class TableOptions(Options):
    """Options of one of `tables`."""

    table: str | None = option(
        None,
        min_length=1,
        description="Its name in the database, with the name of its schema where that is not `public`; "
        "as it is named here when left out.",
        example="sales.orders",
    )
    key: list[str] = option(
        min_length=1,
        description="The columns of its primary key, or of another unique index of columns that are "
        "never null.",
        example=["id"],
    )
    table_schema: Schema = option(
        alias="schema",
        description="The columns that are read, with the types that they get. Columns that are not "
        "named are left out. A value that its type does not hold exactly is refused.",
        example="id BIGINT, customer BIGINT, total DECIMAL(10, 2), placed TIMESTAMP",
    )
    preimages: bool = option(
        False,
        description="Give updates and deletes with the row as it was before. The table needs "
        "REPLICA IDENTITY FULL.",
    )

    @model_validator(mode="after")
    def _has_its_key(self) -> TableOptions:
        for name in self.key:
            find_column(self.table_schema, name, "key")
        return self

    def place(self, name: str) -> tuple[str, str]:
        """Return the table's schema and its name in the database, given its name in the document."""
        namespace, _, table = (self.table or name).rpartition(".")
        return namespace or "public", table


class PostgreSQLSourceOptions(IngressOptions):
    """Options of the source `postgresql`."""

    url: Annotated[Secret, Hidden(_check)] = option(
        description="The database: `postgresql://user:password@host:port/database`. The user needs "
        "REPLICATION and may read the tables.",
        example="${env:DATABASE_URL}",
    )
    slot: str = option(
        pattern=r"^[a-z0-9_]{1,63}$",
        description="The replication slot, one for each checkpoint: the server keeps its log as long as "
        "the slot has not got it. Made when it is not there.",
        example="mainstem_shop",
    )
    publication: str | None = option(
        None,
        min_length=1,
        max_length=63,
        description="The publication that the tables are in; named as the slot when left out.",
    )
    create: bool = option(
        True,
        description="Make the publication, of these tables, where there is none of its name. The user "
        "then owns the tables.",
    )
    tables: dict[str, TableOptions] = option(
        dict,
        description="The tables, each an output of its name: `from: shop.orders`. Messages of "
        "`pg_logical_emit_message` come out of the source itself.",
    )
    snapshot: Literal["initial", "never"] = option(
        "initial",
        description="`initial`: the rows that a table has come first, as inserts, while its changes are "
        "read; then every change. `never`: changes alone.",
    )
    chunk_rows: int = option(
        10_000,
        gt=0,
        le=1_000_000,
        advanced=True,
        description="How many rows of a table are read at once.",
    )
    unchanged: Literal["read", "refuse"] = option(
        "read",
        description="The log leaves out large values that an update did not change, unless the table has "
        "REPLICA IDENTITY FULL. `read`: they are read from the table, as they are by then; `refuse`: the "
        "change comes out of `rejected`.",
    )
    on_truncate: Literal["fail", "ignore"] = option(
        "fail",
        description="What a TRUNCATE does, which is no change of any row: it ends the run, or is counted "
        "and passed over.",
    )
    on_missing_column: Literal["fail", "null"] = option(
        "fail",
        description="What becomes of a column that the table has no longer, or not yet: it ends the run, "
        "or is null.",
    )
    heartbeat: PositiveDuration = option(
        timedelta(seconds=10),
        advanced=True,
        description="How often the slot moves while nothing is written to the tables, but elsewhere.",
    )
    tls: HostTLSOptions | None = option(
        None,
        description="Demand an encrypted connection to a server whose certificate is signed as this "
        "says.",
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10),
        advanced=True,
        description="How long connecting may take.",
    )
    answer_timeout: PositiveDuration = option(
        timedelta(seconds=30),
        advanced=True,
        description="How long the server may take to answer, other than with the rows of a chunk.",
    )

    @field_validator("tables")
    @classmethod
    def _are_outputs(cls, value: dict[str, TableOptions]) -> dict[str, TableOptions]:
        for name in value:
            if not _OUTPUT.fullmatch(name) or "__" in name or name in _TAKEN:
                raise ValueError(
                    f"{name!r} can't be an output: give the table a name of lower case letters, digits "
                    "and `_`, and its own in `table`"
                )
        places = [each.place(name) for name, each in value.items()]
        for place in places:
            if places.count(place) > 1:
                raise ValueError(f"{'.'.join(place)} is there twice")
        return value

    @model_validator(mode="after")
    def _one_receiver(self) -> PostgreSQLSourceOptions:
        if self.receivers != 1:
            raise ValueError("expected one of `receivers`: a slot has one reader")
        return self

    def cautions(self) -> Iterator[str]:
        host = urlsplit(self.url.get_secret_value()).hostname
        if self.tls is None and host not in _HERE:
            yield (
                f"the connection to {self.place} is not encrypted: whoever is between reads rows and "
                "password, and can change rows. Give `tls`."
            )

    @property
    def place(self) -> str:
        """The database, without user and password."""
        parts = urlsplit(self.url.get_secret_value())
        return f"{parts.hostname}:{parts.port or 5432}{parts.path}"

    @property
    def published(self) -> str:
        """The publication."""
        return self.publication or self.slot


def shapes(options: PostgreSQLSourceOptions) -> dict[str, Changelog]:
    """Return the shapes of the tables, by name.

    Raises:
        OptionError: a column has a type that no value is read as.
    """
    return {name: _shape(name, each) for name, each in options.tables.items()}


def _shape(name: str, options: TableOptions) -> Changelog:
    columns = []
    key = {each.lower() for each in options.key}
    for column in options.table_schema:
        if not has_reader(column.type or ""):
            raise OptionError(
                f"the table {name} has no values of type {column.type} for column {column.name}",
                option="tables",
                hint="Read it as STRING: that holds what PostgreSQL prints, of any type.",
            )
        # A delete has the key alone.
        columns.append(replace(column, nullable=column.name.lower() not in key))
    return Changelog(
        columns,
        key=options.key,
        sequence=COMMIT_VERSION,
        preimages=options.preimages,
        identity=(*options.key, COMMIT_VERSION, "_change_type"),
        sequence_type="string",
    )
