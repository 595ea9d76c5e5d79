"""Source and receiver pass the standard tests, by messages of the log."""

from __future__ import annotations

import uuid

import psycopg
import pytest
from mainstem_testkit import ReceiverSuite, SourceSuite
from postgresql_tables import drop_slot


class MessagesMixin:
    use = "postgresql"
    server_fixture = "postgres"
    slot = ""

    @pytest.fixture(autouse=True)
    def _clear(self):
        yield
        if self.slot:
            drop_slot(self.server, self.slot)

    def prepare(self):
        if self.slot:  # a crash test moves on to another place
            drop_slot(self.server, self.slot)
        self.slot = f"m{uuid.uuid4().hex[:12]}"
        self.ask(f"SELECT pg_create_logical_replication_slot('{self.slot}', 'pgoutput')")

    def ask(self, *statements):
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def options(self):
        return {"url": self.server.url, "slot": self.slot, "keep": "1 day"}

    def put(self, numbers):
        self.ask(*(f"SELECT pg_logical_emit_message(true, 'numbers', '{n}')" for n in numbers))


class TestReceiver(MessagesMixin, ReceiverSuite):
    def permanent(self):
        self.ask(
            "SELECT pg_create_logical_replication_slot('of_another', 'test_decoding') WHERE NOT EXISTS "
            "(SELECT FROM pg_replication_slots WHERE slot_name = 'of_another')"
        )
        nobody = self.server.url.replace("postgres@", "nobody:hunter2@")
        return {
            "a slot of another plugin": {"slot": "of_another"},
            "no such database": {"url": self.server.url.removesuffix("postgres") + "nowhere"},
            "no such user": {"url": nobody},
        }

    @pytest.fixture(autouse=True)
    def _clear_other(self, _clear):
        yield
        drop_slot(self.server, "of_another")


class TestMessages(MessagesMixin, SourceSuite):
    wrong_options = {
        "slot": {"slot": "Of Mine"},
        "url": {"url": "mysql://localhost/shop"},
        "receivers": {"receivers": 2},
        "tables": {"tables": {"rejected": {"key": ["id"], "schema": "id BIGINT"}}},
    }

    # No `limited`: what the log gives at once is one segment, as it goes on after all of it.
