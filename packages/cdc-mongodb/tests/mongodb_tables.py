"""Collections at the emulation, and what a receiver gives of them."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import Any

import pymongo
from mainstem_cdc.testing import Taking as BaseTaking
from mainstem_cdc_mongodb.options import MongoDBSourceOptions
from mainstem_cdc_mongodb.receiver import MongoDBReceiver
from mainstem_cdc_mongodb.source import MongoDBSource


class Place:
    """A database of a test's own."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.name = f"m{uuid.uuid4().hex[:12]}"
        self.client: Any = pymongo.MongoClient(server.url, retryWrites=False)
        self.database = self.client[self.name]
        self.session: Any = None

    @contextmanager
    def transaction(self):
        """Commit at the block's end what is done in it with `self.session`."""
        with self.client.start_session() as session, session.start_transaction():
            self.session = session
            yield
            self.session = None

    def insert(self, collection: str, *documents: dict[str, Any]) -> None:
        self.database[collection].insert_many(documents, session=self.session)

    def update(self, collection: str, which: dict[str, Any], update: dict[str, Any]) -> None:
        self.database[collection].update_many(which, update, session=self.session)

    def delete(self, collection: str, which: dict[str, Any]) -> None:
        self.database[collection].delete_many(which, session=self.session)

    def keep_images(self, collection: str) -> None:
        images = {"enabled": True}
        self.database.command("create", collection, changeStreamPreAndPostImages=images)

    def forget(self) -> None:
        self.client.admin.command("forget")

    def options(self, **more: Any) -> dict[str, Any]:
        """Return options; a collection is given by its columns."""
        tables = {
            name: {"key": ["id"], **(each if isinstance(each, dict) else {"schema": each})}
            for name, each in more.pop("tables", {}).items()
        }
        url = self.server.url.replace("/test?", f"/{self.name}?")
        return {"url": url, "tables": tables, **more}

    def close(self) -> None:
        self.client.close()


class Taking(BaseTaking):
    """A receiver of some options, and what a log would have stored of it."""

    def __init__(self, given: dict[str, Any], cursor: str | None = None) -> None:
        options = MongoDBSourceOptions(**given)
        MongoDBSource(options)
        super().__init__(MongoDBReceiver(options, 0, "shop"), cursor)
