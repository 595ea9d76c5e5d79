"""Tables as hashes of a real Redis: the standard tests of sinks, and what a row becomes."""

from __future__ import annotations

import json
import struct
import uuid
from datetime import date, datetime
from decimal import Decimal

import pytest
import redis
from mainstem import OptionError
from mainstem.columns import read_columns
from mainstem.errors import DocumentError
from mainstem.plan.build import make_plan
from mainstem.run.verifying import verify
from mainstem_cache_redis.options import RedisTableOptions
from mainstem_cache_redis.rows import DELETED, VERSION, VERSION_FIELD
from mainstem_testkit import SinkSuite
from mainstem_testkit.conformance.values import json_row
from pydantic import ValidationError


def hashes(server, prefix):
    """Return the hashes below a prefix, by name, as Redis has them."""
    with redis.Redis("127.0.0.1", server.port) as client:
        names = sorted(n for n in client.keys(f"{prefix}:*") if not n.startswith(DELETED.encode()))
        return {name.decode(): client.hgetall(name) for name in names}


def strings(server, pattern):
    """Return the strings of a pattern by name, without versions and marks of deletions."""
    with redis.Redis("127.0.0.1", server.port) as client:
        ends = (DELETED.encode(), VERSION.encode())
        names = sorted(name for name in client.keys(pattern) if not name.startswith(ends))
        return {name.decode(): client.get(name) for name in names}


_READ = {
    "boolean": lambda text: text == "true",
    "string": str,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamp_ntz": datetime.fromisoformat,
    "float": lambda text: struct.unpack("f", struct.pack("f", float(text)))[0],
    "double": float,
}


def value(kind, held):
    """Return what a field holds as a value of a type of Spark's."""
    if held is None:
        return None
    if kind == "binary":
        return held
    if kind.startswith("decimal"):
        return Decimal(held.decode())
    return _READ.get(kind, int)(held.decode())


class TestTable(SinkSuite):
    use = "redis_table"
    server_fixture = "redis"
    deliver = "idempotent"
    columns = "id BIGINT, name STRING"

    def prepare(self):
        self.prefix = f"rows-{uuid.uuid4()}"

    def options(self):
        key = self.key[0] if self.key else read_columns(self.schema)[0].name
        named = f"{self.prefix}:{{{key}}}"
        return {"url": self.server.url, "key": named, "give_up": "8 s"}

    def rows(self, schema):
        kinds = {column.name: column.type for column in read_columns(schema)}
        return [
            {name: value(kind, held.get(name.encode())) for name, kind in kinds.items()}
            for held in hashes(self.server, self.prefix).values()
        ]


class TestJSON(TestTable):
    """A string with a JSON object for each row."""

    def options(self):
        return {**super().options(), "format": "json"}

    def rows(self, schema):
        found = strings(self.server, f"{self.prefix}:*").values()
        return [json_row(schema, json.loads(held, parse_float=Decimal)) for held in found]


def document(server, **options):
    rows = {
        "path": "./in",
        "format": "jsonlines",
        "schema": "id INT, at BIGINT, note STRING, gone BOOLEAN",
    }
    given = {"url": server.url, "key": f"{uuid.uuid4()}:{{id}}", **options}
    return {
        "sources": {"rows": {"use": "files", "with": rows}},
        "operators": {
            "changes": {
                "use": "changelog",
                "from": "rows",
                "with": {"key": ["id"], "sequence": "at", "delete": "gone"},
            }
        },
        "sinks": {"table": {"use": "redis_table", "from": "changes", "with": given}},
    }


