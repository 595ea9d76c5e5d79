"""Changes, in the order of the change stream."""

from __future__ import annotations

import json
import time

import pytest
from mainstem import PermanentError
from mainstem_cdc.options import ALL
from mainstem_cdc.testing import broken_off, changes, row_of, versions
from mongodb_tables import Taking

ORDERS = {"orders": "id STRING, n INT, `at` STRING"}


def test_each_kind_of_change(place):
    """Pass: documents, and each kind of change, with sequences that grow; of other collections nothing."""
    place.insert("orders", {"_id": "a", "n": 1}, {"_id": "b", "n": 2, "at": {"x": [1, None]}})
    with Taking(place.options(tables=ORDERS)) as taking:
        taking.load()
        first = taking.some(2)
        assert changes(first) == [("insert", "a", 1, None), ("insert", "b", 2, '{"x": [1, null]}')]
        place.update("orders", {"_id": "a"}, {"$inc": {"n": 10}, "$set": {"at.x": 1}})
        place.insert("others", {"_id": "a"})
        place.update("orders", {"_id": "b"}, {"$unset": {"n": 1}})
        place.database.orders.replace_one({"_id": "b"}, {"n": 7})
        place.delete("orders", {"_id": "a"})
        place.insert("orders", {"_id": "c", "n": "text"})
        later = taking.some(5)
    (refused,) = (message for message in later if message.refused)
    later.remove(refused)
    # What a server looks up is the document as it is by then.
    assert changes(later[2:]) == [
        ("update_postimage", "b", 7, None),
        ("delete", "a", None, None),
    ]
    assert [change[0] for change in changes(later[:2])] == ["update_postimage"] * 2
    assert refused.refused == "n: no whole number"
    assert json.loads(refused.value) == {"id": "c", "n": "text", "at": None}
    told = versions([*first, *later])
    assert told == sorted(told)
    assert len(set(told[2:])) == 4


def test_an_update_of_a_document_that_is_gone(place):
    """Pass: the update has nulls, and the delete follows."""
    place.insert("orders", {"_id": "a", "n": 1})
    with Taking(place.options(tables=ORDERS, snapshot="never")) as taking:
        taking.load()
        with place.transaction():
            place.update("orders", {"_id": "a"}, {"$set": {"n": 2}})
            place.delete("orders", {"_id": "a"})
        assert changes(taking.some(2)) == [
            ("update_postimage", "a", None, None),
            ("delete", "a", None, None),
        ]


def test_documents_as_they_were(place):
    """Pass: where the server keeps them, each update has the document as it was then and before; else it is told at the start."""
    place.keep_images("orders")
    place.insert("orders", {"_id": "a", "n": 1})
    table = {"schema": ORDERS["orders"], "preimages": True}
    with Taking(place.options(tables={"orders": table}, unchanged="refuse")) as taking:
        taking.load()
        place.update("orders", {"_id": "a"}, {"$inc": {"n": 1}})
        place.update("orders", {"_id": "a"}, {"$inc": {"n": 1}})
        place.delete("orders", {"_id": "a"})
        assert changes(taking.some(6)) == [
            ("insert", "a", 1, None),
            ("update_preimage", "a", 1, None),
            ("update_postimage", "a", 2, None),
            ("update_preimage", "a", 2, None),
            ("update_postimage", "a", 3, None),
            ("delete", "a", 3, None),
        ]
    place.insert("plain", {"_id": "a"})
    with pytest.raises(PermanentError, match="collMod"):
        Taking(place.options(tables={"plain": table})).__enter__()


def test_images_that_end_are_told(place):
    """Pass: a change without the document as it was ends the run, where it is wanted."""
    place.keep_images("orders")
    place.insert("orders", {"_id": "a", "n": 1})
    table = {"schema": ORDERS["orders"], "preimages": True}
    with Taking(place.options(tables={"orders": table})) as taking:
        taking.load()
        off = {"enabled": False}
        place.database.command("collMod", "orders", changeStreamPreAndPostImages=off)
        place.delete("orders", {"_id": "a"})
        with pytest.raises(PermanentError, match="as it was before"):
            taking.until(lambda: len(taking.stored) > 1)


