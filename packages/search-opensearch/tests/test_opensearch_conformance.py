"""The standard tests of sinks on a real node of OpenSearch."""

from __future__ import annotations

import base64
import json
import struct
import urllib.error
import uuid
from datetime import date, datetime
from decimal import Decimal

import pyarrow.types as kinds
from mainstem.columns import arrow_type, has_arrow_type, read_columns
from mainstem_testkit import SinkSuite


def _float(value):
    return struct.unpack("f", struct.pack("f", float(value)))[0]


_READ = [
    (kinds.is_binary, base64.b64decode),
    (kinds.is_date, date.fromisoformat),
    (kinds.is_timestamp, datetime.fromisoformat),
    (kinds.is_float32, _float),
    (kinds.is_float64, float),
    (kinds.is_decimal, Decimal),
]


def value(kind, held):
    """Return what a document's field has as a value of a type."""
    if held is None or kind is None:
        return held
    if kinds.is_struct(kind):
        return {field.name: value(field.type, held.get(field.name)) for field in kind}
    if kinds.is_list(kind):
        return [value(kind.value_type, item) for item in held]
    if kinds.is_map(kind):
        return {key: value(kind.item_type, item) for key, item in held.items()}
    return next((read(held) for is_one, read in _READ if is_one(kind)), held)


class IndexSuite(SinkSuite):
    """An index of the test's own."""

    __test__ = False
    use = "opensearch"
    server_fixture = "opensearch"
    deliver = "idempotent"
    columns = "id BIGINT, name STRING"
    #: A term longer than the engine takes.
    refused = {"name": "x" * 40_000}

    def prepare(self):
        self.index = f"rows-{uuid.uuid4()}"

    def options(self):
        words = {"properties": {"name": {"type": "keyword"}}}
        given = {"url": self.server.url, "index": self.index, "give_up": "8 s"}
        return {**given, "mappings": words}

    def rows(self, schema):
        columns = {
            c.name: arrow_type(c.type) if has_arrow_type(c.type) else None
            for c in read_columns(schema)
        }
        try:
            found = self.server.documents(self.index)
        except urllib.error.HTTPError as error:
            if error.code == 503:  # of an index that goes this moment
                return self.rows(schema)
            if json.load(error)["error"]["type"] != "index_not_found_exception":
                raise
            return []
        return [
            {name: value(kind, held.get(name)) for name, kind in columns.items()}
            for held in found.values()
        ]


class TestTable(IndexSuite):
    __test__ = True
    key = ("id",)


class TestEvents(IndexSuite):
    __test__ = True
