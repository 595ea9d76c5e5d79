"""Source `redrive`: payloads of refused rows that somebody has sent through the document again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mainstem import (
    Level,
    OptionError,
    Options,
    Rewindable,
    Shape,
    Shown,
    Source,
    SourceCapabilities,
    SourceContext,
)
from mainstem.contracts.shapes import MESSAGE_COLUMNS, messages
from mainstem.durable import made_folder
from mainstem.paths import for_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem.contracts.abilities import Reached


class RedriveOptions(Options):
    """Options of `redrive`: none."""


class Redrive(Source, Rewindable):
    """Gives what `mainstem deadletters redrive` has put there: each payload as a message's value, once.

    A step reads it beside the source whose messages it refused. It lies in the checkpoint, and has
    nothing until then.
    """

    options: RedriveOptions
    capabilities = SourceCapabilities(
        ordered=True,
        shown=Shown(Level.EXACTLY_ONCE, "packages/core/tests/spark/test_dead_letters.py"),
    )

    def shape(self) -> Shape:
        return messages()

    def load(self, ctx: SourceContext) -> DataFrame:
        from mainstem.dead_letters import MESSAGES

        folder = made_folder(ctx.folder() / MESSAGES)
        schema = ", ".join(column.ddl for column in MESSAGE_COLUMNS)
        return ctx.reader().schema(schema).parquet(for_spark(folder))

    def starting_at(self, point: datetime | str | Mapping[str, Any]) -> Source:
        """Return the same: it is read from its beginning."""
        if point != "earliest":
            raise OptionError("is read from its beginning alone")
        return self

    def gone(self, since: Reached) -> str:
        return ""
