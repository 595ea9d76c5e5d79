"""What `decode` makes of every kind of good and bad value."""

from __future__ import annotations

import base64
import json

import pytest

SCHEMA = "n BIGINT NOT NULL, s STRING, d DOUBLE, t TIMESTAMP, a ARRAY<INT>, o STRUCT<x: INT>"

GOOD = {
    '{"n":1,"s":"x","d":0.5,"t":"2013-01-01T05:00:00Z","a":[1,2],"o":{"x":3}}': {
        "n": 1, "s": "x", "d": 0.5, "t": "2013-01-01T05:00:00.000000Z", "a": [1, 2], "o": {"x": 3},
    },
    '{"n":2}': {"n": 2},
    '{"n":3,"more":{"deep":1}}': {"n": 3},
    '  {"n":4}\t ': {"n": 4},
    '{"n":5,"s":"}{"}': {"n": 5, "s": "}{"},
    '{"n":6,"s":"ü 漢字 🎉"}': {"n": 6, "s": "ü 漢字 🎉"},
    '{"n":9223372036854775807}': {"n": 9223372036854775807},
    '{"n":8,"o":{"x":1},"s":"]}"}': {"n": 8, "o": {"x": 1}, "s": "]}"},
}  # fmt: skip
BAD = {
    b"nope": "not JSON",
    b'{"n":1': "not JSON",
    b"{'n':1}": "not JSON",
    b'{"n":NaN}': "not JSON",
    b'{"n":1,}': "not JSON",
    b"null}": "more text after the JSON value",
    b'{"n":1}\xe2\x80\xa8': "more text after the JSON value",
    b'[{"n":1}]': "no JSON object",
    b"[1]": "no JSON object",
    b"5": "no JSON object",
    b"null": "no JSON object",
    b"   ": "the value is empty",
    b'{"s":"no n"}': "n is null",
    b'{"n":null}': "n is null",
    b'{"n":"1"}': "n is no BIGINT",
    b'{"n":1.5}': "n is no BIGINT",
    b'{"n":9223372036854775808}': "n is no BIGINT",
    b'{"n":1,"t":"soon","d":"x"}': "d is no DOUBLE, t is no TIMESTAMP",
    b'{"n":1,"o":5}': "o is no STRUCT<X:INT>",
    b'{"n":1} x': "more text after the JSON value",
    b'{"n":1}{"n":2}': "more text after the JSON value",
    b'{"n":1} x}': "more text after the JSON value",
    b'{"n":1}] }': "more text after the JSON value",
    b'{"n":1}} ]': "more text after the JSON value",
    b'{"n":1,"o":{"x":1}},{"n":2}': "more text after the JSON value",
    b'{"n":1,"s":"\xff\xfe"}': "not UTF-8",
}


def decode(schema: object, **options: object) -> dict[str, object]:
    given = {"format": "json", **({"schema": schema} if schema else {}), **options}
    return {"use": "decode", "from": "lines", "with": given}


@pytest.mark.in_turn
def test_every_good_row_becomes_columns_and_every_bad_one_is_rejected_with_its_reason_and_bytes(
    pipeline,
):
    """Pass: good and bad values come out as the tables above say, and none is missing."""
    pipeline.document(
        operators={"row": decode(SCHEMA)},
        sinks={"out": pipeline.sink("out", "row"), "bad": pipeline.sink("bad", "row.rejected")},
    )
    pipeline.feed("1.jsonl", b"".join(text.encode() + b"\n" for text in GOOD))
    pipeline.feed("2.jsonl", b"".join(text + b"\n" for text in BAD))
    pipeline.run()
    by_n = {row["n"]: row for row in pipeline.rows("out")}
    assert by_n == {row["n"]: row for row in GOOD.values()}
    rejected = pipeline.rows("bad")
    assert {base64.b64decode(row["payload"]): row["reason"] for row in rejected} == BAD
    assert {row["node"] for row in rejected} == {"row"}
    assert len({row["_id"] for row in rejected}) == len(BAD)


@pytest.mark.in_turn
def test_rows_refused_unread_are_counted_as_those_that_are_read(pipeline):
    """Pass: dropped by choice, the same rows are refused, and source rows are counted in full."""
    pipeline.document(
        operators={"row": {**decode(SCHEMA), "on_rejected": "drop"}},
        sinks={"out": pipeline.sink("out", "row")},
    )
    pipeline.feed("1.jsonl", b"".join(text.encode() + b"\n" for text in GOOD))
    pipeline.feed("2.jsonl", b"".join(text + b"\n" for text in BAD))
    query = pipeline.run()["queries"]["lines"]
    assert query["nodes"]["row"] == {"rows": len(GOOD), "rejected": len(BAD)}
    assert query["nodes"]["lines"] == {"rows": len(GOOD) + len(BAD)}
    assert query["rows_in"] == len(GOOD) + len(BAD)
    assert {row["n"] for row in pipeline.rows("out")} == {row["n"] for row in GOOD.values()}