@pytest.mark.in_turn
def test_a_row_lives_as_long_as_it_is_said_and_a_deletion_is_remembered(pipeline, redis):
    """Pass: fields as text, the version among them; a row and the mark of a deletion end with their time."""
    made = document(redis, ttl="1 hour", deletes_within="2 hours")
    prefix = made["sinks"]["table"]["with"]["key"].partition(":")[0]
    pipeline.document(**made)
    lines = [
        {"id": 1, "at": 5, "note": "one"}, {"id": 1, "at": 3, "note": "older"},
        {"id": 2, "at": 7, "gone": True}, {"id": 3, "at": -4, "note": None},
    ]  # fmt: skip
    pipeline.feed("0.jsonl", [json.dumps(line) for line in lines])
    pipeline.run()
    with redis_client(redis) as client:
        found = hashes(redis, prefix)
        assert found.keys() == {f"{prefix}:1", f"{prefix}:3"}
        one = found[f"{prefix}:1"]
        assert (one[b"id"], one[b"at"], one[b"note"]) == (b"1", b"5", b"one")
        assert one[VERSION_FIELD.encode()] > found[f"{prefix}:3"][VERSION_FIELD.encode()]
        assert b"note" not in found[f"{prefix}:3"]
        assert 3500 < client.ttl(f"{prefix}:1") <= 3600
        assert 7100 < client.ttl(f"{DELETED}{prefix}:2") <= 7200
    pipeline.feed("1.jsonl", [json.dumps({"id": 2, "at": 6, "note": "late"})])
    pipeline.run()
    assert f"{prefix}:2" not in hashes(redis, prefix)


def redis_client(server):
    return redis.Redis("127.0.0.1", server.port)


@pytest.mark.in_turn
def test_a_name_that_something_else_has_is_refused(pipeline, redis):
    """Pass: a row whose name is that of a list comes out of `rejected` with Redis' own words."""
    made = document(redis)
    prefix = made["sinks"]["table"]["with"]["key"].partition(":")[0]
    bad = {"path": "./bad", "format": "jsonlines"}
    made["sinks"]["bad"] = {"use": "files", "from": "table.rejected", "with": bad}
    with redis_client(redis) as client:
        client.rpush(f"{prefix}:1", "x")
    pipeline.document(**made)
    pipeline.feed("0.jsonl", [json.dumps({"id": n, "at": 1, "note": "x"}) for n in (1, 2)])
    pipeline.run()
    (refused,) = pipeline.rows("bad")
    assert "WRONGTYPE" in refused["reason"]
    with redis_client(redis) as client:
        assert client.hget(f"{prefix}:2", "note") == b"x"


@pytest.mark.in_turn
def test_the_value_of_a_column_is_a_string(pipeline, redis):
    """Pass: an older change has no effect; a null is empty; what is gone is gone with its version."""
    made = document(redis, format="value", value="note", ttl="1 hour")
    prefix = made["sinks"]["table"]["with"]["key"].partition(":")[0]
    pipeline.document(**made)
    lines = [
        {"id": 1, "at": 5, "note": "one"}, {"id": 1, "at": 3, "note": "older"},
        {"id": 2, "at": 7, "note": "two"}, {"id": 3, "at": 1, "note": None},
    ]  # fmt: skip
    pipeline.feed("0.jsonl", [json.dumps(line) for line in lines])
    pipeline.run()
    expected = {f"{prefix}:1": b"one", f"{prefix}:2": b"two", f"{prefix}:3": b""}
    assert strings(redis, f"{prefix}:*") == expected
    with redis_client(redis) as client:
        assert 3500 < client.ttl(f"{prefix}:1") <= 3600
        assert 3500 < client.ttl(f"{VERSION}{prefix}:1") <= 3600
    late = [
        {"id": 1, "at": 4, "note": "late"},
        {"id": 2, "at": 8, "gone": True},
        {"id": 2, "at": 6},
    ]
    pipeline.feed("1.jsonl", [json.dumps(line) for line in late])
    pipeline.run()
    del expected[f"{prefix}:2"]
    assert strings(redis, f"{prefix}:*") == expected
    with redis_client(redis) as client:
        assert not client.exists(f"{VERSION}{prefix}:2")