def test_what_an_update_does_not_tell_is_refused(place):
    """Pass: with `unchanged: refuse` and no images, an update that sets all that is wanted comes, and one that does not, or that
    sets a part of a field, is refused with the column."""
    place.insert("orders", {"_id": "a", "n": 1, "at": {"x": 1}})
    with Taking(place.options(tables=ORDERS, snapshot="never", unchanged="refuse")) as taking:
        taking.load()
        place.update("orders", {"_id": "a"}, {"$set": {"n": 2, "at": "y"}})
        place.update("orders", {"_id": "a"}, {"$set": {"n": 3}, "$unset": {"at": 1}})
        place.update("orders", {"_id": "a"}, {"$set": {"n": 4}})
        place.update("orders", {"_id": "a"}, {"$set": {"at": {}, "n": 5}})
        place.update("orders", {"_id": "a"}, {"$set": {"at.x": 4, "n": 6}})
        found = taking.some(5)
    assert changes(message for message in found if not message.refused) == [
        ("update_postimage", "a", 2, "y"),
        ("update_postimage", "a", 3, None),
        ("update_postimage", "a", 5, "{}"),
    ]
    refused = [message for message in found if message.refused]
    assert all(each.refused.startswith("at: the log has not its value") for each in refused)
    assert [json.loads(each.value) for each in refused] == [
        {"id": "a", "n": "4"},
        {"id": "a", "n": "6"},
    ]


def test_a_transaction_is_one_place_in_time(place, monkeypatch):
    """Pass: its changes share a transaction and the beginning of the sequence, come in its order, and a place within it is not
    complete; broken off again and again, each comes once."""
    from mainstem_cdc_mongodb.log import ChangeStreamLog

    monkeypatch.setattr(ChangeStreamLog, "most", 3)
    table = {"schema": "id INT, n INT", "transaction": "tx"}
    given = place.options(tables={"a": table, "b": table})
    with Taking(given) as taking:
        taking.load()
        with place.transaction():
            for n in range(10):
                place.insert("a" if n % 2 else "b", {"_id": n, "n": n})
        place.insert("a", {"_id": 100, "n": 1})
        taking.until(lambda: bool(taking.stored))
        assert not taking.receiver.complete()
        first = taking
    stored = broken_off(lambda cursor: Taking(given, cursor), first, 11, calls=1)
    rows = [row_of(message) for message in stored]
    assert sorted(row["id"] for row in rows) == [*range(10), 100]
    for name in ("a", "b"):
        told = [row_of(m)["_commit_version"] for m in stored if m.extra[0] == name]
        assert told == sorted(told)
        assert len(set(told)) == len(told)
    assert len({row["tx"] for row in rows}) == 2
    assert len({row["_commit_version"].split("-")[0] for row in rows}) == 2
    with Taking(given, taking.cursor) as again:
        place.insert("a", {"_id": 101, "n": 1})
        again.until(lambda: any(row_of(m)["id"] == 101 for m in again.stored))
        again.until(lambda: bool(again.receiver.complete()))


def test_every_change_in_order(place):
    """Pass: `all` has the documents whole, of a collection too that nobody names and that comes later."""
    given = place.options(tables={"orders": "id STRING, n INT"}, all=[f"{place.name}.later*"])
    with Taking(given) as taking:
        taking.load()
        place.insert("orders", {"_id": "a", "n": 1})
        place.insert("later.on", {"_id": 5, "deep": {"x": 1.5}})
        place.insert("nobodys", {"_id": 5})
        place.delete("later.on", {"_id": 5})
        place.delete("orders", {})
        taking.until(lambda: sum(m.extra[0] == "orders" for m in taking.stored) == 2)
    found = [row_of(m) for m in taking.stored if m.extra[0] == ALL]
    told = [
        (r["table"].partition(".")[2], r["change"], json.loads(r["key"]), json.loads(r["row"]))
        for r in found
    ]
    assert told == [
        ("orders", "insert", {"id": "a"}, {"id": "a", "n": "1"}),
        ("later.on", "insert", {"_id": "5"}, {"_id": 5, "deep": {"x": 1.5}}),
        ("later.on", "delete", {"_id": "5"}, {"_id": "5"}),
        ("orders", "delete", {"id": "a"}, {"id": "a", "n": None}),
    ]
    assert len({row["transaction"] for row in found}) == 4
    assert [row["sequence"] for row in found] == sorted(row["sequence"] for row in found)


