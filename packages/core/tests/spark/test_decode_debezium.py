"""What `decode` makes of Debezium's envelopes: those in `debezium/` are the real engine's."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from mainstem.errors import DocumentError
from mainstem.plan.build import make_plan

RECORDED = Path(__file__).parent / "debezium"
SCHEMA = (
    "id BIGINT NOT NULL, name STRING NOT NULL, price DECIMAL(10,2), born DATE, at TIMESTAMP, "
    "zoned TIMESTAMP, good BOOLEAN, ratio DOUBLE, raw BINARY, extra VARIANT"
)
NULLS = dict.fromkeys(("price", "born", "at", "zoned", "good", "ratio", "extra"))
FIRST = {
    "id": 1, "name": "there before", "price": 1.10, "born": "2024-02-29",
    "at": "2024-02-29T01:02:03.456789Z", "zoned": "2024-02-29T01:02:03.456789Z",
    "good": True, "ratio": 0.5, "extra": {"a": [1, None]},
}  # fmt: skip
SECOND = {
    "id": 2, "name": "grüße 🎉", "price": -12.34, "born": "1969-12-31",
    "at": "1969-12-31T23:59:59.500000Z", "zoned": "1970-01-02T00:00:00.000000Z",
    "good": False, "ratio": 1e300, "extra": "text",
}  # fmt: skip
CHANGED = {**SECOND, "name": "changed", "price": 99999999.99, "at": None}
THIRD, FOURTH = {**NULLS, "id": 3, "name": "nulls"}, {**NULLS, "id": 4, "name": "nulls"}
AGAIN = {**NULLS, "id": 1, "name": "again"}
#: What happened to the table, as a changelog with pre-images tells it.
HAPPENED = [
    ("insert", FIRST), ("insert", SECOND), ("insert", THIRD),
    ("update_preimage", SECOND), ("update_postimage", CHANGED),
    ("delete", THIRD), ("insert", FOURTH), ("delete", FIRST), ("insert", AGAIN), ("delete", FOURTH),
]  # fmt: skip


def document(**options):
    given = {"format": "debezium-json", "schema": SCHEMA, "key": ["id"], **options}
    return {
        "pipeline": "changes",
        "sources": {"log": {"use": "files", "with": {"path": "./in", "format": "message"}}},
        "operators": {"things": {"use": "decode", "from": "log", "with": given}},
        "sinks": {
            "out": {"use": "console", "from": "things"},
            "bad": {"use": "console", "from": "things.rejected"},
        },
    }


def recorded(name):
    return [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text().splitlines()]


def changed(rows):
    """Return what rows say, without the columns that are looked at elsewhere."""
    hidden = ("raw", "position")
    plain = [
        {n: v for n, v in row.items() if n not in hidden and not n.startswith("_")} for row in rows
    ]
    return [(row["_change_type"], it) for row, it in zip(rows, plain, strict=True)]


def ordered(rows):
    return sorted(
        rows, key=lambda r: (r["_commit_version"], r["_change_type"] != "update_preimage")
    )


@pytest.mark.in_turn
def test_changes_come_out_as_they_were_made(trial):
    """Pass: the real engine's envelopes, schemas in them, tell each change with the row before it."""
    made = trial(document())
    messages = recorded("postgres-full")
    made.feed("log", messages)
    made.batch()
    rows = ordered(made.rows("out"))
    assert changed(rows) == HAPPENED
    assert rows[0]["raw"] == "AP8="
    assert [row["reason"] for row in made.rows("bad")] == ["op t changes no row"]
    at = json.loads(messages[0]["value"])["payload"]["source"]["ts_ms"]
    assert datetime.fromisoformat(rows[0]["_commit_timestamp"]).timestamp() * 1000 == at
    before, after = rows[3:5]
    assert before["_commit_version"] == after["_commit_version"] == after["position"]


@pytest.mark.in_turn
def test_without_preimages_the_key_is_enough(trial):
    """Pass: what PostgreSQL leaves out by default is missed by nobody; a tombstone deletes too."""
    made = trial(document(preimages=False))
    made.feed("log", recorded("postgres-default"))
    made.batch()
    expected = []
    for kind, row in HAPPENED:
        if kind == "delete":
            expected += [(kind, {**dict.fromkeys(row), "id": row["id"]})] * 2
        elif kind != "update_preimage":
            expected.append((kind, row))
    assert changed(ordered(made.rows("out"))) == expected
    assert made.rows("bad") == []


@pytest.mark.in_turn
def test_updates_without_the_state_before_are_refused(trial):
    """Pass: with what to do about it; nothing else is."""
    made = trial(document())
    made.feed("log", recorded("postgres-default"))
    made.batch()
    reasons = [row["reason"] for row in made.rows("bad")]
    assert reasons == ["no state before: set the table's REPLICA IDENTITY to FULL"]
    kinds = [kind for kind, _ in changed(ordered(made.rows("out")))]
    assert kinds == [kind for kind, _ in HAPPENED if not kind.startswith("update")]