@pytest.mark.in_turn
def test_options_say_how_strict_it_is(pipeline):
    """Pass: missing and unknown fields are refused, other types become null, as asked."""
    pipeline.document(
        operators={
            "strict": decode("a INT, b INT", missing="reject", extra="reject"),
            "loose": decode("a INT, b INT", types="null"),
        },
        sinks={
            "out": pipeline.sink("out", "strict"),
            "bad": pipeline.sink("bad", "strict.rejected"),
            "loose_out": pipeline.sink("loose_out", "loose"),
            "loose_bad": pipeline.sink("loose_bad", "loose.rejected"),
        },
    )
    pipeline.feed(
        "1.jsonl", ['{"a":1,"b":2}', '{"a":1}', '{"a":1,"b":2,"c":3}', '{"a":"x","b":9}', "no"]
    )
    pipeline.run()
    assert pipeline.rows("out") == [{"a": 1, "b": 2}]
    assert sorted(row["reason"] for row in pipeline.rows("bad")) == [
        "a is no INT", "missing: b", "not JSON", "unknown: c",
    ]  # fmt: skip
    assert {"b": 9} in pipeline.rows("loose_out")
    assert len(pipeline.rows("loose_out")) == 4
    assert [row["reason"] for row in pipeline.rows("loose_bad")] == ["not JSON"]


@pytest.mark.in_turn
def test_without_a_schema_json_becomes_a_variant_and_keep_adds_message_data(pipeline):
    """Pass: any JSON value is taken, its parts can be read, and the position is kept."""
    pipeline.document(
        operators={
            "doc": decode(None, into="doc", keep={"at": "position", "size": "octet_length(value)"}),
            "parts": {
                "use": "select",
                "from": "doc",
                "with": {
                    "columns": {
                        "a": "try_variant_get(doc, '$.a', 'string')",
                        "at": "at",
                        "size": "size",
                    }
                },
            },
        },
        sinks={"out": pipeline.sink("out", "parts"), "bad": pipeline.sink("bad", "doc.rejected")},
    )
    pipeline.feed("1.jsonl", ['{"a":"x"}', "[1]", "5", "{", "5 5"])
    pipeline.run()
    rows = sorted(pipeline.rows("out"), key=lambda row: row["at"])
    assert rows == [
        {"a": "x", "at": "000000000000000.0000000000", "size": 9},
        {"at": "000000000000000.0000000001", "size": 3},
        {"at": "000000000000000.0000000002", "size": 1},
    ]
    assert sorted(row["reason"] for row in pipeline.rows("bad")) == [
        "more text after the JSON value", "not JSON",
    ]  # fmt: skip


@pytest.mark.in_turn
def test_without_a_schema_nothing_may_follow_the_value(pipeline):
    """Pass: one JSON value of any kind is taken, two are not, whatever the first is."""
    good = ['"x"', "[1,2]", "5", '{"a":1}', '{"a":{"b":1}} ']
    bad = ['"x" junk}', "[1,2] junk }", "5 }", "null }", '{"a":1} {', '{"a":1}}']
    pipeline.document(
        operators={"row": decode(None)},
        sinks={"out": pipeline.sink("out", "row"), "bad": pipeline.sink("bad", "row.rejected")},
    )
    pipeline.feed("1.jsonl", good + bad)
    pipeline.run()
    assert len(pipeline.rows("out")) == len(good)
    assert len(pipeline.rows("bad")) == len(bad)


@pytest.mark.in_turn
def test_csv_lines_are_split_and_checked(pipeline):
    """Pass: quoted values come through; too few, too many and wrong ones are rejected."""
    pipeline.document(
        operators={"row": decode("n INT, s STRING", format="csv", separator=";")},
        sinks={"out": pipeline.sink("out", "row"), "bad": pipeline.sink("bad", "row.rejected")},
    )
    pipeline.feed("1.csv", ["1;a", '2;"b;c"', "x;y", "3;a;b", "4"])
    pipeline.run()
    assert sorted(row["n"] for row in pipeline.rows("out")) == [1, 2]
    assert {"n": 2, "s": "b;c"} in pipeline.rows("out")
    assert len(pipeline.rows("bad")) == 3


