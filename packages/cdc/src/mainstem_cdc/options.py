"""Options that every source of change data capture has."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar, Literal
from urllib.parse import unquote, urlsplit

from mainstem import (
    COMMIT_VERSION,
    Changelog,
    Dataset,
    Events,
    HostTLSOptions,
    OptionError,
    Options,
    PositiveDuration,
    Schema,
    Secret,
    Shape,
    option,
)
from mainstem.columns import Column, find_column, read_columns
from mainstem_ingress import IngressOptions
from pydantic import field_validator, model_validator

_HERE = ("localhost", "127.0.0.1", "::1")
_OUTPUT = re.compile(r"[a-z][a-z0-9_]*")
#: The output of every change as it is in the log, and its columns.
ALL = "all"
_ALL = (
    "table STRING, change STRING, key STRING, row STRING, transaction STRING, committed_at TIMESTAMP, "
    "sequence STRING"
)
#: Outputs that every source on the ingress log has, or may get.
TAKEN = ("rejected", "lost", "late", "early", ALL)


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
    transaction: str | None = option(
        None,
        min_length=1,
        description="A column to add: which transaction of the database the change was in, as text; null "
        "for rows that the table had.",
        example="transaction",
    )

    @model_validator(mode="after")
    def _has_its_key(self) -> TableOptions:
        for name in self.key:
            find_column(self.table_schema, name, "key")
        return self

    @model_validator(mode="after")
    def _column_is_free(self) -> TableOptions:
        if self.transaction is None:
            return self
        if self.transaction.lower() in {column.name.lower() for column in self.table_schema}:
            raise ValueError(f"transaction: there is a column {self.transaction} in `schema`")
        if self.preimages:
            raise ValueError(
                "transaction: a row as it was before has the transaction that has written it, which "
                "nobody knows: leave out one of `transaction` and `preimages`"
            )
        return self


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
        50_000,
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
    raw: bool | list[str] = option(
        False,
        alias="all",
        description="Have an output `all`, with every change in the order of commits: rows and keys as "
        "JSON, each value as the database prints it. A list names tables that it has beside those of the "
        "document, by patterns of `SCHEMA.TABLE`: so it gets new tables as they appear.",
        example=["shop.*"],
    )
    on_gap: Literal["fail", "snapshot"] = option(
        "fail",
        description="What becomes of changes that the server has let go of before they were taken. "
        "`fail`: they end the run; `snapshot`: the tables are read again, and the gap comes out of "
        "`lost`. What was deleted meanwhile is not told then.",
    )
    together: Literal["transaction"] | None = option(
        None,
        description="`transaction`: the changes of one transaction are in one batch, so that a sink that "
        "writes batches whole never shows half of one. It must fit below `high_water`.",
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
            if not _OUTPUT.fullmatch(name) or "__" in name or name in TAKEN:
                raise ValueError(
                    f"{name!r} can't be an output: give the table a name of lower case letters, digits "
                    "and `_`, and its own in `table`"
                )
        return value

    @model_validator(mode="after")
    def _each_once(self) -> CaptureOptions:
        places = [self.placed(name, each) for name, each in self.tables.items()]
        for place in places:
            if places.count(place) > 1:
                raise ValueError(f"tables: {'.'.join(place)} is there twice")
        return self

    @model_validator(mode="after")
    def _can_be_read_again(self) -> CaptureOptions:
        if self.on_gap == "snapshot":
            if self.snapshot == "never":
                raise ValueError("on_gap: `snapshot` reads tables, and `snapshot: never` does not")
            for name, each in self.tables.items():
                if each.preimages:
                    raise ValueError(
                        f"on_gap: {name} has preimages, and nobody knows what was before after a gap"
                    )
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

    def placed(self, name: str, table: TableOptions) -> tuple[str, str]:
        """Return a table's schema and its name in the database.

        Args:
            name: that in the document.
        """
        given, _, found = (table.table or name).rpartition(".")
        return given or self.namespace, found

    def dataset(self, name: str, table: TableOptions) -> Dataset:
        """Return a table as catalogues know it; arguments as of `placed`."""
        url = self.url.get_secret_value()
        namespace, found = self.placed(name, table)
        path = [self.database] if self.has_schemas else []
        return Dataset.at_server(
            self.catalogued, url, self.port, ".".join([*path, namespace, found])
        )

    @property
    def passes_truncate(self) -> bool:
        """Whether tables may be emptied at once."""
        return False

    @property
    def fills_missing(self) -> bool:
        """Whether columns that a table does not have are null."""
        return True

    @property
    def patterns(self) -> list[str]:
        """The tables that `all` has beside those of the document."""
        return self.raw if isinstance(self.raw, list) else []

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

    # -- shapes -----------------------------------------------------------------------------------

    #: The database's name in texts, and in catalogues of data.
    product: ClassVar[str]
    catalogued: ClassVar[str]
    #: Whether a database has schemas, which tables are in; else tables are in the database.
    has_schemas: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def has_reader(cls, kind: str) -> bool:
        """Whether values can have a type, in Spark's short form."""

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes of the outputs, by name.

        Raises:
            OptionError: a column has a type that no value is read as.
        """
        found: dict[str, Shape] = {
            name: self._shape(name, each) for name, each in self.tables.items()
        }
        if self.raw is not False:
            identity = ("table", "sequence", "key", "change")
            found[ALL] = Events(read_columns(_ALL), identity=identity)
        return found

    def _shape(self, name: str, table: TableOptions) -> Changelog:
        columns = []
        key = {each.lower() for each in table.key}
        for column in table.table_schema:
            if not self.has_reader(column.type or ""):
                raise OptionError(
                    f"the table {name} has no values of type {column.type} for column {column.name}",
                    option="tables",
                    hint=f"Read it as STRING: that holds what {self.product} prints, of any type.",
                )
            # A delete has the key alone.
            columns.append(replace(column, nullable=column.name.lower() not in key))
        if table.transaction is not None:
            columns.append(Column(table.transaction, "string"))
        return Changelog(
            columns,
            key=table.key,
            sequence=COMMIT_VERSION,
            preimages=table.preimages,
            identity=(*table.key, COMMIT_VERSION, "_change_type"),
            sequence_type="string",
        )


class RelationalOptions(CaptureOptions):
    """Options of sources whose tables have columns of their own."""

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

    @property
    def passes_truncate(self) -> bool:
        return self.on_truncate == "ignore"

    @property
    def fills_missing(self) -> bool:
        return self.on_missing_column == "null"
