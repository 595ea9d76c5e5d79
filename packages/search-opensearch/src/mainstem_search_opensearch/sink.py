"""Sink `opensearch`: documents of a table's rows, kept in step, and of events."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mainstem import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    Batch,
    Changelog,
    Comparable,
    Compared,
    Dataset,
    IdentifiedWrites,
    KeyedWrites,
    Level,
    Located,
    OptionError,
    PermanentError,
    PipelineError,
    Prepared,
    Shape,
    Shown,
    Sink,
    SinkCapabilities,
    Swappable,
    Typed,
)
from mainstem.columns import (
    Column,
    Template,
    find_column,
    json_sql,
    literal,
    odd_key,
    quoted,
    version_sql,
)

from mainstem_search_opensearch.options import OpenSearchOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mainstem_search_opensearch.bulk import Bulk
    from mainstem_search_opensearch.connection import Connection

_SHOWN = "packages/search-opensearch/tests/test_opensearch_conformance.py"
#: Types that JSON does not have.
_NOT_JSON = ("interval", "void")
_DURABLE = (
    "OpenSearch keeps what it has answered: with `index.translog.durability: async` a crash of a node "
    "loses the last seconds, and more where no replica has it"
)
_ID, _ORDER = "id", "_order"
#: Types whose text in an id is that of the document's field; and the id of an event.
_PLAIN = ("string", "tinyint", "smallint", "int", "bigint", "boolean", "date")
_EVENT = re.compile("[0-9a-f]{32}")


class OpenSearchSink(
    Sink, Typed, Prepared, KeyedWrites, IdentifiedWrites, Swappable, Comparable, Located
):
    """Writes a document for each row of a table, by its key, and deletes those of rows that go; of events
    a document each, by their id.

    OpenSearch compares versions by itself: an older change never wins over a newer one, and an event
    that is there is not written again.
    """

    options: OpenSearchOptions
    capabilities = SinkCapabilities(
        needs_id=True,
        assumptions=(
            _DURABLE,
            "nobody else writes the documents",
            "no older change comes more than `deletes_within` after a deletion",
        ),
        shown={"idempotent": Shown(Level.EXACTLY_ONCE, _SHOWN)},
    )

    def datasets(self, output: str) -> Sequence[Dataset]:
        url = self.options.address().geturl()
        return [Dataset.at_server("opensearch", url, 9200, self.options.index)]

    # -- before a run -----------------------------------------------------------------------------

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse names that rows of a key could not keep, and a sequence that is no version."""
        for column in columns:
            if (column.type or "").startswith(_NOT_JSON):
                raise OptionError(
                    f"a document can't hold the column {column.name}, of type {column.type}",
                    hint="Make text of it before.",
                )
            if odd_key(column.type or ""):
                raise OptionError(
                    f"a document can't hold the column {column.name}, of type {column.type}: its keys "
                    "would be no text",
                    hint="Give the map keys of text.",
                )
        routing = [self.options.routing] if self.options.routing else []
        for name in (*Template(self.options.index).columns, *routing):
            find_column(columns, name, "index" if name not in routing else "routing")
        if not isinstance(shape, Changelog):
            if self.options.id is not None:
                raise OptionError("events have an id of their own", option="id")
            return
        key = {name.lower() for name in shape.key}
        kinds = {column.name.lower(): column.type for column in columns}
        for name in shape.key:
            if (kinds.get(name.lower()) or "").startswith("binary"):
                raise OptionError(
                    f"an id is text, and {name} of the key is BINARY: many values would have one id",
                    hint="Make text of it before: hex(x), or base64(x).",
                )
        for option, names in (
            ("index", Template(self.options.index).columns),
            ("routing", routing),
        ):
            for name in names:
                if name.lower() not in key:
                    raise OptionError(
                        f"{name} is not in the table's key, and a row could not be found again when "
                        "it changes",
                        option=option,
                    )
        if self.options.id is not None:
            named = Template(self.options.id).columns
            if {name.lower() for name in named} != key:
                raise OptionError(
                    f"the table's key is {', '.join(shape.key)}, and the id names "
                    f"{', '.join(named) or 'no column'}",
                    option="id",
                )
        kind = next((c.type for c in columns if c.name == COMMIT_VERSION), None)
        if shape.sequence is not None and kind is not None and version_sql(kind) is None:
            raise OptionError(
                f"the sequence is of type {kind}: expected a whole number, a TIMESTAMP, or text that "
                "begins with 16 hexadecimal digits"
            )

    def prepare(self, columns: Sequence[Column], shape: Shape) -> None:
        """Make the index where it is not there; of one that is, see how long it remembers deletions."""
        connection = self._connection()
        try:
            found = connection.ask("GET", "/")
            if not isinstance(found, dict) or "version" not in found:
                raise PermanentError("that is neither OpenSearch nor Elasticsearch")
            if (index := self.options.fixed) is not None:
                self._made(connection, index, isinstance(shape, Changelog))
        finally:
            connection.close()

    def _made(self, connection: Connection, index: str, table: bool) -> None:
        options = self.options
        kept = f"{int(options.deletes_within.total_seconds())}s"
        forgets = {"index.gc_deletes": kept} if table else {}
        there = connection.ask("GET", f"/{index}", missing=False)
        if there is False:
            settings = {**forgets, **(options.settings or {})}
            body = {"settings": settings, "mappings": options.mappings or {}}
            connection.ask("PUT", f"/{index}", body)
        elif forgets:
            connection.ask("PUT", f"/{index}/_settings", forgets)

    def _connection(self) -> Connection:
        from mainstem_search_opensearch.connection import Connection

        return Connection(self.options)

    # -- batches ----------------------------------------------------------------------------------

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        if isinstance(batch.shape, Changelog):
            return self.write_keyed(frame, batch)
        return self.write_new(frame, batch)

    def write_keyed(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        return self._set(frame, batch, self._bulk(batch))

    def _set(self, frame: DataFrame, batch: Batch, bulk: partial[Bulk]) -> DataFrame | None:
        from mainstem.changes import write_changes

        from mainstem_search_opensearch.bulk import ACTION, DOCUMENT, WRONG

        shape = batch.shape
        assert isinstance(shape, Changelog)  # noqa: S101
        kinds = dict(frame.dtypes)
        named = self._id_sql(shape)
        gone = f"{CHANGE_TYPE} = 'delete'"
        version, wrong, order = "", "NULL", "NULL"
        if shape.sequence is not None:
            # Changes of one version are told apart by the whole sequence, and by their batches.
            number = (version_sql(kinds[COMMIT_VERSION]) or "").format(quoted(COMMIT_VERSION))
            version = f", 'version', {number}, 'version_type', 'external_gte'"
            why = "its sequence is no version that OpenSearch compares: a number of 0 or more"
            wrong = f"IF(coalesce({number}, -1) < 0, {literal(why)}, NULL)"
            order = quoted(COMMIT_VERSION)
        # A node refuses the whole request for one of these.
        odd = f"octet_length({named}) NOT BETWEEN 1 AND {_ID_BYTES}"
        why = f"an id has 1 to {_ID_BYTES} bytes"
        wrong = f"IF({odd}, {literal(why)}, {wrong})"
        place = f"'_index', {Template(self.options.index).sql()}, '_id', {named}{self._routed()}"
        meta = f"named_struct({place}{version})"
        action = (
            f"IF({gone}, to_json(named_struct('delete', {meta})), "
            f"to_json(named_struct('index', {meta})))"
        )
        rows = frame.selectExpr(
            f"{named} AS {_ID}",
            f"{order} AS {_ORDER}",
            CHANGE_TYPE,
            f"{action} AS {ACTION}",
            f"IF({gone}, NULL, {json_sql(frame.columns)}) AS {DOCUMENT}",
            f"CAST({wrong} AS STRING) AS {WRONG}",
        )
        sequence = _ORDER if shape.sequence is not None else None
        return write_changes(rows, [_ID], sequence, bulk, ordered=True)

    def _id_sql(self, shape: Changelog) -> str:
        if self.options.id is not None:
            return Template(self.options.id).row_sql()
        return Template.of(shape.key, ":").sql(_escaped if len(shape.key) > 1 else str)

    def _id_filled(self, shape: Changelog, values: Mapping[str, str]) -> str | None:
        """Return what `_id_sql` makes of values."""
        from mainstem_search_opensearch.holding import escape

        if self.options.id is not None:
            return Template(self.options.id).row_filled(values)
        return Template.of(shape.key, ":").filled(values, escape if len(shape.key) > 1 else str)

    def write_new(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        return self._add(frame, self._bulk(batch), "create")

    def _add(self, frame: DataFrame, bulk: partial[Bulk], how: str) -> DataFrame | None:
        from mainstem.sinks import write_by_tasks

        from mainstem_search_opensearch.bulk import ACTION, DOCUMENT, WRONG

        place = f"'_index', {Template(self.options.index).sql()}, '_id', lower(hex(_id)){self._routed()}"
        wrong = f"IF({Template(self.options.index).sql()} IS NULL, 'a column of its index is null', NULL)"
        rows = frame.selectExpr(
            f"to_json(named_struct('{how}', named_struct({place}))) AS {ACTION}",
            f"{json_sql(frame.columns)} AS {DOCUMENT}",
            f"{wrong} AS {WRONG}",
            "_id",
        )
        return write_by_tasks(rows, partial(_write, bulk))

    def _bulk(self, batch: Batch) -> partial[Bulk]:
        from mainstem_search_opensearch.bulk import Bulk, ledger_name

        parts = (batch.pipeline, batch.sink, batch.query_id, self.options.index)
        return partial(Bulk, self.options, ledger_name(*parts), batch.epoch)

    def _routed(self) -> str:
        routing = self.options.routing
        return f", 'routing', CAST({quoted(routing)} AS STRING)" if routing else ""

    # -- Comparable -------------------------------------------------------------------------------

    def compared(self, columns: Sequence[Column], shape: Shape) -> Compared:
        named = "lower(hex(_id))"
        if isinstance(shape, Changelog):
            named = self._id_sql(shape)
            kinds = {column.name.lower(): column.type for column in columns}
            for name in (*shape.key, *Template(self.options.index).columns):
                if kinds.get(name.lower()) not in _PLAIN:
                    raise OptionError(
                        f"an id can't be made of a document's {name}, so that it is not known which "
                        "documents are of the table"
                    )
        place = f"'index', {Template(self.options.index).sql()}, 'id', {named}{self._routed()}"
        key = f"IF({named} IS NULL, NULL, to_json(named_struct({place})))"
        content = json_sql([column.name for column in columns])
        held = "index STRING, id STRING, routing STRING, content STRING"
        return Compared(key, content, held, "to_json(struct(index, id, routing))", "content")

    def held(
        self, columns: Sequence[Column], shape: Shape, take: Callable[[pa.RecordBatch], None]
    ) -> None:
        from mainstem_search_opensearch.holding import documents

        connection = self._connection()
        try:
            documents(connection, self.options, self._is_ours(shape), take)
        finally:
            connection.close()

    def _is_ours(self, shape: Shape) -> Callable[[str, str, Mapping[str, Any]], bool]:
        """Return whether a document's fields make its index and id: others are of other sinks."""
        from mainstem_search_opensearch.holding import text_of

        index = Template(self.options.index)

        def is_ours(place: str, identity: str, fields: Mapping[str, Any]) -> bool:
            values = text_of(fields)
            if index.columns and index.filled(values) != place:
                return False
            if not isinstance(shape, Changelog):
                return _EVENT.fullmatch(identity) is not None
            return self._id_filled(shape, values) == identity

        return is_ours

    def repair(self, rows: DataFrame | None, extra: DataFrame | None, batch: Batch) -> None:
        from mainstem.sinks import Refused

        from mainstem_search_opensearch.holding import deletions

        made = self._bulk(batch)
        if rows is not None:
            if isinstance(batch.shape, Changelog):
                self._set(rows, batch, partial(made, over=True))
            else:
                self._add(rows, partial(made, over=True), "index")
        if extra is not None:
            bulk: Bulk = made()
            try:
                bulk.send(deletions(extra.toLocalIterator()), Refused())
            finally:
                bulk.close()

    # -- Swappable --------------------------------------------------------------------------------

    def beside(self, suffix: str) -> OpenSearchSink:
        """Return a sink that writes another index, which is not the one behind the alias."""
        if self.options.fixed is None:
            raise PipelineError("an index whose name has columns can't be built beside")
        connection = self._connection()
        try:
            behind = self._behind(connection)
        finally:
            connection.close()
        name = next(
            each
            for each in (f"{self.options.index}-{suffix}", f"{self.options.index}-{suffix}-2")
            if each not in behind
        )
        return OpenSearchSink(self.options.model_copy(update={"index": name}))

    def _behind(self, connection: Connection) -> list[str]:
        """Return the indices behind the name, if it is an alias."""
        found = connection.ask("GET", f"/_alias/{self.options.index}", missing={})
        return list(found)

    def clear(self) -> None:
        connection = self._connection()
        try:
            connection.ask("DELETE", f"/{self.options.index}", missing={})
        finally:
            connection.close()

    def swap(self, built: OpenSearchSink) -> None:
        """Let the name stand for the other index, at once; what it stood for is gone."""
        here, other = self.options.index, built.options.index
        connection = self._connection()
        try:
            if connection.ask("GET", f"/{other}", missing=False) is False:
                return
            old = self._behind(connection)
            actions: list[dict[str, Any]] = [
                {"remove": {"index": name, "alias": here}} for name in old
            ]
            if not old and connection.ask("GET", f"/{here}", missing=False) is not False:
                actions.append({"remove_index": {"index": here}})  # the name is its own yet
            actions.append({"add": {"index": other, "alias": here}})
            connection.ask("POST", f"/{other}/_refresh")
            connection.ask("POST", "/_aliases", {"actions": actions})
            for name in old:
                connection.ask("DELETE", f"/{name}", missing={})
        finally:
            connection.close()


def _write(target: partial[Bulk], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the events of a task."""
    from mainstem.sinks import Refused

    from mainstem_search_opensearch.bulk import lines_of

    refused, made = Refused(), target()
    try:
        for batch in batches:
            made.send(list(lines_of(batch, refused)), refused)
            yield from refused.take()
    finally:
        made.close()


#: What a document's id has at most.
_ID_BYTES = 512


def _escaped(part: str) -> str:
    """Return the SQL of what `escape` makes of a column's text."""
    return f"replace(replace({part}, '\\\\', '\\\\\\\\'), ':', '\\\\:')"
