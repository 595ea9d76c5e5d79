"""The collections of a document, as MongoDB has them."""

from __future__ import annotations

from collections.abc import Collection as Some
from collections.abc import Mapping
from typing import Any

from mainstem import PermanentError
from mainstem_cdc import (
    UNCHANGED,
    Chunk,
    FoundColumn,
    FoundTable,
    Table,
    TableOptions,
    Values,
    unnamed,
)
from mainstem_cdc.columns import ColumnReaders, boolean

from mainstem_cdc_mongodb.connection import READING, Connection
from mainstem_cdc_mongodb.documents import ID, as_condition, as_key, of_key, printed, same_id
from mainstem_cdc_mongodb.options import MongoDBSourceOptions
from mainstem_cdc_mongodb.values import reader

_READERS = ColumnReaders(reader, {"boolean": boolean("true", "false")})
#: The columns of a collection that the document does not name.
_KEY, _WHOLE = "_id", "document"
#: How many documents are looked at for the types of their fields.
_SAMPLE = 1000
#: What fields are read as, by what their values are here; others as STRING.
_READ_AS = {
    "bool": "BOOLEAN", "int": "INT", "Int64": "BIGINT", "float": "DOUBLE", "bytes": "BINARY",
    "datetime": "TIMESTAMP",
}  # fmt: skip


class Collection(Table):
    """A collection of the document; its rows are fields of documents, as text."""

    def __init__(self, name: str, given: TableOptions, options: MongoDBSourceOptions) -> None:
        super().__init__(name, given, options, _READERS)
        self._fields = [
            (ID if column.name == self.key[0] else column.name, column.type or "")
            for column in given.table_schema
        ]

    @classmethod
    def unnamed(cls, namespace: str, name: str, options: MongoDBSourceOptions) -> Collection:
        """Return a collection that the document does not name: its documents come whole."""
        return cls(*unnamed(namespace, name, [_KEY, _WHOLE], [_KEY]), options)

    def find(self, connection: Connection) -> bool:
        """See that changes of it can be had; return whether the server keeps its documents after each.

        Raises:
            PermanentError: they can't; says what to do.
        """
        found = connection.command(
            self.namespace, {"listCollections": 1, "filter": {"name": self.table}}
        )["cursor"]["firstBatch"]
        kind = found[0].get("type", "collection") if found else "collection"
        if kind != "collection":
            raise PermanentError(f"{self.origin} is a {kind}, of which the server tells no changes")
        options = found[0].get("options", {}) if found else {}
        kept = bool(options.get("changeStreamPreAndPostImages", {}).get("enabled"))
        if self.preimages and not kept:
            raise PermanentError(
                f"the server does not keep documents of {self.origin} as they were before: "
                f'db.runCommand({{collMod: "{self.table}", changeStreamPreAndPostImages: {{enabled: '
                "true}}), or leave out `preimages`"
            )
        return kept

    # -- rows -----------------------------------------------------------------------------------

    def row(self, document: Mapping[str, Any]) -> Values:
        """Return a document as a row."""
        if not self.named:
            return [printed(document[ID], "string"), printed(dict(document), "string")]
        return [printed(document.get(name), kind) for name, kind in self._fields]

    def changed(self, key: Any, update: Mapping[str, Any]) -> Values:
        """Return a row of which only what an update has set is known.

        Args:
            update: its description, as the server gives it.
        """
        fields = {
            **update.get("updatedFields", {}),
            **dict.fromkeys(update.get("removedFields", ())),
            ID: key,
        }
        # Of a change within a field, such as `address.city`, the rest of the field is not told.
        within = {name.partition(".")[0] for name in fields if "." in name}
        within |= {each["field"].partition(".")[0] for each in update.get("truncatedArrays", ())}
        return [
            printed(fields[name], kind) if name in fields and name not in within else UNCHANGED
            for name, kind in self._fields
        ]

    def gone(self, key: Any) -> Values:
        """Return a row of which only the key is known; the others are null, or not told."""
        left = None if self.named else UNCHANGED
        return [printed(key, kind) if name == ID else left for name, kind in self._fields]

    def shown(self, values: Values) -> str:
        whole = None if self.named else values[1]
        return whole.decode() if isinstance(whole, bytes) else super().shown(values)

    # -- documents that it has --------------------------------------------------------------------

    def chunk(
        self, connection: Connection, after: str | None, rows: int, where: str | None, seen: Any
    ) -> Chunk:
        """Return the next documents by id.

        Args:
            after: the id behind which they are, as JSON.
            where: a filter, as JSON.
            seen: the time as of which they are, a `Timestamp`.

        Raises:
            NoSnapshotError: the server can't go back so far, or is not so far yet.
        """
        command: dict[str, Any] = {
            "find": self.table,
            "filter": as_condition(where),
            "sort": {ID: 1},
            "hint": {ID: 1},
            "limit": rows + (after is not None),
            "batchSize": rows + 1,
            "singleBatch": True,  # what the server sends at once is enough
            "readConcern": {"level": "snapshot", "atClusterTime": seen},
        }
        if after is not None:
            # A condition would find ids of the same type alone. The first may be this one.
            command["min"] = of_key(after)
        found = self._found(connection, command, lasting=where is not None)
        if after is not None and found and same_id(found[0], after):
            # Large documents do not fit into one answer beside it.
            found = found[1:] or self._found(
                connection, command | {"skip": 1}, lasting=where is not None
            )
        keyed: dict[Any, Values] = {}
        for document in found:
            row = self.row(document)
            keyed[self.key_of(row)] = row
        return Chunk(keyed, as_key(found[-1][ID]) if found else None)

    def _found(
        self, connection: Connection, command: Mapping[str, Any], *, lasting: bool
    ) -> list[dict[str, Any]]:
        answer = connection.command(
            self.namespace, command, READING, snapshot=True, lasting=lasting
        )
        found: list[dict[str, Any]] = answer["cursor"]["firstBatch"]
        return found

    def by_now(self, connection: Connection, key: Any) -> Values:
        """Return a document as it is by now; nulls if it is gone."""
        command = {"find": self.table, "filter": {ID: key}, "limit": 1, "singleBatch": True}
        found = connection.command(
            self.namespace, command | {"readConcern": {"level": "majority"}}
        )["cursor"]["firstBatch"]
        return self.row(found[0]) if found else self.gone(key)

    def estimate(self, connection: Connection) -> int:
        """Return about how many documents there are."""
        return int(connection.command(self.namespace, {"count": self.table})["n"])