@pytest.mark.in_turn
def test_a_schema_can_be_a_map_or_a_file(pipeline):
    """Pass: both give the columns that the text would."""
    (pipeline.folder / "row.ddl").write_text("a INT,\n b STRING")
    pipeline.document(
        operators={
            "one": decode({"a": "INT", "b": "STRING"}),
            "two": decode("file:row.ddl"),
        },
        sinks={"out": pipeline.sink("out", ["one", "two"]),
               "bad": pipeline.sink("bad", ["one.rejected", "two.rejected"])},
    )  # fmt: skip
    pipeline.feed("1.jsonl", [{"a": 1, "b": "x"}, "no"])
    pipeline.run()
    assert pipeline.rows("out") == [{"a": 1, "b": "x"}] * 2
    assert sorted(row["node"] for row in pipeline.rows("bad")) == ["one", "two"]


NUMBERS = {
    "json": {
        b'{"n":1,"p":1.50,"s":"1e99999"}': None,
        b'{"n":2,"p":1e3,"s":"\\u0065"}': None,
        b'{"n":3,"p":1e99999999}': "p is no DECIMAL(12,2)",
        b'{"n":4,"p":-1E+99999999}': "p is no DECIMAL(12,2)",
        b'{"n":5,"p":"1e99999999"}': "p is no DECIMAL(12,2)",
        rb'{"n":6,"p":"1\u006599999999"}': "p is no DECIMAL(12,2)",
        f'{{"n":7,"p":"1e{chr(0xFF19) * 8}"}}'.encode(): "p is no DECIMAL(12,2)",
        b'{"n":8,"deep":[{"x":1e99999999}]}': "deep is no ARRAY<STRUCT<X:DECIMAL(10,1)>>",
        b'{"n":9,"p":1e99999999,"p":1}': None,
        b'{"n":10,"p":1e99999999': "not JSON",
        b'{"n":11,"p":"' + b"9" * 3_000_000 + b'"}': "p is no DECIMAL(12,2)",
        b'{"n":12,"other":1e-99999999}': None,
    },
    "csv": {
        b"1,1.50,1e99999": None,
        b"2,1e99999999,a": "p is no DECIMAL(12,2)",
        b'3,"-1e-99999999",a': "p is no DECIMAL(12,2)",
        b"4," + b"9" * 3_000_000 + b",a": "p is no DECIMAL(12,2)",
    },
}


@pytest.mark.in_turn
def test_a_number_that_would_take_hours_to_reckon_out_is_refused(pipeline):
    """Pass: exponents of millions where a DECIMAL belongs are refused at once, however they are
    written; in other strings they are what they were."""
    schema = {"n": "BIGINT", "p": "DECIMAL(12,2)", "s": "STRING"}
    deep = {**schema, "deep": "ARRAY<STRUCT<x: DECIMAL(10,1)>>"}
    sources, operators, sinks = {}, {}, {}
    for kind, rows in NUMBERS.items():
        (pipeline.folder / kind).mkdir()
        (pipeline.folder / kind / "1").write_bytes(b"\n".join(rows) + b"\n")
        sources[f"{kind}_lines"] = {
            "use": "files",
            "with": {"path": f"./{kind}", "format": "message"},
        }
        given = {"format": kind, "schema": deep if kind == "json" else schema}
        given |= {"text_numbers": True} if kind == "json" else {}
        operators[kind] = {"use": "decode", "from": f"{kind}_lines", "with": given}
        sinks[f"{kind}_out"] = pipeline.sink(f"{kind}_out", kind)
        sinks[f"{kind}_bad"] = pipeline.sink(f"{kind}_bad", f"{kind}.rejected")
    pipeline.document(sources=sources, operators=operators, sinks=sinks)
    pipeline.run()
    for kind, rows in NUMBERS.items():
        bad = {
            base64.b64decode(row["payload"]): row["reason"] for row in pipeline.rows(f"{kind}_bad")
        }
        assert bad.keys() == {text for text, reason in rows.items() if reason}
        for text, reason in bad.items():
            assert reason == rows[text], text[:60]
        good = {row["n"]: row for row in pipeline.rows(f"{kind}_out")}
        assert len(good) == sum(reason is None for reason in rows.values())
        assert good[1]["p"] == 1.5
        assert good[1]["s"] == "1e99999"


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("given", "bad"),
    [
        ({"format": "json", "schema": "n BIGINT NOT NULL"}, "{}"),
        ({"format": "csv", "schema": "n BIGINT NOT NULL"}, "x"),
    ],
)
def test_a_message_without_a_value_can_stand_for_a_key_that_is_gone(trial, given, bad):
    """Pass: refused, if not said otherwise; else a row of nulls with what is kept, and what is wrong is still refused."""
    source = {"use": "files", "with": {"path": "./in", "format": "message"}}
    good = '{"n":1}' if given["format"] == "json" else "1"
    rows = [{"key": "a", "value": good}, {"key": "b", "value": None}, {"key": "c", "value": bad}]
    kept = {**given, "keep": {"k": "CAST(key AS STRING)"}}
    steps = {
        "strict": {"use": "decode", "from": "said", "with": kept},
        "lax": {"use": "decode", "from": "said", "with": {**kept, "tombstones": "null"}},
    }
    document = {
        "pipeline": "t",
        "sources": {"said": source},
        "operators": steps,
        "sinks": {f"{name}_out": {"use": "console", "from": name} for name in steps},
    }
    with trial(document, "strict", "lax", "strict.rejected", "lax.rejected") as tried:
        tried.feed("said", rows)
        tried.batch()
        assert tried.rows("strict") == [{"n": 1, "k": "a"}]
        assert sorted(r["reason"] for r in tried.rows("strict.rejected"))[-1] == "the value is null"
        assert [(r["n"], r["k"]) for r in tried.rows("lax")] == [(1, "a"), (None, "b")]
        assert len(tried.rows("lax.rejected")) == 1


