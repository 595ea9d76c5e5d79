"""The formats of the core pass the standard tests."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

from mainstem_testkit import FormatSuite

ROW = "id BIGINT NOT NULL, name STRING, price DECIMAL(10,2), ratio DOUBLE, at TIMESTAMP, day DATE, raw BINARY"
AT = datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC)
FULL = {
    "id": 1, "name": "grüße", "price": Decimal("1.50"), "ratio": 0.25, "at": AT, "day": date(2024, 2, 29),
    "raw": b"\0\1\xff",
}  # fmt: skip


class TestJson(FormatSuite):
    use = "json"
    schema = f"{ROW}, more STRUCT<a: INT, b: ARRAY<STRING>>, any VARIANT"
    wrong_options = {"missing": {"missing": "sometimes"}}

    def good(self):
        written = {
            "id": 1, "name": "grüße", "price": 1.5, "ratio": 0.25, "at": "2024-02-29T01:02:03.456789Z",
            "day": "2024-02-29", "raw": "AAH/", "more": {"a": 1, "b": ["x", None]}, "any": [1, {"a": None}],
        }  # fmt: skip
        read = {**FULL, "more": {"a": 1, "b": ["x", None]}, "any": '[1, {"a": null}]'}
        return [(json.dumps(written).encode(), read), (b'{"id": 2}', {"id": 2})]

    def bad(self):
        return [b"", b"{", b"[]", b"{}", b'{"id": "1"}', b'{"id": 1, "price": 1.234}', b"\xff"]


class TestAnyJson(FormatSuite):
    use = "json"

    def good(self):
        return [(each, {"value": each.decode()}) for each in (b"1", b'{"a": [1, "x"]}', b'"text"')]

    def bad(self):
        return [b"", b"{", b"nul"]


class TestCsv(FormatSuite):
    use = "csv"
    schema = ROW

    def options(self):
        return {"separator": ";"}

    def good(self):
        line = '1;"grüße";1.50;0.25;2024-02-29T01:02:03.456789Z;2024-02-29;AAH/'
        return [
            (line.encode(), FULL),
            (b'2;"a;b";;;;;', {"id": 2, "name": "a;b"}),
            (b"2;;;;;;", {"id": 2}),
        ]

    def bad(self):
        return [b"", b"1", b";;;;;;", b'1;"a;1;1;;;', b"1;a;1.234;;;;"]


class TestLogfmt(FormatSuite):
    use = "logfmt"
    schema = ROW
    wrong_options = {"extra": {"extra": "sometimes"}}

    def good(self):
        line = 'id=1 name="gr\\u00fc\\u00dfe" price=1.50 ratio=0.25 at=2024-02-29T01:02:03.456789Z other'
        return [
            (f"{line} day=2024-02-29 raw=AAH/".encode(), FULL),
            (b"id=2", {"id": 2}),
            (b"  id=7 id=3\tname= \n", {"id": 3, "name": ""}),
            (b'id=4 name="\\"x\\" y=1"', {"id": 4, "name": '"x" y=1'}),
            (b"id=5 name", {"id": 5, "name": "true"}),
        ]

    def bad(self):
        return [
            b"", b"name=x", b"id=x", b'id=1 name="x', b'id=1 name="x"y', b"id=1 =2", b"id=1 price=1.234",
            b'id=1 name="\\x"', b"id=1 name=\xff", b'id=1 name="\\ud800"',
        ]  # fmt: skip


class TestStrictLogfmt(TestLogfmt):
    """No key may be missing, and there are no others."""

    schema = "id BIGINT, name STRING"

    def options(self):
        return {"missing": "reject", "extra": "reject"}

    def good(self):
        return [(b"name=x id=1", {"id": 1, "name": "x"})]

    def bad(self):
        return [b"id=1", b"id=1 name=x more=y"]


class TestFixed(FormatSuite):
    use = "fixed"
    schema = "id INT NOT NULL, price DECIMAL(12,4), name STRING"
    wrong_options = {"length": {"length": 0}}

    def options(self):
        return {
            "fields": {
                "id": {"at": 0, "type": "int32"},
                "price": {"at": 4, "type": "uint32", "scale": 4},
                "name": {"at": 8, "type": "text", "size": 4},
            },
            "length": 12,
        }

    def good(self):
        price = Decimal("0.0002")
        return [
            (b"\0\0\0\x01\0\0\0\x02abc ", {"id": 1, "price": price, "name": "abc"}),
            (b"\xff\xff\xff\xff\0\0\0\x02\0\0\0\0", {"id": -1, "price": price, "name": ""}),
        ]

    def bad(self):
        return [b"", b"\0" * 11, b"\0" * 13, b"\0" * 8 + b"\xff" * 4]


class TestSyslog(FormatSuite):
    use = "syslog"

    def good(self):
        whole = {
            "facility": 20, "severity": 5, "at": datetime(2024, 2, 29, 1, 2, 3, 3000, tzinfo=UTC),
            "host": "host", "app": "app", "process": "12", "message_id": "ID47",
            "data": [("a@1", [("b", "c"), ("d", '"e')])], "message": "it began",
        }  # fmt: skip
        line = b'<165>1 2024-02-29T01:02:03.003Z host app 12 ID47 [a@1 b="c" d="\\"e"] it began'
        return [(line, whole), (b"<34>1 - - - - - -", {"facility": 4, "severity": 2})]

    def bad(self):
        return [b"", b"<999>1 - - - - - -", b"no line", b"<34>1 yesterday - - - - -"]


class TestDebeziumJson(FormatSuite):
    use = "debezium-json"
    schema = "id BIGINT NOT NULL, name STRING"

    def options(self):
        return {"key": ["id"]}

    def good(self):
        old, new = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
        update = [{"type": "update_preimage", **old}, {"type": "update_postimage", **new}]
        return [
            (json.dumps({"op": op, "before": before, "after": after, "ts_ms": 1}).encode(), told)
            for op, before, after, told in (
                ("c", None, old, [{"type": "insert", **old}]),
                ("u", old, new, update),
                ("d", old, None, [{"type": "delete", **old}]),
            )
        ]

    def bad(self):
        return [b"", b"{", b"[]", b'{"op": "c"}', b'{"op": "c", "after": {"id": "x"}}']


class TestMaxwellJson(FormatSuite):
    use = "maxwell-json"
    schema = "id BIGINT NOT NULL, name STRING"

    def options(self):
        return {"key": ["id"]}

    def good(self):
        old, new = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
        update = [{"type": "update_preimage", **old}, {"type": "update_postimage", **new}]
        return [
            (json.dumps({"type": kind, "data": data, "old": before, "ts": 1}).encode(), told)
            for kind, data, before, told in (
                ("insert", old, None, [{"type": "insert", **old}]),
                ("bootstrap-insert", old, None, [{"type": "insert", **old}]),
                ("update", new, {"name": "a"}, update),
                ("delete", old, None, [{"type": "delete", **old}]),
                ("bootstrap-start", {}, None, []),
            )
        ]

    def bad(self):
        return [b"", b"{", b"[]", b'{"type": "insert"}', b'{"type": "insert", "data": {"id": "x"}}']


class TestCanalJson(FormatSuite):
    use = "canal-json"
    schema = "id BIGINT NOT NULL, name STRING"

    def options(self):
        return {"key": ["id"]}

    def good(self):
        first, second = {"id": 1, "name": "a"}, {"id": 2, "name": None}
        both = [{"id": "1", "name": "a"}, {"id": "2", "name": None}]
        update = [
            {"type": "update_preimage", **second, "name": "b"},
            {"type": "update_postimage", **second},
        ]
        return [
            (
                json.dumps(
                    {"type": kind, "data": data, "old": before, "es": 1, "isDdl": False}
                ).encode(),
                told,
            )
            for kind, data, before, told in (
                ("INSERT", both, None, [{"type": "insert", **first}, {"type": "insert", **second}]),
                ("UPDATE", both[1:], [{"name": "b"}], update),
                ("DELETE", both[:1], None, [{"type": "delete", **first}]),
            )
        ]

    def bad(self):
        return [b"", b"{", b"[]", b'{"type": "INSERT"}', b'{"type": "INSERT", "data": [{"id": 5}]}']
