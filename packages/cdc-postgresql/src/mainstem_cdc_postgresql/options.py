"""What the document says of the source."""

from __future__ import annotations

from typing import Annotated, ClassVar

from mainstem import Changelog, Hidden, Secret, check_database_url, option
from mainstem_cdc import CaptureOptions, TableOptions, shapes

from mainstem_cdc_postgresql.values import has_reader


def _check(url: Secret) -> Secret:
    expected = "expected a URL: postgresql://USER:PASSWORD@HOST/DATABASE"
    return check_database_url(url, ("postgresql", "postgres"), expected)


class PostgreSQLSourceOptions(CaptureOptions):
    """Options of the source `postgresql`."""

    port: ClassVar[int] = 5432
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

    @property
    def namespace(self) -> str:
        return "public"

    @property
    def published(self) -> str:
        """The publication."""
        return self.publication or self.slot


def shapes_of(options: PostgreSQLSourceOptions) -> dict[str, Changelog]:
    """Return the shapes of the tables, by name.

    Raises:
        OptionError: a column has a type that no value is read as.
    """
    hint = "Read it as STRING: that holds what PostgreSQL prints, of any type."
    return shapes(options, has_reader, hint)
