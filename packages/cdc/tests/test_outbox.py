"""The operator `outbox`: the standard tests of operators, and what becomes of each kind of row."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from mainstem import Changelog, Inputs, OptionError
from mainstem_cdc.outbox import Outbox, OutboxOptions
from mainstem_testkit import OperatorSuite

COLUMNS = "id STRING, aggregatetype STRING, aggregateid BIGINT, type STRING, payload STRING"


class TestOutbox(OperatorSuite):
    use = "outbox"
    inputs = {"input": COLUMNS}

    def options(self):
        return {}


def made(spark, rows, columns=COLUMNS, **options):
    """Return what becomes of changes: rows of values, each behind its kind."""
    shape = Changelog(columns, key=["id"], sequence="_commit_version", sequence_type="string")
    operator = Outbox(OutboxOptions(**options))
    inputs = Inputs(input=shape)
    operator.shape(inputs)
    schema = f"_change_type STRING, _commit_version STRING, _commit_timestamp TIMESTAMP, {columns}"
    at = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    frame = spark.createDataFrame([(kind, "1", at, *row) for kind, *row in rows], schema)
    return operator.apply(Inputs(input=frame), SimpleNamespace(shapes=inputs)).collect()


def test_an_insert_is_a_message(spark):
    """Pass: value, key, headers, time of the commit, and where it goes; null headers are left out."""
    rows = [
        ("insert", "a", "orders", 7, "created", '{"é": 1}'),
        ("insert", "b", "stock", None, None, None),
    ]
    one, two = made(spark, rows)
    assert (bytes(one.key), bytes(one.value)) == (b"7", '{"é": 1}'.encode())
    assert (one.origin, one.id, one._output) == ("outbox.event.orders", "a", None)
    assert {k: bytes(v) for k, v in one.headers.items()} == {"id": b"a", "type": b"created"}
    assert one.timestamp.timestamp() == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC).timestamp()
    assert (two.key, two.value, two.origin) == (None, None, "outbox.event.stock")
    assert list(two.headers) == ["id"]


def test_what_is_no_insert(spark):
    """Pass: deletes and rows as they were before are left out; a changed row, and one without id or route, is refused."""
    rows = [
        ("delete", "a", None, None, None, None),
        ("update_preimage", "b", "orders", 1, "x", "y"),
        ("update_postimage", "b", "orders", 1, "x", "z"),
        ("insert", None, "orders", 1, "x", "z"),
        ("insert", "c", None, 1, "x", "z"),
    ]
    found = made(spark, rows)
    assert [row._output for row in found] == ["rejected"] * 3
    assert [row._rejected.reason for row in found] == [
        "a row of an outbox was changed", "id is null", "aggregatetype is null",
    ]  # fmt: skip
    assert json.loads(bytes(found[0]._rejected.payload))["payload"] == "z"


def test_columns_of_other_names(spark):
    """Pass: bytes as payload, a time of its own, no key, another prefix, further headers."""
    columns = "id BIGINT, topic STRING, body BINARY, made TIMESTAMP, trace STRING"
    at = datetime(2020, 1, 1, tzinfo=UTC)
    (row,) = made(
        spark, [("insert", 5, "t", b"\xff\x00", at, "abc")], columns,
        route="topic", key=None, payload="body", timestamp="made", prefix="", headers={"trace": "trace"},
    )  # fmt: skip
    assert (row.key, bytes(row.value), row.origin, row.id) == (None, b"\xff\x00", "t", "5")
    assert {k: bytes(v) for k, v in row.headers.items()} == {"id": b"5", "trace": b"abc"}
    assert row.timestamp.timestamp() == at.timestamp()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"payload": "nothing"}, "nothing"),
        ({"payload": "aggregateid"}, "a payload is text or bytes, and not bigint"),
        ({"headers": {"x": "nothing"}}, "nothing"),
        ({"route": "nothing"}, "nothing"),
    ],
)
def test_columns_that_are_not_there_are_told(options, told):
    """Pass: before anything runs."""
    operator = Outbox(OutboxOptions(**options))
    with pytest.raises(OptionError, match=told):
        operator.shape(Inputs(input=Changelog(COLUMNS, key=["id"], sequence="_commit_version")))