@pytest.mark.in_turn
@pytest.mark.parametrize("form", [{"format": "json"}, {"format": "value", "value": "note"}])
def test_a_string_is_no_list_and_verify_finds_what_is_damaged(pipeline, redis, form):
    """Pass: a list in a row's place is refused, and stays; verify tells what differs, is missing, is extra."""
    made = document(redis, **form)
    prefix = made["sinks"]["table"]["with"]["key"].partition(":")[0]
    bad = {"path": "./bad", "format": "jsonlines"}
    made["sinks"]["bad"] = {"use": "files", "from": "table.rejected", "with": bad}
    with redis_client(redis) as client:
        client.rpush(f"{prefix}:1", "x")
    pipeline.document(**made)
    lines = [{"id": n, "at": 1, "note": f"n{n}"} for n in range(1, 6)]
    pipeline.feed("0.jsonl", [json.dumps(line) for line in lines])
    pipeline.run()
    (refused,) = pipeline.rows("bad")
    assert "WRONGTYPE" in refused["reason"]
    with redis_client(redis) as client:
        assert client.lrange(f"{prefix}:1", 0, -1) == [b"x"]
        client.delete(f"{prefix}:1", f"{prefix}:2")
        client.set(f"{prefix}:3", "damaged")
        client.copy(f"{prefix}:4", f"{prefix}:9")
        client.copy(f"{VERSION}{prefix}:4", f"{VERSION}{prefix}:9")
        client.set(f"{prefix}:other", "nobody's")
    # Of a value nobody knows whose it is; what makes another name is none of the table's.
    extra = {"extra": 1} if "value" in form else {}
    found = verify(pipeline.plan(), "table")
    assert {k: n for k, n in found.counts.items() if n} == {"missing": 2, "different": 1, **extra}


def test_the_template_names_the_key_and_nothing_else():
    """Pass: another column, and a column too few, are errors at the option; so are braces without a name."""
    made = document(type("Server", (), {"url": "redis://host"})(), key="row:{at}")
    with pytest.raises(DocumentError, match="the table's key is id, and the template names at"):
        make_plan({"pipeline": "test", **made})
    for wrong in ("row", "row:{}", "row:{id", "row:{id!r}", "row:{id:5}"):
        with pytest.raises(ValidationError, match="key"):
            RedisTableOptions(url="redis://host", key=wrong)


def test_what_has_no_text_is_refused_before_a_run():
    """Pass: a nested column, and a sequence that texts can't order."""
    from mainstem import Changelog
    from mainstem_cache_redis.table import RedisTable

    sink = RedisTable(RedisTableOptions(url="redis://host", key="row:{id}"))
    shape = Changelog("id INT, at BIGINT, tags ARRAY<STRING>", ["id"], "at")
    with pytest.raises(OptionError, match="can't hold the column tags, of type array"):
        sink.check_types(shape.columns, shape)
    as_json = RedisTable(RedisTableOptions(url="redis://host", key="row:{id}", format="json"))
    days = Changelog("id INT, days MAP<DATE, INT>", ["id"])
    with pytest.raises(OptionError, match="can't hold the column days"):
        as_json.check_types(days.columns, days)
    odd = Changelog("id INT, at DOUBLE", ["id"], "at")
    with pytest.raises(OptionError, match="the sequence is of type double"):
        sink.check_types([*odd.columns, *odd.change_columns], odd)


def test_calls_have_so_many_rows_and_bytes_at_most():
    """Pass: a row that has more goes alone, and none is left out."""
    from mainstem_cache_redis.rows import _BYTES, _ROWS, _parts

    small = [(b"k", b"v", 2)] * (_ROWS + 1)
    large = [(b"k", b"v" * (_BYTES // 2), 2)] * 3 + [
        (b"k", b"v" * (2 * _BYTES), 2),
        (b"k", b"v", 2),
    ]
    assert [len(part) for part in _parts(small)] == [_ROWS, 1]
    assert [len(part) for part in _parts(large)] == [1, 1, 1, 1, 1]
    assert list(_parts([])) == []


def test_what_is_packed_for_redis_can_be_read_back():
    """Pass: any bytes, for rows that are refused."""
    from mainstem_cache_redis.rows import values_of

    given = [b"", b"\r\n$3\r\n", "é".encode(), b"\x00\xff"]
    packed = b"".join(b"$%d\r\n%b\r\n" % (len(each), each) for each in given)
    assert values_of(packed) == given
