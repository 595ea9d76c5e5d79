"""Values of Debezium's JSON envelopes: what stands for one that the log has not, and numbers that are none."""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pytest
from mainstem.contracts.ddl import read_columns
from mainstem.formats.debezium import Envelopes
from mainstem.formats.row_changes import UNAVAILABLE
from mainstem.formats.row_envelopes import PLACEHOLDER, _row


def read(kind, *messages):
    """Return the rows of updates, and why messages are refused."""
    columns = read_columns(f"id INT, x {kind}")
    made = Envelopes(columns, ["id"], preimages=False, units=["ms", "ms"])
    values = [json.dumps(message, separators=(",", ":")).encode() for message in messages]
    found = made.read(pa.array(values, pa.binary()), pa.array([b'{"id":1}'] * len(values)))
    return found.rows[1].to_pylist(), found.reasons


def update(value):
    return {"op": "u", "before": None, "after": {"id": 1, "x": value}}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("STRING", PLACEHOLDER),
        ("BINARY", PLACEHOLDER),
        ("BINARY", base64.b64encode(PLACEHOLDER.encode()).decode()),
        ("ARRAY<STRING>", [PLACEHOLDER]),
        ("ARRAY<INT>", list(PLACEHOLDER.encode())),
        ("MAP<STRING,STRING>", {PLACEHOLDER: PLACEHOLDER}),
        ("STRING", "b68a35a7-17ad-35b3-af2a-ae46edb4545a"),
    ],
)
def test_a_value_that_did_not_change_and_is_not_there_is_not_written(kind, value):
    """Pass: an update without the row before is refused, in each form that Debezium gives the placeholder."""
    rows, reasons = read(kind, update(value))
    assert rows == []
    assert "x" in reasons[0]
    assert _row({"x": value})["x"] is UNAVAILABLE or kind == "BINARY"


def test_binary_formats_have_it_as_bytes_and_pairs():
    held = PLACEHOLDER.encode(), [PLACEHOLDER.encode()], [(PLACEHOLDER, PLACEHOLDER)]
    assert all(_row({"x": value})["x"] is UNAVAILABLE for value in held)


def with_schema(value, name, scale):
    field = {
        "field": "x", "type": "bytes", "name": f"org.apache.kafka.connect.data.{name}",
        "parameters": {"scale": scale},
    }  # fmt: skip
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": [field]}]}
    return {
        "schema": schema,
        "payload": {"op": "c", "before": None, "after": {"id": 1, "x": value}},
    }


@pytest.mark.parametrize("scale", ["--5", "²", "9" * 5000, ""])
def test_a_scale_that_is_none_hurts_no_other_message(scale):
    """Pass: the message beside is read."""
    one = base64.b64encode(b"\x01").decode()
    bad, good = with_schema(one, "Decimal", scale), with_schema(one, "Decimal", "2")
    rows, reasons = read("DECIMAL(10,2)", bad, good)
    assert [str(row) for row in rows] == ["0.01"]
    assert [reason is None for reason in reasons] == [False, True]


def test_a_decimal_of_very_many_bytes_is_refused():
    """Pass: by itself; the message beside is read."""
    long, one = (base64.b64encode(b"\x01" * n).decode() for n in (2000, 1))
    found = read("DECIMAL(10,2)", *(with_schema(each, "Decimal", "2") for each in (long, one)))
    assert [str(row) for row in found[0]] == ["0.01"]
    assert found[1] == ["x is no DECIMAL(10,2)", None]
