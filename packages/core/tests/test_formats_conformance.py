"""The formats of the core pass the standard tests."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
from mainstem_testkit import FormatSuite
from pyarrow import parquet

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


def table(rows, kinds, write):
    """Return rows as a file's bytes."""
    sink = pa.BufferOutputStream()
    write(pa.Table.from_pylist(rows, pa.schema(kinds)), sink)
    return sink.getvalue().to_pybytes()


def stream(rows, sink):
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)


def file(rows, sink):
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=1)


KINDS = [
    ("id", pa.int32()), ("name", pa.dictionary(pa.int32(), pa.string())), ("price", pa.decimal128(8, 2)),
    ("ratio", pa.float32()), ("at", pa.timestamp("ms", "Europe/Oslo")), ("day", pa.date64()),
    ("raw", pa.large_binary()), ("more", pa.struct([("b", pa.large_list(pa.string()))])), ("rest", pa.int8()),
]  # fmt: skip
ROWS = [
    {**FULL, "at": AT.replace(microsecond=456000), "more": {"b": ["x", None]}, "rest": 1},
    {"id": 2, "more": {"b": None}},
    {"id": 3},
]
READ = [
    {**FULL, "at": AT.replace(microsecond=456000), "more": {"a": None, "b": ["x", None]}},
    {"id": 2, "more": {"a": None, "b": None}},
    {"id": 3},
]


class Tables(FormatSuite):
    schema = f"{ROW}, more STRUCT<a: INT, b: ARRAY<STRING>>"
    wrong_options = {"missing": {"missing": "sometimes"}}
    writers = ()

    def good(self):
        return [
            *((table(ROWS, KINDS, write), READ) for write in self.writers),
            (table([{"id": 1}], [("id", pa.int64())], self.writers[0]), [{"id": 1}]),
            (table([], KINDS, self.writers[0]), []),
        ]

    def bad(self):
        def one(value, kind, name="id"):
            return table(
                [{"id": 1, name: value}], {"id": pa.int64(), name: kind}.items(), self.writers[0]
            )

        far = 253_402_300_800_000_000
        return [
            b"", b"PAR1", b"ARROW1", table(ROWS, KINDS, self.writers[0])[:-9], one(None, pa.int64()),
            one(2**63, pa.uint64()), one("1", pa.string()), one(1.0, pa.float64()), one(1, pa.int64(), "name"),
            one(Decimal("1.234"), pa.decimal128(9, 3), "price"), one(far, pa.timestamp("us", "UTC"), "at"),
            one(datetime(2024, 1, 1), pa.timestamp("us"), "at"), one({"b": [1]}, pa.struct([("b", pa.list_(pa.int64()))]), "more"),
            one({"a": "1"}, pa.struct([("a", pa.string())]), "more"), one("x", pa.string(), "raw"),
            table([{"name": "x"}], [("name", pa.string())], self.writers[0]),
        ]  # fmt: skip


class TestParquet(Tables):
    use = "parquet"
    writers = (parquet.write_table,)


class TestArrow(Tables):
    use = "arrow"
    writers = (stream, file)


del Tables


class TestAnyJson(FormatSuite):
    use = "json"

    def good(self):
        return [(each, {"value": each.decode()}) for each in (b"1", b'{"a": [1, "x"]}', b'"text"')]

    def bad(self):
        return [b"", b"{", b"nul"]


class TestJsonTypes(FormatSuite):
    use = "json"
    wrong_options = {"schemas": {"by_type": {"field": "kind"}}}

    def options(self):
        schemas = {
            "placed": "id BIGINT NOT NULL, at TIMESTAMP, tags ARRAY<STRING>",
            "paid": "id BIGINT, kind STRING, any VARIANT",
        }
        names = {"paid": "com.example.Paid"}
        return {"by_type": {"field": "kind", "schemas": schemas, "names": names}, "extra": "reject"}  # fmt: skip

    def good(self):
        return [
            (b'{"kind": "placed", "id": 1, "at": "2024-02-29T01:02:03.456789Z", "tags": ["x", null]}',
             {"placed": {"id": 1, "at": AT, "tags": ["x", None]}}),
            (b'{"id": 2, "any": [1], "kind": "com.example.Paid"}',
             {"paid": {"id": 2, "kind": "com.example.Paid", "any": "[1]"}}),
        ]  # fmt: skip

    def bad(self):
        return [
            b"", b"{", b"[]", b"{}", b'{"kind": "paid"}', b'{"kind": null}', b'{"kind": 1}', b'{"kind": "placed"}',
            b'{"kind": "placed", "id": "1"}', b'{"kind": "placed", "id": 1, "city": "Oslo"}',
        ]  # fmt: skip


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


class TestXml(FormatSuite):
    use = "xml"
    schema = ROW

    def good(self):
        one = (
            '<?xml version="1.0" encoding="utf-8"?><!-- a --><row id=" 1 "><name>gr&#252;ße</name><price>1.50</price>'
            "<ratio>0.25</ratio><at>2024-02-29T01:02:03.456789Z</at><day>2024-02-29</day><raw>AAH/</raw><more/></row>"
        )
        return [
            (one.encode(), FULL),
            ('<?xml version="1.0" encoding="utf-16"?><a id="2"/>'.encode("utf-16"), {"id": 2}),
            (b"<x:a xmlns:x='urn:a'><x:id>3</x:id><name> </name><price/></x:a>", {"id": 3, "name": " "}),
            (b"<a id='4'><name><![CDATA[<b>]]></name></a>", {"id": 4, "name": "<b>"}),
        ]  # fmt: skip

    def bad(self):
        return [
            b"", b" ", b"<a/>", b"<a id='1'>", b"<a id='x'/>", b"<a id='1'><id>1</id></a>", b"<a id='1'/><b/>",
            b"<a id='1'><name>x</name><name>y</name></a>", b"<a id='1'><name><b/></name></a>", b"x", b"<a id='1'>&b;</a>",
            b"<!DOCTYPE a [<!ENTITY b 'c'>]><a id='1'>&b;</a>", b"<?xml version='1.0' encoding='none'?><a id='1'/>",
            b"<a id='1'><name>\xff</name></a>", b"<b:a id='1'/>", b"<a id='1' xmlns:n='n' n:id='2'/>",
        ]  # fmt: skip


class TestXmlRows(FormatSuite):
    """Elements of a name are the rows."""

    use = "xml"
    schema = "id INT NOT NULL, part ARRAY<STRUCT<name: STRING, value: INT>>"
    wrong_options = {"row": {"row": ""}}

    def options(self):
        return {"row": "a", "missing": "null", "extra": "reject"}

    def good(self):
        two = (
            b"<all><in><a id='1'><part name='x'>5</part><part/></a></in>text<a><id>2</id></a></all>"
        )
        parts = [{"name": "x", "value": 5}, {"name": None, "value": None}]
        return [
            (two, [{"id": 1, "part": parts}, {"id": 2}]),
            (b"<all/>", []),
            (b"<a id='3'/>", [{"id": 3}]),
        ]

    def bad(self):
        return [
            b"",
            b"<all><a id='1'/><a/></all>",
            b"<all><a id='1'/>",
            b"<a id='1' more=''/>",
            b"<a id='1'><a/></a>",
        ]


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
