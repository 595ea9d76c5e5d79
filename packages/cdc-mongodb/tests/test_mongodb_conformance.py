"""Source and receiver pass the standard tests, by documents of a collection, on the emulation."""

from __future__ import annotations

import uuid

import pymongo
from mainstem_testkit import ReceiverSuite, SourceSuite


class DocumentsMixin:
    use = "mongodb"
    output = "numbers"
    server_fixture = "mongodb"
    database = ""

    def prepare(self):
        self.database = f"m{uuid.uuid4().hex[:12]}"

    def options(self):
        return {
            "url": self.server.url.replace("/test?", f"/{self.database}?"),
            "tables": {"numbers": {"key": ["n"], "schema": "n BIGINT"}},
            "keep": "1 day",
            "answer_timeout": "2 s",
        }

    def put(self, numbers):
        with pymongo.MongoClient(self.server.url, retryWrites=False) as client:
            for n in numbers:
                client[self.database]["numbers"].insert_one({"_id": n})


class TestReceiver(DocumentsMixin, ReceiverSuite):
    def number(self, message):
        return message.extra[1]["n"]

    def permanent(self):
        with pymongo.MongoClient(self.server.url) as client:
            client[self.database].command("create", "seen", viewOn="numbers", pipeline=[])
        table = {"table": "seen", "key": ["n"], "schema": "n BIGINT"}
        return {"a view": {"tables": {"numbers": table}}}


class TestDocuments(DocumentsMixin, SourceSuite):
    wrong_options = {
        "url": {"url": "postgresql://localhost/shop"},
        "receivers": {"receivers": 2},
        "tables": {"tables": {"numbers": {"key": ["n", "m"], "schema": "n BIGINT, m BIGINT"}}},
    }

    def number(self, row):
        return row["n"]

    # No `limited`: what the log gives at once is one segment, as it goes on after all of it.
