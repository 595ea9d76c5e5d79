"""What Maxwell and Canal write: as their own pages show it, of each type, and what changes no row."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from mainstem.builtin.decode import Decode
from mainstem.builtin.decoding import opened
from mainstem.columns import read_columns
from mainstem.errors import OptionError
from mainstem.registry import Registry

#: As on Maxwell's page of its data format, and as Canal's flat messages are.
MAXWELL = {
    "database": "test", "table": "e", "type": "update", "ts": 1477053234, "xid": 23396, "commit": True,
    "data": {"id": 1, "m": 5.444, "c": "2016-10-21 05:33:54.631000", "comment": "I am a creature of light."},
    "old": {"m": 4.2341, "c": "2016-10-21 05:33:37.523000"},
}  # fmt: skip
CANAL = {
    "data": [{"id": "111", "name": "scooter", "weight": "5.18"}, {"id": "112", "name": None, "weight": "1"}],
    "database": "inventory", "es": 1589373560000, "id": 9, "isDdl": False, "pkNames": ["id"], "sql": "",
    "old": [{"weight": "5.15"}, {"id": "110", "weight": "2"}], "table": "products", "ts": 1589373560798,
    "type": "UPDATE", "mysqlType": {"id": "INT(11)"}, "sqlType": {"id": 4},
}  # fmt: skip


def read(tool, schema, *messages, **more):
    given = {"format": f"{tool}-json", "schema": schema, "key": ["id"], **more}
    options = Decode.options_for(given, Registry().component).model_validate(given)
    decoding = Decode(options).decoding()
    values = pa.array(
        [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages], pa.binary()
    )
    found = opened(decoding)(values, pa.nulls(len(values), pa.binary())).to_pylist()
    names = [column.name for column in read_columns(schema)]
    changes = [
        [(each["type"], *(each[f"c{n}"] for n in range(len(names)))) for each in row["changes"]]
        for row in found
    ]
    return changes, [row["reason"] for row in found], [row["at"] for row in found]


def test_maxwells_own_example_is_read():
    """Pass: the row before is the new one with what was otherwise."""
    changes, reasons, at = read(
        "maxwell", "id BIGINT NOT NULL, m DOUBLE, c TIMESTAMP_NTZ, comment STRING", MAXWELL
    )
    text = "I am a creature of light."
    assert reasons == [None]
    assert changes == [[
        ("update_preimage", 1, 4.2341, datetime(2016, 10, 21, 5, 33, 37, 523000), text),
        ("update_postimage", 1, 5.444, datetime(2016, 10, 21, 5, 33, 54, 631000), text),
    ]]  # fmt: skip
    assert at == [datetime(2016, 10, 21, 12, 33, 54, tzinfo=UTC)]


def test_canals_rows_are_read():
    """Pass: several of a message, texts of each type; a key that moves is a deletion and an insertion."""
    changes, reasons, at = read("canal", "id INT NOT NULL, name STRING, weight DECIMAL(5,2)", CANAL)
    assert reasons == [None]
    assert changes == [[
        ("update_preimage", 111, "scooter", Decimal("5.15")), ("update_postimage", 111, "scooter", Decimal("5.18")),
        ("delete", 110, None, Decimal("2.00")), ("insert", 112, None, Decimal("1.00")),
    ]]  # fmt: skip
    assert at == [datetime(2020, 5, 13, 12, 39, 20, tzinfo=UTC)]


ALL = (
    "id BIGINT NOT NULL, small TINYINT, price DECIMAL(10,2), day DATE, at TIMESTAMP, good BOOLEAN, raw BINARY, "
    "ratio FLOAT"
)  # fmt: skip
ROW = (
    7,
    -1,
    Decimal("1.50"),
    date(2024, 2, 29),
    datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC),
    True,
    b"\0\xff",
    0.5,
)


def test_values_of_each_type_are_read():
    """Pass: as each tool writes them; null is null."""
    nulls = dict.fromkeys(("small", "price", "day", "at", "good", "raw", "ratio"))
    data = {
        "id": 7,
        "small": -1,
        "price": 1.5,
        "day": "2024-02-29",
        "at": "2024-02-29 01:02:03",
        "good": 1,
        "raw": "AP8=",
        "ratio": 0.5,
    }
    changes, reasons, _ = read(
        "maxwell",
        ALL,
        {"type": "insert", "data": data},
        {"type": "insert", "data": {"id": 8, **nulls}},
    )
    assert reasons == [None, None]
    assert changes == [[("insert", *ROW)], [("insert", 8, *[None] * 7)]]
    texts = {**{name: str(value) for name, value in data.items()}, "raw": "\0\xff"}
    changes, reasons, _ = read(
        "canal", ALL, {"type": "INSERT", "data": [texts, {"id": "8", **nulls}]}
    )
    assert reasons == [None]
    assert changes == [[("insert", *ROW), ("insert", 8, *[None] * 7)]]


def test_nested_values_of_maxwell_are_read():
    """Pass: of a JSON column."""
    schema = "id BIGINT NOT NULL, any VARIANT, tags ARRAY<STRING>"
    message = {"type": "insert", "data": {"id": 1, "any": {"a": [1]}, "tags": ["x", None]}}
    assert read("maxwell", schema, message)[0] == [[("insert", 1, '{"a": [1]}', ["x", None])]]


@pytest.mark.parametrize(
    ("tool", "message", "told"),
    [
        ("maxwell", {"type": "table-alter", "def": {}}, "type table-alter changes no row"),
        ("maxwell", {"type": "insert"}, "changes no row"),
        ("maxwell", {"type": "update", "data": {"id": 1}}, "an update has no old"),
        ("maxwell", {"type": "insert", "data": [1]}, "data is no object"),
        ("maxwell", {"type": "insert", "data": {"id": None}}, "id is null"),
        ("maxwell", {"type": "insert", "data": {"name": "a"}}, "id is null"),
        ("maxwell", {"type": "insert", "data": {"id": 1.5}}, "id is no BIGINT"),
        ("maxwell", b"null", "no JSON object"),
        ("canal", {"type": "QUERY", "data": [{}]}, "type QUERY changes no row"),
        ("canal", {**CANAL, "isDdl": True}, "changes no row"),
        ("canal", {**CANAL, "old": [{}]}, "not as many rows"),
        ("canal", {"type": "INSERT", "data": [None]}, "not as many rows"),
        ("canal", {"type": "UPDATE", "data": [{"id": "1"}]}, "an update has no old"),
        ("canal", {"type": "INSERT", "data": {"id": "1"}}, "data is no object, or no list"),
        ("canal", {"type": "INSERT", "data": [{"id": 1}]}, "id is no text"),
        ("canal", {"type": "INSERT", "data": [{"id": "1"}, {"id": "x"}]}, "id is no BIGINT"),
    ],
)
def test_what_changes_no_row_is_refused(tool, message, told):
    """Pass: whole, with the reason, and beside good ones."""
    good = {
        "maxwell": {"type": "delete", "data": {"id": 5}},
        "canal": {"type": "DELETE", "data": [{"id": "5"}]},
    }[tool]
    changes, reasons, _ = read(tool, "id BIGINT NOT NULL, name STRING", good, message, good)
    assert changes == [[("delete", 5, None)], [], [("delete", 5, None)]]
    assert reasons[0] is reasons[2] is None
    assert told in reasons[1]


def test_other_tables_tell_nothing():
    """Pass: of a topic of several; without `table` all are read."""
    others = {**MAXWELL, "table": "f"}
    changes, reasons, _ = read("maxwell", "id BIGINT NOT NULL", MAXWELL, others, table="test.e")
    assert (len(changes[0]), changes[1], reasons) == (2, [], [None, None])
    changes, _, _ = read("canal", "id BIGINT NOT NULL", CANAL, table="inventory.else")
    assert changes == [[]]
    with pytest.raises(OptionError, match=r"expected DATABASE\.TABLE"):
        read("canal", "id BIGINT NOT NULL", CANAL, table="products")
