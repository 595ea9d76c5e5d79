"""What the document says of a Delta table. Nothing here imports the vendor's library."""

from __future__ import annotations

from typing import Self

from mainstem import Dataset, LocalPath, Options, Secret, option
from mainstem_lake.options import LakeOptions, LakeSourceOptions
from pydantic import model_validator


class TableOptions(Options):
    """Where a table is."""

    path: LocalPath | None = option(
        None,
        description="The table's folder, on this machine or a file system that all share.",
        example="./lake/orders",
    )
    url: str | None = option(
        None,
        pattern=r"^[a-z0-9]+://.+",
        description="The table at an object store, in place of `path`.",
        example="s3://bucket/orders",
    )
    storage: dict[str, Secret] = option(
        dict,
        description="Settings of the storage, as the library `deltalake` names them.",
        example={"AWS_REGION": "eu-central-1"},
    )

    @model_validator(mode="after")
    def _placed(self) -> Self:
        if (self.path is None) == (self.url is None):
            raise ValueError("expected either path or url")
        return self

    @property
    def place(self) -> str:
        """The table's address."""
        return str(self.path) if self.path is not None else str(self.url)

    def dataset(self) -> Dataset:
        """Return the table as catalogues know it."""
        if self.path is not None:
            return Dataset("file", str(self.path))
        system, _, rest = str(self.url).rstrip("/").partition("://")
        bucket, _, path = rest.partition("/")
        if not bucket:
            return Dataset("file", f"/{path}")
        return Dataset(f"{'s3' if system == 's3a' else system}://{bucket}", path)

    def keys(self) -> dict[str, str]:
        """Return the settings of the storage, which are never shown."""
        return {name: value.get_secret_value() for name, value in self.storage.items()}


class DeltaOptions(TableOptions, LakeOptions):
    """Options of the sink `delta`."""

    properties: dict[str, str] = option(
        dict,
        description="Properties of a table that is made here.",
        example={"delta.enableChangeDataFeed": "true"},
    )


class DeltaSourceOptions(TableOptions, LakeSourceOptions):
    """Options of the source `delta`."""
