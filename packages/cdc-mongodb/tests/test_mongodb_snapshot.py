"""Documents that are there and the changes meanwhile: random writers, receivers that die."""

from __future__ import annotations

import datetime
import json
import random
import threading
import uuid

import bson
import pytest
from mainstem_cdc.requests import Requests
from mainstem_cdc.testing import changes, check_tables, live, row_of
from mainstem_cdc_mongodb.documents import stamp_of
from mainstem_ingress.log import Log
from mongodb_tables import Place, Taking


class Writer(threading.Thread):
    """Writes at random until it is told to end, by transactions too."""

    def __init__(self, server, name, seed):
        super().__init__(daemon=True)
        self._place = Place(server)
        self._place.name, self._place.database = name, self._place.client[name]
        self._dice = random.Random(seed)
        self.ends = threading.Event()

    def run(self):
        while not self.ends.is_set():
            if self._dice.random() < 0.3:
                with self._place.transaction():
                    for key in self._dice.sample(range(30), self._dice.randrange(1, 8)):
                        self._write(key)
            else:
                self._write(self._dice.randrange(30))
            if self._dice.random() < 0.2:
                self.ends.wait(0.01)

    def _write(self, key):
        name, value = self._dice.choice("ab"), self._dice.randrange(1_000_000)
        if self._dice.random() < 0.3:
            self._place.delete(name, {"_id": key})
        else:
            collection = self._place.database[name]
            there = collection.find_one({"_id": key})
            if there is None:
                if self._place.session is None:
                    self._place.insert(name, {"_id": key, "v": value})
            else:
                self._place.update(name, {"_id": key}, {"$set": {"v": value}})


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.in_turn)])
def test_what_is_stored_makes_the_collections(place, seed):
    """Pass: with writers at work, chunks of a few documents and receivers that die at random, what was stored makes the
    collections, in its order and by its sequence, and no change came twice."""
    for name in "ab":
        place.insert(name, *({"_id": n, "v": n} for n in range(0, 30, 2)))
    given = place.options(tables={"a": "id INT, v INT", "b": "id INT, v INT"}, chunk_rows=4)
    writer = Writer(place.server, place.name, seed)
    writer.start()
    stored, cursor = live(lambda cursor: Taking(given, cursor), random.Random(seed))
    writer.ends.set()
    writer.join()
    with Taking(given, cursor) as last:
        last.load()
    there = {n: {(d["_id"],): d["v"] for d in place.database[n].find()} for n in "ab"}
    check_tables([*stored, *last.stored], {"a": ["id"], "b": ["id"]}, there)


def test_ids_of_all_types(place):
    """Pass: documents are read on one at a time over ids of each type, each once; a condition on an id finds those of one
    type alone."""
    ids = [
        7, 2.5, bson.Int64(2**40), "a", "b", {"x": 1}, {"x": 2}, bson.ObjectId(), bson.ObjectId(),
        uuid.uuid4(), bson.Binary(bytes(16), 3), bson.Binary(b"\x07" * 16, 3), {"$date": 5}, b"\x01", True, datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        bson.Decimal128("1.5"),
    ]  # fmt: skip
    codec = bson.CodecOptions(uuid_representation=bson.UuidRepresentation.STANDARD)
    collection = place.database.get_collection("odd", codec_options=codec)
    for n, key in enumerate(ids):
        collection.insert_one({"_id": key, "n": n})
    with Taking(place.options(tables={"odd": "id STRING, n INT"}, chunk_rows=1)) as taking:
        taking.load()
    found = [row_of(message) for message in taking.stored]
    assert sorted(row["n"] for row in found) == list(range(len(ids)))


def test_a_collection_is_read_again(place, tmp_path):
    """Pass: where a filter says, above what was before; one that the server does not understand, or that is none, is told and all
    else goes on."""
    place.insert("orders", *({"_id": n, "n": n} for n in range(5)))
    log = Log(tmp_path)
    log.receiver(0).mkdir(parents=True)
    requests = Requests(log.receiver(0))
    with Taking(place.options(tables={"orders": "id INT, n INT"}, chunk_rows=2)) as taking:
        receiver = taking.receiver
        receiver.log = log
        receiver.stored_cursors = lambda: {} if taking.cursor is None else {0: taking.cursor}
        taking.load()
        taking.some(5)
        requests.put("snapshot", ["orders"], '{"n": {"$gte": 3}}', 0)
        assert changes(taking.some(2)) == [("insert", 3, 3), ("insert", 4, 4)]
        for wrong, told in (
            ("{n", "no filter as JSON"),
            ("[1]", "expected a JSON object"),
            ('{"_id": {"$oid": "short"}}', "no filter as JSON"),
            ('{"n": {"$numberDecimal": "x"}}', "no filter as JSON"),
            ('{"n": {"$nonsense": 1}}', "nonsense"),
        ):
            requests.put("snapshot", ["orders"], wrong, 0)
            taking.until(lambda told=told: told in receiver.facts().get("failed", ""))
        place.insert("orders", {"_id": 9, "n": 9})
        assert changes(taking.some(1)) == [("insert", 9, 9)]


def test_large_documents(place):
    """Pass: each comes, though an answer has room for one of them alone."""
    for n in range(5):
        place.insert("large", {"_id": n, "t": "x" * 200_000})
    with Taking(place.options(tables={"large": "id INT, t STRING"}, chunk_rows=3)) as taking:
        taking.load()
    assert [change[1] for change in changes(taking.stored)] == [0, 1, 2, 3, 4]


def test_a_restart_while_nobody_writes(place, monkeypatch):
    """Pass: it goes on with the chunk in hand at once, from before the time of its place, to which the server may not have
    come."""
    from mainstem_cdc_mongodb.tables import Collection

    asked, real = [], Collection.chunk

    def chunk(self, connection, after, rows, where, seen):
        asked.append(seen)
        return real(self, connection, after, rows, where, seen)

    place.insert("orders", *({"_id": n, "n": n} for n in range(6)))
    given = place.options(tables={"orders": "id INT, n INT"}, chunk_rows=1)
    with Taking(given) as taking:
        taking.some(2)
    monkeypatch.setattr(Collection, "chunk", chunk)
    with Taking(given, taking.cursor) as again:
        again.load()
    assert [change[1] for change in changes(again.stored)] == [2, 3, 4, 5]
    place_in_time = json.loads(json.loads(taking.cursor)["tables"])["log"][0]
    assert asked[0] < stamp_of(place_in_time)
