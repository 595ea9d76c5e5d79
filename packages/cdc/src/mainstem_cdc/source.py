"""The base of sources of change data capture, and what they know of a database's tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from mainstem import Dataset
from mainstem_ingress import IngressSource

from mainstem_cdc.options import CaptureOptions


@dataclass(frozen=True)
class FoundColumn:
    """A column of a table that a database has.

    Attributes:
        type: the type to read it as, in Spark's DDL.
        native: its type there.
    """

    name: str
    type: str
    native: str


@dataclass(frozen=True)
class FoundTable:
    """A table that a database has.

    Attributes:
        namespace: its schema, or its database where that has none.
        key: the columns of its primary key; empty if it has none.
    """

    namespace: str
    name: str
    key: tuple[str, ...]
    columns: tuple[FoundColumn, ...]


class CaptureSource(IngressSource):
    """Tables of a database and their changes, through the ingress log.

    A subclass annotates `options` with its own, and names its receiver and capabilities.
    """

    options: CaptureOptions

    def __init__(self, options: CaptureOptions) -> None:
        super().__init__(options)
        self.tables = options.shapes()
        self.together = options.together == "transaction"
        self.loses = options.on_gap == "snapshot"

    def datasets(self, output: str) -> Sequence[Dataset]:
        options = self.options
        table = options.tables.get(output)
        return [options.dataset(output, table)] if table is not None else []

    @abstractmethod
    def found(self) -> Sequence[FoundTable]:
        """Ask the database for its tables, without those of the system.

        Raises:
            MainstemError: it can't be asked.
        """
