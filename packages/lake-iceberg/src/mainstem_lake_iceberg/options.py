"""What the document says of an Iceberg table. Nothing here imports the vendor's library."""

from __future__ import annotations

from typing import Self

from mainstem import LocalPath, Options, Secret, option
from mainstem_lake.options import LakeOptions, LakeSourceOptions
from pydantic import model_validator


class TableOptions(Options):
    """Where a table is."""

    table: str = option(
        pattern=r"^[^.\s]+(\.[^.\s]+)+$",
        description="The table, by its namespace and name.",
        example="shop.orders",
    )
    catalog: dict[str, Secret] = option(
        dict,
        description="Settings of the catalog and its storage, as the library `pyiceberg` names them; and "
        "`name`, by which catalogs in one database are told apart (`mainstem` when left out).",
        example={"type": "rest", "uri": "https://catalog.example.com"},
    )
    path: LocalPath | None = option(
        None,
        description="In place of `catalog`: a folder with tables and a catalog in SQLite, for one "
        "machine.",
        example="./lake",
    )

    @model_validator(mode="after")
    def _placed(self) -> Self:
        if (self.path is None) == (not self.catalog):
            raise ValueError("expected either path or catalog")
        if self.path is not None and set("#?%") & set(str(self.path)):
            raise ValueError("a path with #, ? or % is no address")
        return self

    def settings(self) -> dict[str, str]:
        """Return the settings of the catalog, which are never shown."""
        if self.path is None:
            return {name: value.get_secret_value() for name, value in self.catalog.items()}
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.path}/catalog.db",
            "warehouse": f"file://{self.path}",
        }


class IcebergOptions(TableOptions, LakeOptions):
    """Options of the sink `iceberg`."""

    properties: dict[str, str] = option(
        dict,
        description="Properties of a table that is made here.",
        example={"write.metadata.delete-after-commit.enabled": "true"},
    )


class IcebergSourceOptions(TableOptions, LakeSourceOptions):
    """Options of the source `iceberg`."""
