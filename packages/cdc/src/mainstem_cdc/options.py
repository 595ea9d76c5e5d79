"""Options that every source of change data capture has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar, Literal
from urllib.parse import unquote, urlsplit

from mainstem import (
    COMMIT_VERSION,
    Changelog,
    HostTLSOptions,
    OptionError,
    Options,
    PositiveDuration,
    Schema,
    Secret,
    option,
)
from mainstem.columns import find_column
from mainstem_ingress import IngressOptions
from pydantic import field_validator, model_validator

_HERE = ("localhost", "127.0.0.1", "::1")
_OUTPUT = re.compile(r"[a-z][a-z0-9_]*")
#: Outputs that every source on the ingress log has, or may get.
_TAKEN = ("rejected", "lost", "late", "early")


class TableOptions(Options):
    """Options of one of `tables`."""

    table: str | None = option(
        None,
        min_length=1,
        description="Its name in the database, with the name of its schema before it where that is "
        "another than the usual one; as it is named here when left out.",
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
        description="Give updates and deletes with the row as it was before. The database must write "
        "whole rows into its log.",
    )

    @model_validator(mode="after")
    def _has_its_key(self) -> TableOptions:
        for name in self.key:
            find_column(self.table_schema, name, "key")
        return self

    def place(self, name: str, namespace: str) -> tuple[str, str]:
        """Return the table's schema and its name in the database.

        Args:
            name: that in the document.
            namespace: the schema that is meant where none is given.
        """
        given, _, table = (self.table or name).rpartition(".")
        return given or namespace, table


class CaptureOptions(IngressOptions):
    """Options of sources of change data capture. A source adds `url`, and what says where its log is."""

    #: The port where a URL has none.
    port: ClassVar[int]
    url: Secret = option(description="The database, with user and password.")
    tables: dict[str, TableOptions] = option(
        dict,
        description="The tables, each an output of its name: `from: shop.orders`.",
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
        description="What becomes of values that an update did not change and that the database has not "
        "written into its log. `read`: they are read from the table, as they are by then; `refuse`: the "
        "change comes out of `rejected`.",
    )
    together: Literal["transaction"] | None = option(
        None,
        description="`transaction`: the changes of one transaction are in one batch, so that a sink that "
        "writes batches whole never shows half of one. It must fit below `high_water`.",
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
        description="How often the place in the log moves while nothing is written to the tables, but "
        "elsewhere.",
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
        return value

    @model_validator(mode="after")
    def _each_once(self) -> CaptureOptions:
        places = [each.place(name, self.namespace) for name, each in self.tables.items()]
        for place in places:
            if places.count(place) > 1:
                raise ValueError(f"tables: {'.'.join(place)} is there twice")
        return self

    @model_validator(mode="after")
    def _one_receiver(self) -> CaptureOptions:
        if self.receivers != 1:
            raise ValueError("expected one of `receivers`: a log has one reader")
        return self

    def cautions(self) -> Iterator[str]:
        host = urlsplit(self.url.get_secret_value()).hostname
        if self.tls is None and host not in _HERE:
            yield (
                f"the connection to {self.place} is not encrypted: whoever is between reads rows and "
                "password, and can change rows. Give `tls`."
            )

    @property
    def database(self) -> str:
        """The database that the URL names."""
        return unquote(urlsplit(self.url.get_secret_value()).path.removeprefix("/"))

    @property
    def namespace(self) -> str:
        """The schema of tables that are named without one."""
        return self.database

    @property
    def place(self) -> str:
        """The database, without user and password."""
        parts = urlsplit(self.url.get_secret_value())
        return f"{parts.hostname}:{parts.port or self.port}{parts.path}"


def shapes(
    options: CaptureOptions, has_reader: Callable[[str], bool], hint: str
) -> dict[str, Changelog]:
    """Return the shapes of the tables, by name.

    Args:
        has_reader: whether values can have a type, in Spark's short form.
        hint: what to do about a column of another type.

    Raises:
        OptionError: a column has a type that no value is read as.
    """
    return {name: _shape(name, each, has_reader, hint) for name, each in options.tables.items()}


def _shape(
    name: str, options: TableOptions, has_reader: Callable[[str], bool], hint: str
) -> Changelog:
    columns = []
    key = {each.lower() for each in options.key}
    for column in options.table_schema:
        if not has_reader(column.type or ""):
            raise OptionError(
                f"the table {name} has no values of type {column.type} for column {column.name}",
                option="tables",
                hint=hint,
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