def envelope(op="c", before=None, after=None, **more):
    return json.dumps({"op": op, "before": before, "after": after, "ts_ms": 5, **more})


GOOD_ROW = {"id": 1, "name": "n"}
REFUSED = {
    "nope": "not JSON",
    "[1]": "no JSON object",
    "": "the value is empty",
    envelope(after=GOOD_ROW) + " x": "more text after the JSON value",
    '{"id": 1, "name": "n"}': "no envelope: it has no op",
    '{"payload": {"id": 1}}': "no envelope: it has no op",
    envelope("m"): "op m changes no row",
    envelope(): "op c without after",
    envelope("u", GOOD_ROW): "op u without after",
    envelope("u", after=GOOD_ROW): "no state before: set the table's REPLICA IDENTITY to FULL",
    envelope("d"): "no state before: set the table's REPLICA IDENTITY to FULL",
    envelope(after={"id": None, "name": "n"}): "id is null",
    envelope(after={"id": 1}): "name is null",
    envelope("d", {"id": 1}): "name is null",
    envelope(after={**GOOD_ROW, "price": "AMg="}): "price is no DECIMAL(10,2)",
    envelope(after={**GOOD_ROW, "price": "123456789.00"}): "price is no DECIMAL(10,2)",
    envelope(after={**GOOD_ROW, "born": "soon"}): "born is no DATE",
    envelope(after={**GOOD_ROW, "at": "12 o'clock"}): "at is no TIMESTAMP",
    envelope(after={**GOOD_ROW, "extra": "{"}): "extra is no VARIANT",
    envelope(after={**GOOD_ROW, "born": 10**18}): "born is beyond the years 1 to 9999",
    envelope(after={**GOOD_ROW, "born": 2_932_897}): "born is beyond the years 1 to 9999",
    envelope(after={**GOOD_ROW, "at": "12:00:00Z"}): "at is no TIMESTAMP",
    envelope(after={**GOOD_ROW, "at": "+12024-01-01T00:00:00Z"}): "at is no TIMESTAMP",
    envelope(after={**GOOD_ROW, "at": 10**18}): "at is beyond the years 1 to 9999",
    envelope(after={**GOOD_ROW, "at": -(10**30)}): "at is no TIMESTAMP",
    envelope(after={**GOOD_ROW, "ratio": "x", "good": 3}): "good is no BOOLEAN, ratio is no DOUBLE",
    envelope("u", {"id": 1, "name": 5}, {**GOOD_ROW, "id": "x"}): "id is no BIGINT",
    envelope("u", GOOD_ROW, {"id": 1, "name": "__debezium_unavailable_value"}):
        "name is not in the message: set the table's REPLICA IDENTITY to FULL",
}  # fmt: skip


@pytest.mark.in_turn
def test_what_is_no_envelope_is_refused_with_its_reason(trial):
    """Pass: each bad message is refused with the reason that the table above gives, whole."""
    made = trial(document())
    made.feed("log", [{"value": text} for text in REFUSED])
    made.batch()
    assert made.rows("out") == []
    assert {row["payload"]: row["reason"] for row in made.rows("bad")} == REFUSED


@pytest.mark.in_turn
def test_messages_that_tell_only_a_key_need_it(trial):
    """Pass: a deletion takes the key from the message's key, and is refused if there is none."""
    made = trial(document(preimages=False))
    messages = [
        {"key": '{"id": 7}', "value": None},
        {"key": '{"schema": {}, "payload": {"id": 8}}', "value": envelope("d")},
        {"key": '{"other": 7}', "value": None},
        {"key": None, "value": None},
        {"key": "7", "value": envelope("d")},
    ]
    made.feed("log", messages)
    made.batch()
    assert [(kind, row["id"]) for kind, row in changed(ordered(made.rows("out")))] == [
        ("delete", 7), ("delete", 8),
    ]  # fmt: skip
    no_key = "no value, and the key has no id"
    assert [row["reason"] for row in made.rows("bad")] == [no_key, no_key, "id is null"]