def found_collections(options: MongoDBSourceOptions) -> list[FoundTable]:
    """Return the collections of the document's databases, with what fields of some documents are."""
    connection = Connection(options)
    try:
        databases = {
            options.database,
            *(options.placed(n, t)[0] for n, t in options.tables.items()),
        }
        found = []
        for database in sorted(databases):
            there = connection.command(
                database, {"listCollections": 1, "filter": {"type": "collection"}}
            )["cursor"]["firstBatch"]
            names = sorted(each["name"] for each in there)
            found += [
                _found(connection, database, name)
                for name in names
                if not name.startswith("system.")
            ]
        return found
    finally:
        connection.close()


def _found(connection: Connection, database: str, name: str) -> FoundTable:
    command = {"find": name, "limit": _SAMPLE, "batchSize": _SAMPLE, "singleBatch": True}
    kinds: dict[str, set[str]] = {ID: set()}
    for document in connection.command(database, command)["cursor"]["firstBatch"]:
        for field, value in document.items():
            there = kinds.setdefault(field, set())
            if value is not None:
                there.add(type(value).__name__)
    key = "id" if "id" not in kinds else "document_id"
    columns = (
        FoundColumn(
            key if field == ID else field, _read_as(there), ", ".join(sorted(there)) or "null"
        )
        for field, there in kinds.items()
    )
    return FoundTable(database, name, (key,), tuple(columns))


def _read_as(kinds: Some[str]) -> str:
    """Return the type to read a field as, by what its values are here."""
    if set(kinds) == {"int", "Int64"}:
        return "BIGINT"
    if "float" in kinds and set(kinds) <= {"int", "Int64", "float"}:
        return "DOUBLE"
    return _READ_AS.get(next(iter(kinds)), "STRING") if len(kinds) == 1 else "STRING"
