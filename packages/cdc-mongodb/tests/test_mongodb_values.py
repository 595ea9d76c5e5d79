"""Values of each type of BSON, as text and as columns."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal

import bson
import pytest
from bson import json_util
from hypothesis import given
from hypothesis import strategies as st
from mainstem_cdc.testing import changes
from mainstem_cdc_mongodb.documents import READ, as_key, of_key, printed, same_id
from mongodb_tables import Taking

AT = datetime.datetime(2026, 1, 2, 10, 30, 0, 5000, tzinfo=datetime.UTC)
OID, UUID = bson.ObjectId("65a1b2c3d4e5f60718293a4b"), uuid.UUID(int=5)
VALUES = [
    (7, "BIGINT", 7),
    (bson.Int64(2**60), "BIGINT", 2**60),
    (7.0, "INT", 7),
    (-0.5, "DOUBLE", -0.5),
    (1e300, "DOUBLE", 1e300),
    (float("inf"), "DOUBLE", float("inf")),
    (0.1, "DECIMAL(10, 2)", Decimal("0.10")),
    (1e-7, "DECIMAL(10, 7)", Decimal("0.0000001")),
    (7, "DECIMAL(10, 2)", Decimal(7)),
    (bson.Decimal128("1.50"), "DECIMAL(10, 2)", Decimal("1.50")),
    (bson.Decimal128("1E+3"), "DECIMAL(10, 2)", Decimal(1000)),
    (bson.Decimal128("1E+3"), "STRING", "1000"),
    (bson.Decimal128("-Infinity"), "STRING", "-Infinity"),
    (True, "BOOLEAN", True),
    (True, "STRING", "true"),
    ("Größe", "STRING", "Größe"),
    (5, "STRING", "5"),
    (5.0, "STRING", "5"),
    (AT, "TIMESTAMP", AT),
    (AT, "STRING", "2026-01-02T10:30:00.005000+00:00"),
    (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "DATE", datetime.date(2026, 1, 2)),
    (OID, "STRING", str(OID)),
    (UUID, "STRING", str(UUID)),
    (b"\x00\xff", "BINARY", b"\x00\xff"),
    (b"\x00\xff", "STRING", "\\x00ff"),
    ({"a": [1, {"b": OID}], "t": "ü"}, "STRING", f'{{"a": [1, {{"b": {{"$oid": "{OID}"}}}}], "t": "ü"}}'),
    ([], "STRING", "[]"),
    (bson.Timestamp(5, 6), "STRING", '{"$timestamp": {"t": 5, "i": 6}}'),
    (bson.Regex("a", "i"), "STRING", '{"$regularExpression": {"pattern": "a", "options": "i"}}'),
    (None, "INT", None),
]  # fmt: skip
REFUSED = [
    ("7", "BOOLEAN", "no boolean"),
    (7.5, "INT", "no whole number"),
    (2**40, "INT", "it is no INT"),
    ("seven", "BIGINT", "no whole number"),
    ("text", "BINARY", "no bytes"),
    (AT, "DATE", "no date"),
    (AT, "TIMESTAMP_NTZ", "a time with a zone: read it as TIMESTAMP"),
    (bson.datetime_ms.DatetimeMS(10**15), "TIMESTAMP", "no time"),
    (bson.Decimal128("sNaN"), "DECIMAL(5, 2)", "NaN is no number that a DECIMAL holds"),
    (bson.Decimal128("NaN"), "DECIMAL(5, 2)", "NaN is no number that a DECIMAL holds"),
    (bson.Decimal128("1.005"), "DECIMAL(5, 2)", "it is no DECIMAL(5,2)"),
    ({"a": 1}, "INT", "no whole number"),
]


def test_values_come_as_they_are(place):
    """Pass: each as its column has it, from the collection and from the stream; what a type does not hold is refused with
    why."""
    cases = [*VALUES, *REFUSED]
    schema = ", ".join(f"c{at} {case[1]}" for at, case in enumerate(cases))
    codec = bson.CodecOptions(uuid_representation=bson.UuidRepresentation.STANDARD)
    wide = place.database.get_collection("wide", codec_options=codec)

    def put(first):
        wide.insert_one({"_id": first, **{f"c{at}": c[0] for at, c in enumerate(VALUES)}})
        for at in range(len(VALUES), len(cases)):
            wide.insert_one({"_id": first + at, f"c{at}": cases[at][0]})

    put(0)
    with Taking(place.options(tables={"wide": f"id INT, {schema}"})) as taking:
        taking.load()
        put(1000)
        found = taking.some(2 * (len(REFUSED) + 1))
    rows = changes(m for m in found if m.refused is None)
    assert [row[1] for row in rows] == [0, 1000], [m.refused for m in found]
    for row in rows:
        for at, (_, _, wanted) in enumerate(VALUES):
            assert row[2 + at] == wanted, (at, row[2 + at], wanted)
            assert type(row[2 + at]) is type(wanted)
    reasons = sorted(message.refused for message in found if message.refused)
    wrong = [f"c{at}: {case[2]}" for at, case in enumerate(cases) if at >= len(VALUES)]
    assert reasons == sorted(2 * wrong)


ids = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=True),
    st.text(),
    st.binary(),
    st.booleans(),
    st.uuids(),
    st.builds(bson.ObjectId, st.binary(min_size=12, max_size=12)),
    st.datetimes(
        datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30), timezones=st.just(datetime.UTC)
    ).map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
    st.dictionaries(st.text(min_size=1).filter(lambda n: "\0" not in n and "$" not in n), st.integers(0, 9)),
)  # fmt: skip


@given(ids)
def test_ids_are_the_same_after_a_restart(key):
    """Pass: an id that was written as JSON finds its document again, of its own type."""
    again = bson.decode(of_key(as_key(key)).raw, READ)
    assert same_id(again, as_key(key))
    other = "x" if not isinstance(key, str) else 5
    assert not same_id({"_id": other}, as_key(key))


@pytest.mark.parametrize("value", [{"a": bson.Decimal128("1.5")}, [UUID], {"x": AT}])
def test_documents_are_json(value):
    """Pass: what is printed of a document is Extended JSON that makes it again."""
    options = json_util.RELAXED_JSON_OPTIONS.with_options(
        uuid_representation=bson.UuidRepresentation.STANDARD, tz_aware=True, tzinfo=datetime.UTC
    )
    assert json_util.loads(printed(value, "string").decode(), json_options=options) == value