@pytest.mark.in_turn
def test_numbers_in_times_count_what_the_document_says(trial):
    """Pass: milliseconds are read as such, before 1970 too, to the last of the year 9999; what is text is
    read as text. A number beyond is refused, and a strange time of the change is left out."""
    made = trial(document(timestamp_unit="millis"))
    times = [-1500, "2024-05-06T07:08:09Z", 253_402_300_799_999, 253_402_300_800_000, 10**17]
    rows = [{**GOOD_ROW, "id": n, "at": at} for n, at in enumerate(times)]
    made.feed("log", [{"value": envelope(after=row, source={"ts_ms": 2**63 - 1})} for row in rows])
    made.batch()
    found = ordered(made.rows("out"))
    assert [row["at"] for row in found] == [
        "1969-12-31T23:59:58.500000Z", "2024-05-06T07:08:09.000000Z", "9999-12-31T23:59:59.999000Z",
    ]  # fmt: skip
    assert {row["_commit_timestamp"] for row in found} == {None}
    assert [row["reason"] for row in made.rows("bad")] == ["at is beyond the years 1 to 9999"] * 2


@pytest.mark.in_turn
def test_deletions_that_tell_the_key_alone_fit_the_shape(trial):
    """Pass: columns that must have a value may be null where only the key is told, also by a key that is
    called as the part of an envelope is."""
    options = {"schema": "payload BIGINT NOT NULL, name STRING NOT NULL", "key": ["payload"]}
    made = trial(document(preimages=False, **options))
    whole = make_plan(document(preimages=False, **options)).nodes["things"].shape
    assert [(c.name, c.nullable) for c in whole.columns[:2]] == [("payload", False), ("name", True)]
    keys = ['{"payload": 7}', '{"schema": {}, "payload": {"payload": 8}}']
    made.feed("log", [{"key": key, "value": None} for key in keys])
    made.batch()
    assert [(row["payload"], row["name"]) for row in ordered(made.rows("out"))] == [
        (7, None), (8, None),
    ]  # fmt: skip


@pytest.mark.in_turn
def test_whether_anybody_reads_the_refused_changes_nothing_else(pipeline):
    """Pass: with `on_rejected: drop` the same rows come out, deletions without a value among them."""
    given = document(preimages=False)["operators"]
    given["things"] |= {"from": "lines", "on_rejected": "drop"}
    # Lines have no key: deletions that tell it are needed.
    given["keyed"] = {
        "use": "sql",
        "from": "lines",
        "with": {
            "query": "SELECT * EXCEPT (key, value), CAST('{\"id\": 9}' AS BINARY) AS key, "
            "IF(value = CAST('null' AS BINARY), NULL, value) AS value FROM input",
            "schema": "key BINARY, value BINARY, headers MAP<STRING, BINARY>, timestamp TIMESTAMP, "
            "origin STRING, partition STRING, position STRING",
            "row_wise": True,
        },
    }
    given["things"]["from"] = "keyed"
    pipeline.document(operators=given, sinks={"out": pipeline.sink("out", "things")})
    pipeline.feed("1", ["null", "nope", envelope(after=GOOD_ROW)])
    pipeline.run()
    kinds = [(row["_change_type"], row["id"]) for row in ordered(pipeline.rows("out"))]
    assert kinds == [("delete", 9), ("insert", 1)]


