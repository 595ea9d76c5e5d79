"""Where it begins: servers and checkpoints that fit, and those that do not."""

from __future__ import annotations

import json

import pytest
from mainstem import PermanentError, TransientError
from mainstem_cdc.testing import ask_for_tables, changes, versions
from mainstem_cdc_mongodb.options import MongoDBSourceOptions
from mainstem_cdc_mongodb.testing import MongoDB
from mainstem_ingress.losses import loss_of
from mainstem_testkit.server import free_port
from mongodb_tables import Place, Taking

ORDERS = {"orders": "id INT, n INT"}


@pytest.fixture
def own(tmp_path):
    """A server of the test's own."""
    with MongoDB(tmp_path / "own") as server:
        yield server


def test_a_log_that_is_gone(own):
    """Pass: told with the time since which changes are lost; with `on_gap: snapshot` the collections are read again, above what
    was before, and the gap is told once."""
    place = Place(own)
    place.insert("orders", {"_id": 1, "n": 10}, {"_id": 2, "n": 20})
    given = place.options(tables=ORDERS)
    with Taking(given) as taking:
        taking.load()
        taking.take(0.3)
    place.delete("orders", {"_id": 1})
    place.update("orders", {"_id": 2}, {"$set": {"n": 30}})
    place.forget()
    with pytest.raises(PermanentError, match=r"changes since 20.* are gone.*on_gap: snapshot"):
        Taking(given, taking.cursor).__enter__()
    given["on_gap"] = "snapshot"
    with Taking(given, taking.cursor):  # killed before anything is stored
        pass
    with Taking(given, taking.cursor) as again:
        again.load()
        again.until(lambda: len(again.stored) == 2)
    lost, *rest = again.stored
    assert "are gone" in loss_of(lost)["reason"]
    assert changes(rest) == [("insert", 2, 30)]
    assert versions(rest) > versions(taking.stored)[-1:]
    with Taking(given, again.cursor) as later:
        place.delete("orders", {"_id": 2})
        assert changes(later.some(1)) == [("delete", 2, None)]


def test_a_log_that_goes_while_it_is_read(own):
    """Pass: told as well, and read again."""
    place = Place(own)
    given = place.options(tables=ORDERS, on_gap="snapshot")
    with Taking(given) as taking:
        taking.load()
        cursor = taking.cursor
        own.pause()
        own.resume()
        place.insert("orders", {"_id": 1, "n": 1})
        place.forget()
        with pytest.raises(TransientError, match="does not go back"):
            taking.until(lambda: bool(taking.stored))
    taking.receiver.close()
    taking.receiver.connect(cursor)
    taking.load()
    taking.until(lambda: len(taking.stored) == 2)
    assert loss_of(taking.stored[0]) is not None
    assert changes(taking.stored[1:]) == [("insert", 1, 1)]
    taking.receiver.close()


def test_other_servers_are_told(place, own):
    """Pass: a server whose time is before the checkpoint's, and one of another set."""
    given = place.options(tables=ORDERS, answer_timeout="300 ms")
    with Taking(given) as taking:
        taking.load()
    kept = json.loads(taking.cursor)
    ahead = json.loads(kept["tables"])
    ahead["log"][0] = "82FFFFFFFF" + ahead["log"][0][10:]
    with pytest.raises(PermanentError, match="set back"):
        Taking(given, json.dumps(kept | {"tables": json.dumps(ahead)})).__enter__()
    with pytest.raises(PermanentError, match="another replica set"):
        Taking(given, json.dumps(kept | {"place": {"set": "others"}})).__enter__()


def test_servers_that_tell_no_changes(place, monkeypatch):
    """Pass: a single server, and one that is too old."""
    from mainstem_cdc_mongodb.connection import Connection

    real = Connection.command

    def answering(**told):
        def command(self, database, asked, *args, **more):
            found = real(self, database, asked, *args, **more)
            return {**found, **told} if "hello" in asked else found

        return command

    for told, match in (({"setName": ""}, "--replSet"), ({"maxWireVersion": 13}, "older than")):
        monkeypatch.setattr(Connection, "command", answering(**told))
        with pytest.raises(PermanentError, match=match):
            Taking(place.options(tables=ORDERS)).__enter__()


