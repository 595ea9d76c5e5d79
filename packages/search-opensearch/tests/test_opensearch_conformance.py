"""The standard tests of sinks on a real node of OpenSearch."""

from __future__ import annotations

import json
import urllib.error
import uuid

from mainstem_testkit import SinkSuite
from mainstem_testkit.conformance.values import json_row


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
        try:
            found = self.server.documents(self.index)
        except urllib.error.HTTPError as error:
            if error.code == 503:  # of an index that goes this moment
                return self.rows(schema)
            if json.load(error)["error"]["type"] != "index_not_found_exception":
                raise
            return []
        return [json_row(schema, held) for held in found.values()]


class TestTable(IndexSuite):
    __test__ = True
    key = ("id",)


class TestEvents(IndexSuite):
    __test__ = True