@pytest.mark.in_turn
def test_another_column_can_be_the_sequence(trial):
    """Pass: one that is kept from the message, and the position is then not added."""
    made = trial(document(keep={"lsn": "CAST(headers['lsn'] AS STRING)"}, sequence="lsn"))
    made.feed("log", [{"value": envelope(after=GOOD_ROW), "headers": {"lsn": "0042"}},
                      {"value": envelope(after=GOOD_ROW)}])  # fmt: skip
    made.batch()
    (row,) = made.rows("out")
    assert (row["lsn"], row["_commit_version"], "position" in row) == ("0042", "0042", False)
    assert [row["reason"] for row in made.rows("bad")] == ["lsn is null"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": None}, "needs a `key`"),
        ({"key": ["nope"]}, "there is no column 'nope'"),
        ({"schema": None}, "debezium-json needs a `schema`"),
        ({"sequence": "id"}, "'id' is not kept"),
        ({"schema": "id BIGINT, position STRING"}, "no `position` to keep"),
        ({"types": "null"}, "unknown key 'types'"),
        ({"extra": "reject"}, "unknown key 'extra'"),
        ({"tombstones": "null"}, "is not for debezium-json"),
        ({"format": "json"}, "unknown key 'key'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words):
    """Pass: before anything runs, in the document's terms."""
    given = {
        name: value
        for name, value in {**document()["operators"]["things"]["with"], **options}.items()
        if value is not None
    }
    wrong = document()
    wrong["operators"]["things"]["with"] = given
    with pytest.raises(DocumentError, match=words):
        make_plan(wrong)


MYSQL_SCHEMA = (
    "id BIGINT NOT NULL, name STRING NOT NULL, price DECIMAL(10,2), born DATE, at3 TIMESTAMP, "
    "at6 TIMESTAMP, stamp TIMESTAMP, good SMALLINT, ratio DOUBLE, raw BINARY, kind STRING, extra VARIANT"
)
MYSQL_NULLS = dict.fromkeys(
    ("price", "born", "at3", "at6", "stamp", "good", "ratio", "kind", "extra")
)  # fmt: skip
MYSQL_FIRST = {
    "id": 1, "name": "there before", "price": 1.10, "born": "2024-02-29",
    "at3": "2024-02-29T01:02:03.456000Z", "at6": "2024-02-29T01:02:03.456789Z",
    "stamp": "2024-02-29T01:02:03.456789Z", "good": 1, "ratio": 0.5, "kind": "a", "extra": {"a": [1, None]},
}  # fmt: skip
MYSQL_SECOND = {
    "id": 2, "name": "grüße 🎉", "price": -12.34, "born": "1969-12-31",
    "at3": "1969-12-31T23:59:59.500000Z", "at6": "1969-12-31T23:59:59.500000Z",
    "stamp": "1970-01-02T00:00:00.000000Z", "good": 0, "ratio": 1e300, "kind": "b", "extra": "text",
}  # fmt: skip
MYSQL_CHANGED = {**MYSQL_SECOND, "name": "changed", "price": 99999999.99, "at6": None}
MYSQL_THIRD, MYSQL_FOURTH = ({**MYSQL_NULLS, "id": n, "name": "nulls"} for n in (3, 4))
MYSQL_AGAIN = {**MYSQL_NULLS, "id": 1, "name": "again"}
MYSQL_HAPPENED = [
    ("insert", MYSQL_FIRST), ("insert", MYSQL_SECOND), ("insert", MYSQL_THIRD),
    ("update_preimage", MYSQL_SECOND), ("update_postimage", MYSQL_CHANGED),
    ("delete", MYSQL_THIRD), ("insert", MYSQL_FOURTH), ("delete", MYSQL_FIRST), ("insert", MYSQL_AGAIN), ("delete", MYSQL_FOURTH),
]  # fmt: skip
#: What a converter without schemas can't tell: all times are milliseconds, decimals are text.
MYSQL_TOLD = {"timestamp_unit": "millis", "plain_decimals": True}


def rows_of(trial, name, **options):
    """Return the changes that came out, in the order of their versions, and the refused messages."""
    made = trial(document(**{"schema": MYSQL_SCHEMA, **options}))
    made.feed("log", recorded(name))
    made.batch()
    return ordered(made.rows("out")), made.rows("bad")


@pytest.mark.parametrize("server", ["mysql", "mariadb"])
@pytest.mark.in_turn
def test_units_and_decimals_come_from_the_messages_own_schema(trial, server):
    """Pass: DATETIME(3) beside DATETIME(6), bytes of decimals, and the row before each change."""
    rows, bad = rows_of(trial, f"{server}-precise")
    assert bad == []
    assert changed(rows) == MYSQL_HAPPENED
    assert rows[0]["raw"] == "AP8="


@pytest.mark.parametrize("server", ["mysql", "mariadb"])
@pytest.mark.in_turn
def test_without_a_schema_the_options_say_it(trial, server):
    """Pass: what the connector has cut to milliseconds is milliseconds; nothing else is lost."""
    rows, bad = rows_of(trial, f"{server}-plain", **MYSQL_TOLD)
    assert bad == []
    cut = {"at6": "2024-02-29T01:02:03.456000Z"}
    expected = [
        (kind, {**row, **(cut if row == MYSQL_FIRST else {})}) for kind, row in MYSQL_HAPPENED
    ]
    assert changed(rows) == expected


@pytest.mark.parametrize("server", ["mysql", "mariadb"])
@pytest.mark.in_turn
def test_without_a_schema_each_column_has_a_unit_of_its_own(trial, server):
    """Pass: schemas taken from the engine's envelopes, DATETIME(3) counts millis and DATETIME(6) micros."""
    bare = [
        {
            **message,
            "value": message["value"] and json.dumps(json.loads(message["value"])["payload"]),
        }
        for message in recorded(f"{server}-precise")
    ]
    schema = MYSQL_SCHEMA.replace("price DECIMAL(10,2), ", "")  # bytes without a scale
    made = trial(document(schema=schema, timestamp_unit={"at3": "millis"}))
    made.feed("log", [{**message, "key": None} for message in bare])
    made.batch()
    expected = [
        (kind, {n: v for n, v in row.items() if n != "price"}) for kind, row in MYSQL_HAPPENED
    ]
    assert changed(ordered(made.rows("out"))) == expected


def test_a_unit_of_a_column_that_is_not_there_is_refused():
    """Pass: named, with the nearest one."""
    with pytest.raises(DocumentError, match="timestamp_unit") as refusal:
        make_plan(document(timestamp_unit={"att": "millis"}))
    assert "at" in str(refusal.value)