def test_views_are_told(place):
    """Pass: the server tells no changes of them."""
    place.database.command("create", "orders", viewOn="others", pipeline=[])
    with pytest.raises(PermanentError, match="is a view"):
        Taking(place.options(tables=ORDERS)).__enter__()


def test_servers_that_are_not_there():
    """Pass: retried; no password is shown."""
    url = f"mongodb://x:hunter2@127.0.0.1:{free_port()}/shop?directConnection=true"
    with pytest.raises(TransientError) as error:
        Taking({"url": url, "connect_timeout": "300 ms"}).__enter__()
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://localhost/shop", "no URL of MongoDB"),
        ("mongodb:///shop", "no host"),
        ("mongodb://localhost", "no database"),
        ("mongodb://user:pa/ss@db.host/shop", "not encoded"),
        ("mongodb://user:pa#ss@db.host/shop", "not encoded"),
        ("mongodb://host/shop?loadBalanced=true", "not known here"),
        ("mongodb://host/shop?tls=true&tlsAllowInvalidCertificates=true", "certificate unchecked"),
        ("mongodb://host/shop?TLSInsecure=true", "certificate unchecked"),
    ],
)
def test_urls_that_are_wrong(url, told):
    """Pass: told, without the password."""
    with pytest.raises(ValueError, match=told) as error:
        MongoDBSourceOptions(url=url)
    assert "ss@" not in str(error.value).partition("input_value")[0]


def test_urls_of_several_hosts():
    """Pass: the place has hosts and database, and no password; a connection that others can read is a caution."""
    options = MongoDBSourceOptions(url="mongodb://u:hunter2@a:1,b:2/shop?replicaSet=r")
    assert options.place == "a:1,b:2/shop"
    assert options.database == "shop"
    assert len(list(options.cautions())) == 1
    for safe in (
        "mongodb+srv://u:p@a/shop",
        "mongodb://u:p@a/shop?tls=true",
        "mongodb://127.0.0.1:1/s",
    ):
        assert list(MongoDBSourceOptions(url=safe).cautions()) == []


def test_keys_are_one_column():
    """Pass: that of the id, by any name."""
    table = {"key": ["a", "b"], "schema": "a INT, b INT"}
    with pytest.raises(ValueError, match="one column"):
        MongoDBSourceOptions(url="mongodb://localhost/shop", tables={"orders": table})


def test_collections_are_asked_for(place, tmp_path):
    """Pass: by the command, with the types of what some documents have; read so, every value comes."""
    import bson

    place.insert(
        "wide",
        {
            "_id": bson.ObjectId(),
            "i": 1,
            "l": 1,
            "f": 1,
            "b": True,
            "x": b"\0",
            "doc": {},
            "none": None,
        },
        {"_id": bson.ObjectId(), "i": 2, "l": 2**40, "f": 1.5, "mixed": 1},
        {"_id": bson.ObjectId(), "mixed": "x", "a b": "y"},
    )
    place.insert("with_id", {"_id": 1, "id": "own"})
    given = {"url": place.options()["url"]}
    tables, _ = ask_for_tables(tmp_path, "mongodb", given, ["*"])
    assert tables["wide"]["schema"] == (
        "id STRING, i INT, l BIGINT, f DOUBLE, b BOOLEAN, x BINARY, doc STRING, none STRING, "
        "mixed STRING, `a b` STRING"
    )
    assert tables["with_id"]["key"] == ["document_id"]
    with Taking(given | {"tables": tables}) as taking:
        taking.load()
    assert len(changes(taking.stored)) == 4


def test_names_that_are_not_found_now():
    """Pass: retried, for the server of names may be away; a URL that is wrong is not."""
    url = "mongodb+srv://u:hunter2@nowhere.invalid/shop"
    with pytest.raises(TransientError):
        Taking({"url": url, "connect_timeout": "1 s"}).__enter__()


def test_one_of_several_servers_is_kept_to():
    """Pass: a cursor is at the server that made it."""
    from types import SimpleNamespace

    from mainstem_cdc_mongodb.connection import _One

    a, b = SimpleNamespace(address=("a", 1)), SimpleNamespace(address=("b", 1))
    one = _One()
    assert one([]) == []
    assert one([a, b]) == [a]
    assert one([b, a]) == [a]
    assert one([b]) == []