def test_large_events_are_put_together(place):
    """Pass: an event that the server takes apart comes whole, once, and the next ones follow."""
    place.keep_images("orders")
    table = {"schema": "id STRING, t STRING", "preimages": True}
    with Taking(place.options(tables={"orders": table})) as taking:
        taking.load()
        place.insert("orders", {"_id": "a", "t": "x" * 100_000})
        place.update("orders", {"_id": "a"}, {"$set": {"t": "y" * 100_000}})
        place.insert("orders", {"_id": "b", "t": "z"})
        found = changes(taking.some(4))
    assert [(c[0], c[1], c[2][:1], len(c[2])) for c in found] == [
        ("insert", "a", "x", 100_000),
        ("update_preimage", "a", "x", 100_000),
        ("update_postimage", "a", "y", 100_000),
        ("insert", "b", "z", 1),
    ]


@pytest.mark.parametrize("kind", ["drop", "rename"])
def test_collections_that_go_end_the_run(place, kind):
    """Pass: a collection that is dropped or renamed, and one that gets its name; others may go."""
    place.insert("orders", {"_id": "a"})
    place.insert("others", {"_id": "a"})
    with Taking(place.options(tables=ORDERS)) as taking:
        taking.load()
        place.database.others.drop()
        place.insert("orders", {"_id": "b"})
        taking.some(2)
        if kind == "drop":
            place.database.orders.drop()
        else:
            place.client.admin.command(
                "renameCollection", f"{place.name}.orders", to=f"{place.name}.old"
            )
        with pytest.raises(PermanentError, match=rf"orders is gone.*\({kind}\)"):
            taking.until(lambda: bool(taking.stored))


def test_several_databases(place):
    """Pass: collections of several databases come, each change once; names with dots are names."""
    other = f"{place.name}other"
    tables = {"a": "id INT", "b": {"schema": "id INT", "table": f"{other}.b.c"}}
    with Taking(place.options(tables=tables)) as taking:
        taking.load()
        for n in range(4):
            place.client[other]["b.c"].insert_one({"_id": n})
            place.insert("a", {"_id": n})
        found = taking.some(8)
    assert {message.origin for message in found} == {f"{other}.b.c", f"{place.name}.a"}
    assert sorted(change[1] for change in changes(found)) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_updates_from_before_the_server_kept_documents(place):
    """Pass: those are looked up, and no null stands for them."""
    place.insert("orders", {"_id": "a", "n": 1})
    given = place.options(tables=ORDERS, snapshot="never")
    with Taking(given) as taking:
        taking.take()
        cursor = taking.cursor
    place.update("orders", {"_id": "a"}, {"$set": {"n": 2}})
    place.database.command("collMod", "orders", changeStreamPreAndPostImages={"enabled": True})
    place.update("orders", {"_id": "a"}, {"$set": {"n": 3}})
    with Taking(given, cursor) as taking:
        assert changes(taking.some(2)) == [
            ("update_postimage", "a", 3, None),
            ("update_postimage", "a", 3, None),
        ]


def test_a_restart_between_the_fragments_of_an_event(place, monkeypatch):
    """Pass: the place is never within an event; it comes whole, once, though each call ends with one fragment of it."""
    from mainstem_cdc_mongodb.connection import Stream

    real = Stream.wait

    def wait(self, seconds):
        real(self, seconds)
        time.sleep(0.06)  # the call's time is over then

    monkeypatch.setattr(Stream, "wait", wait)
    place.keep_images("orders")
    given = place.options(tables={"orders": "id STRING, t STRING"}, heartbeat="1 ms")
    with Taking(given) as taking:
        taking.load()
        first = taking
    for n in range(12):
        place.insert("orders", {"_id": f"{n:02}", "t": "x" * 100_000})
    stored = broken_off(lambda cursor: Taking(given, cursor), first, 12, calls=5)
    assert [change[1] for change in changes(stored)] == [f"{n:02}" for n in range(12)]


def test_a_place_that_no_longer_fits_the_event(place, monkeypatch):
    """Pass: where the server can't go on behind a token, though its log has it, it goes on from that time; what was taken is
    passed over."""
    from mainstem_cdc_mongodb import log

    given = place.options(tables={"orders": "id INT"})
    with Taking(given) as taking:
        taking.load()
        for n in range(3):
            place.insert("orders", {"_id": n})
        taking.some(3)
        cursor = taking.cursor
    place.insert("orders", {"_id": 3})
    real = log.Stream

    def stream(connection, database, stages):
        if "startAfter" in stages[0]["$changeStream"]:
            raise log.UnfitPlaceError
        return real(connection, database, stages)

    monkeypatch.setattr(log, "Stream", stream)
    with Taking(given, cursor) as again:
        assert changes(again.some(1)) == [("insert", 3)]
        place.insert("orders", {"_id": 4})
        assert changes(again.some(1)) == [("insert", 4)]