@pytest.mark.in_turn
def test_what_sns_wraps_is_decoded(trial):
    """Pass: exactly as it was sent; what is no envelope, or has nothing that decodes, is refused as it came."""
    inner = '{"id": 7, "name": "é \\"x\\""}'
    wrapped = json.dumps({"Type": "Notification", "MessageId": "m", "Message": inner})
    bad = ["plain", "{}", json.dumps({"Message": "no json"})]
    given = {"format": "json", "envelope": "sns", "tombstones": "null"}
    given["schema"] = "id BIGINT, name STRING"
    document = {
        "pipeline": "t",
        "sources": {"said": {"use": "files", "with": {"path": "./in", "format": "message"}}},
        "operators": {"order": {"use": "decode", "from": "said", "with": given}},
        "sinks": {"out": {"use": "console", "from": "order"}},
    }
    with trial(document, "order", "order.rejected") as tried:
        tried.feed("said", [{"key": "a", "value": value} for value in (wrapped, *bad, None)])
        tried.batch()
        first, gone = tried.rows("order")
        assert (first["id"], first["name"]) == (7, 'é "x"')
        assert gone["id"] is None
        told = {r["payload"]: r["reason"] for r in tried.rows("order.rejected")}
    assert told.keys() == set(bad)
    assert told["plain"] == told["{}"] == "it is no envelope of SNS"
    assert "JSON" in told[bad[2]]


EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "/shop",
    "type": "placed",
    "time": "2024-02-29T01:02:03Z",
}


@pytest.mark.in_turn
def test_what_a_cloud_event_has_is_decoded(trial):
    """Pass: whole in a value or with attributes among headers, which expressions find; others are refused."""
    whole = json.dumps({**EVENT, "data": {"id": 7}})
    headers = {f"ce_{name}": value for name, value in {**EVENT, "id": "2"}.items()}
    given = {
        "format": "json", "envelope": "cloudevents", "schema": "id BIGINT",
        "keep": {"event": "attributes['id']", "kind": "attributes['type']", "size": "length(value)"},
    }  # fmt: skip
    document = {
        "pipeline": "t",
        "sources": {"said": {"use": "files", "with": {"path": "./in", "format": "message"}}},
        "operators": {"order": {"use": "decode", "from": "said", "with": given}},
        "sinks": {"out": {"use": "console", "from": "order"}},
    }
    with trial(document, "order", "order.rejected") as tried:
        values = [
            {"value": whole}, {"value": '{"id": 8}', "headers": headers}, {"value": "{}"},
            {"value": json.dumps({**EVENT, "data": "no"})}, {"value": None},
        ]  # fmt: skip
        tried.feed("said", [{"key": "a", **each} for each in values])
        tried.batch()
        rows = [(r["id"], r["event"], r["kind"], r["size"]) for r in tried.rows("order")]
        assert rows == [(7, "1", "placed", 9), (8, "2", "placed", 9)]
        told = {r["reason"] for r in tried.rows("order.rejected")}
    assert told == {
        "it is no CloudEvent: it has no specversion",
        "no JSON object",
        "the value is null",
    }
