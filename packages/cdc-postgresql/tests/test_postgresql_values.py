"""Values: each type of PostgreSQL's as the server prints it, exactly or refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem import OptionError
from mainstem_cdc import Misfit
from mainstem_cdc.testing import check_values
from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions
from mainstem_cdc_postgresql.source import PostgreSQLSource
from mainstem_cdc_postgresql.values import has_reader, reader
from postgresql_tables import Taking

#: Type, value in SQL, type in the document, what comes.
VALUES = [
    ("BOOLEAN", "true", "BOOLEAN", True),
    ("SMALLINT", "-32768", "SMALLINT", -32768),
    ("BIGINT", "9223372036854775807", "BIGINT", 2**63 - 1),
    ("NUMERIC", "12345678901234567890123456789012345.678", "DECIMAL(38, 3)", Decimal("12345678901234567890123456789012345.678")),
    ("NUMERIC", "12345678901234567890123456789012345.678", "STRING", "12345678901234567890123456789012345.678"),
    ("REAL", "0.1", "FLOAT", 0.10000000149011612),
    ("DOUBLE PRECISION", "0.1::float8 + 0.2", "DOUBLE", 0.1 + 0.2),
    ("DOUBLE PRECISION", "'-Infinity'", "DOUBLE", -math.inf),
    ("TEXT", "E'tab\\t\\'quote\\' \\u00e9 \\U0001F600'", "STRING", "tab\t'quote' é 😀"),
    ("TEXT", "''", "STRING", ""),
    ("CHAR(5)", "'ab'", "STRING", "ab   "),
    ("BYTEA", "'\\x00ff7f'", "BINARY", b"\x00\xff\x7f"),
    ("DATE", "'2024-02-29'", "DATE", date(2024, 2, 29)),
    ("TIMESTAMP", "'2024-02-29 12:30:00.000001'", "TIMESTAMP_NTZ", datetime(2024, 2, 29, 12, 30, 0, 1)),
    ("TIMESTAMPTZ", "'2024-02-29 12:30:00.5+02'", "TIMESTAMP", datetime(2024, 2, 29, 10, 30, 0, 500_000, UTC)),
    ("TIMESTAMPTZ", "'0001-01-01 00:00:00+00'", "TIMESTAMP", datetime(1, 1, 1, tzinfo=UTC)),
    ("TIMETZ", "'12:30+02'", "STRING", "12:30:00+02"),
    ("INTERVAL", "'1 year 2 days 03:04:05.6'", "STRING", "P1Y2DT3H4M5.6S"),
    ("UUID", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "STRING", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("JSON", "'{\"a\": [1, null]}'", "STRING", '{"a": [1, null]}'),
    ("JSONB", "'{\"b\":1,\"a\":2}'", "STRING", '{"a": 2, "b": 1}'),
    ("INT4RANGE", "'[1,5)'", "STRING", "[1,5)"),
    ("INET", "'10.0.0.1/8'", "STRING", "10.0.0.1/8"),
    ("INET", "'10.0.0.1'", "STRING", "10.0.0.1"),
    ("CHAR(3)[]", "ARRAY['a'::char(3)]", "ARRAY<STRING>", ["a  "]),
    ("XML", """'<?xml version="1.0" encoding="latin1"?><a/>'""", "STRING", "<a/>"),
    ("INT[]", "ARRAY[1, NULL, 3]", "ARRAY<INT>", [1, None, 3]),
    ("INT[]", "'{}'", "ARRAY<INT>", []),
    ("INT[]", "'[0:1]={7,8}'", "ARRAY<INT>", [7, 8]),
    ("INT[][]", "ARRAY[[1, 2], [3, NULL]]", "ARRAY<ARRAY<INT>>", [[1, 2], [3, None]]),
    ("TEXT[]", "ARRAY['a,b', '{}', 'NULL', NULL, '', E'q\"\\\\']", "ARRAY<STRING>", ["a,b", "{}", "NULL", None, "", 'q"\\']),
    ("NUMERIC[]", "ARRAY[1.50]", "ARRAY<DECIMAL(4, 2)>", [Decimal("1.50")]),
    ("BYTEA[]", "ARRAY['\\x00ff'::bytea]", "ARRAY<BINARY>", [b"\x00\xff"]),
    ("TIMESTAMPTZ[]", "ARRAY['2024-02-29 12:00+00'::timestamptz]", "ARRAY<TIMESTAMP>", [datetime(2024, 2, 29, 12, tzinfo=UTC)]),
]  # fmt: skip

#: What no value of the type in the document is, and why.
REFUSED = [
    ("NUMERIC", "'NaN'", "DECIMAL(10, 2)", "NaN is no number that a DECIMAL holds"),
    ("TEXT", "'ten'", "BIGINT", "no whole number"),
    ("TEXT", "'0x1F'", "INT", "no whole number"),
    ("TEXT", "'1_000'", "BIGINT", "no whole number"),
    ("TEXT", "'0x1p3'", "DECIMAL(10, 2)", "no decimal"),
    ("DOUBLE PRECISION", "1e39", "FLOAT", "a number that is too large"),
    ("DOUBLE PRECISION", "1.5", "BIGINT", "no whole number"),
    ("BIGINT", "300", "TINYINT", "it is no TINYINT"),
    ("NUMERIC", "1.005", "DECIMAL(10, 2)", "it is no DECIMAL(10,2)"),
    ("NUMERIC", "repeat('9', 400)::numeric", "DOUBLE", "a number that is too large"),
    ("TIMESTAMPTZ", "'infinity'", "TIMESTAMP", "infinity is no time that other systems know"),
    ("TIMESTAMPTZ", "'0044-03-15 12:00:00 BC'", "TIMESTAMP", "a time beyond the years 1 to 9999"),
    ("TIMESTAMP", "'20000-01-01 12:00:00'", "TIMESTAMP_NTZ", "a time beyond the years 1 to 9999"),
    ("TIMESTAMP", "'2024-01-01 12:00:00'", "TIMESTAMP", "a time without a zone: read it as TIMESTAMP_NTZ"),
    ("TIMESTAMPTZ", "'2024-01-01 12:00:00+00'", "TIMESTAMP_NTZ", "a time with a zone: read it as TIMESTAMP"),
    ("DATE", "'-infinity'", "DATE", "-infinity is no date that other systems know"),
    ("TEXT", "'2024-01-01 10:00:00.123456789'", "TIMESTAMP_NTZ", "a time with parts of a microsecond"),
    ("TEXT", "'2024-01-01T10:00:00.1234567Z'", "TIMESTAMP", "a time with parts of a microsecond"),
    ("TEXT", "'1_000'", "DOUBLE", "no number"),
    ("TEXT", "'yes'", "BOOLEAN", "no boolean"),
    ("TEXT", "'abc'", "BINARY", "no bytes in hex"),
    ("INT[]", "ARRAY[ARRAY[1]]", "ARRAY<INT>", "an array of arrays"),
    ("TEXT[]", "ARRAY[ARRAY['a', 'b']]", "ARRAY<STRING>", "an array of arrays"),
    ("INT", "7", "ARRAY<INT>", "no array"),
]  # fmt: skip


def test_each_type_comes_as_it_is_from_the_table_and_from_the_log(place):
    """Pass: of every type the value that was written, from a snapshot and from a change, null as null, and what its type
    does not hold is refused with the column and why, without the value."""
    check_values(lambda tables: Taking(place.options(tables=tables)), place.sql, VALUES, REFUSED)


@given(st.lists(st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
def test_any_array_of_texts_is_read(values):
    """Pass: as the server writes it: quoted where it must be, `\\` and `"` escaped."""

    def quoted(value):
        if value is None:
            return "NULL"
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        plain = (
            value and value.upper() != "NULL" and not any(c in '{},"\\ \t\n\r\v\f' for c in value)
        )
        return value if plain else f'"{escaped}"'

    written = "{" + ",".join(map(quoted, values)) + "}"
    assert reader("array<string>")(written) == values


@pytest.mark.parametrize(
    "text", ["", "{", "1", "{1", "{1}}", '{"a}', "[1={1}", "{1}x", "{{a,b},{c,d}}"]
)
def test_what_is_no_array_is_refused(text):
    """Pass: an error that is caught, and no loop."""
    with pytest.raises((Misfit, IndexError, ValueError)):
        reader("array<string>")(text)


@pytest.mark.parametrize(
    "kind", ["struct<a:int>", "map<string,int>", "variant", "array<map<int,int>>"]
)
def test_types_without_values_are_told_before_anything_runs(kind):
    """Pass: the column, its type, and what to do."""
    assert not has_reader(kind)
    options = PostgreSQLSourceOptions(
        url="postgresql://localhost/shop", slot="s", tables={"t": {"key": ["id"], "schema": f"id INT, x {kind}"}}
    )  # fmt: skip
    with pytest.raises(OptionError, match="column x"):
        PostgreSQLSource(options)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("tinyint", b"0xFF"), ("int", b"0xFFFFFFFF"), ("bigint", b"\xd9\xa3"), ("decimal(4,2)", b"1e1"), ("float", b"1e39"),
     ("timestamp", b"0001-01-01 00:00:00+14"), ("boolean", b"true"), ("string", b"\xff")],
)  # fmt: skip
def test_a_column_at_a_time_refuses_what_one_by_one_does(kind, text):
    """Pass: a text that Arrow would read, and PostgreSQL does not write, is refused alone in its column and beside others."""
    from mainstem_cdc_postgresql.tables import _READERS

    for others in ([], [None], [text, None]):
        found, refused = _READERS.read(kind, [text, *others])
        assert 0 in refused
        assert found.null_count == len(found)
