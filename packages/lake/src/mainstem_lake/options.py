"""What documents say of tables of any format. Nothing here imports Arrow or a format's library."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Literal, Self

from mainstem import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    Changelog,
    Options,
    PositiveDuration,
    Schema,
    option,
)
from mainstem.columns import find_column
from mainstem_ingress import IngressOptions
from pydantic import model_validator

#: The column of a table kept in step that orders the changes of a row.
SEQUENCE = "_sequence"


class LakeOptions(Options):
    """Options of a sink."""

    partition_by: list[str] = option(
        list,
        description="Columns whose values become folders: text, whole numbers, dates or BOOLEAN. Of a "
        "table that is made here.",
    )
    on_new_column: Literal["add", "fail"] = option(
        "add",
        description="What happens where a table that is there lacks a column: `add`, it gets it, with "
        "nulls in the rows of before; `fail`, the run does not start.",
    )
    compact_every: int | None = option(
        None,
        gt=0,
        description="After so many batches small files become larger ones; never when left out (there "
        "is a command for it too).",
    )
    file_rows: int = option(
        5_000_000, gt=0, description="How many rows a file has at most.", advanced=True
    )
    compression: Literal["snappy", "zstd", "gzip", "lz4", "none"] = option(
        "snappy", description="How files are compressed.", advanced=True
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long a commit is retried that others come before.",
    )


class LakeSourceOptions(IngressOptions):
    """Options of a source."""

    key: list[str] = option(
        min_length=1, description="The columns that tell the rows apart.", example=["id"]
    )
    table_schema: Schema = option(
        alias="schema",
        description="The columns to read, with the types that they are to have.",
        example="id BIGINT, name STRING",
    )
    preimages: bool = option(
        False, description="Whether an update also tells the row as it was before."
    )
    snapshot: Literal["initial", "never"] = option(
        "initial",
        description="Where a new log begins: `initial`, with the rows of the table as it is then, as "
        "inserts; `never`, with the changes from then on.",
    )
    poll: PositiveDuration = option(
        timedelta(seconds=1), description="How often it is looked for new versions of the table."
    )

    @model_validator(mode="after")
    def _keyed(self) -> Self:
        for name in self.key:
            find_column(self.table_schema, name, "key")
        return self

    def shape(self) -> Changelog:
        """Return the shape of the rows."""
        key = {name.lower() for name in self.key}
        return Changelog(
            [replace(c, nullable=c.name.lower() not in key) for c in self.table_schema],
            key=self.key,
            sequence=COMMIT_VERSION,
            preimages=self.preimages,
            identity=(*self.key, COMMIT_VERSION, CHANGE_TYPE),
            sequence_type="string",
        )
