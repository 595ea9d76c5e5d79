"""What the document says of the source."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from mainstem import Hidden, Secret, Size, check_database_url, option
from mainstem_cdc import RelationalOptions, TableOptions

from mainstem_cdc_postgresql.values import has_reader


def _check(url: Secret) -> Secret:
    expected = "expected a URL: postgresql://USER:PASSWORD@HOST/DATABASE"
    return check_database_url(url, ("postgresql", "postgres"), expected)


class PostgreSQLSourceOptions(RelationalOptions):
    """Options of the source `postgresql`."""

    port: ClassVar[int] = 5432
    product: ClassVar[str] = "PostgreSQL"
    catalogued: ClassVar[str] = "postgres"
    has_schemas: ClassVar[bool] = True
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
    failover: bool = option(
        False,
        description="Make the slot so that standbys keep it too (PostgreSQL 17 and newer, with "
        "`sync_replication_slots` there, and `synchronized_standby_slots` at the server, so that no "
        "standby is behind what was taken here): it is gone on with at the one that is promoted.",
    )
    slot_limit: Size | None = option(
        None,
        description="How much of its log the server may keep for the slot: what it has behind what is "
        "stored here, and of transactions that are open. None for as much as it likes.",
        example="20 GiB",
    )
    on_slot_limit: Literal["warn", "fail", "drop"] = option(
        "warn",
        description="What happens when it keeps more. `warn`: it is told; `fail`: the run ends; `drop`: "
        "the slot is dropped, so that the server's disk does not fill, and `on_gap` says what becomes of "
        "the changes.",
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

    @classmethod
    def has_reader(cls, kind: str) -> bool:
        return has_reader(kind)
