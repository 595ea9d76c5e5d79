"""Values: each type of MySQL's and MariaDB's as the server prints it, exactly or refused."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mainstem import OptionError
from mainstem_cdc.testing import changes, check_values
from mainstem_cdc_mysql.options import MySQLSourceOptions
from mainstem_cdc_mysql.source import MySQLSource
from mysql_tables import Taking

#: Type, value in SQL, type in the document, what comes.
VALUES = [
    ("BOOLEAN", "TRUE", "BOOLEAN", True),
    ("TINYINT", "-128", "TINYINT", -128),
    ("TINYINT UNSIGNED", "255", "SMALLINT", 255),
    ("SMALLINT", "-32768", "SMALLINT", -32768),
    ("SMALLINT UNSIGNED", "65535", "INT", 65535),
    ("MEDIUMINT", "-8388608", "INT", -8388608),
    ("MEDIUMINT UNSIGNED", "16777215", "INT", 16777215),
    ("YEAR", "2024", "INT", 2024),
    ("INT UNSIGNED", "4294967295", "BIGINT", 4294967295),
    ("INT(6) ZEROFILL", "42", "STRING", "42"),
    ("INT", "-2147483648", "INT", -2147483648),
    ("BIGINT", "-9223372036854775808", "BIGINT", -(2**63)),
    ("BIGINT UNSIGNED", "18446744073709551615", "DECIMAL(20, 0)", Decimal(2**64 - 1)),
    ("YEAR", "0", "STRING", "0000"),
    ("BIT(1)", "b'1'", "BOOLEAN", True),
    ("BIT(10)", "b'1000000001'", "INT", 513),
    ("BIT(64)", "b'1'", "BIGINT", 1),
    ("DECIMAL(38, 3)", "12345678901234567890123456789012345.678", "DECIMAL(38, 3)", Decimal("12345678901234567890123456789012345.678")),
    ("DECIMAL(38, 3)", "-12345678901234567890123456789012345.678", "STRING", "-12345678901234567890123456789012345.678"),
    ("DECIMAL(10, 10)", "-0.0000000001", "DECIMAL(10, 10)", Decimal("-0.0000000001")),
    ("DECIMAL(9, 0)", "-999999999", "BIGINT", -999999999),
    ("DECIMAL(5, 2)", "0", "STRING", "0.00"),
    ("FLOAT", "0.1", "FLOAT", 0.10000000149011612),
    ("FLOAT", "16777217", "DOUBLE", 16777216.0),
    ("DOUBLE", "0.1 + 0.2e0", "DOUBLE", 0.1 + 0.2),
    ("DOUBLE", "-1e308", "DOUBLE", -1e308),
    ("CHAR(5)", "'ab'", "STRING", "ab"),
    ("VARCHAR(10)", "'ab  '", "STRING", "ab  "),
    ("VARCHAR(300)", "'tab\\t''quote'' é 😀'", "STRING", "tab\t'quote' é 😀"),
    ("VARCHAR(20) CHARACTER SET latin1", "'é€'", "STRING", "é€"),
    ("CHAR(20) CHARACTER SET cp1251", "'Привет'", "STRING", "Привет"),
    ("TEXT CHARACTER SET utf16", "'😀 é'", "STRING", "😀 é"),
    ("VARCHAR(20) CHARACTER SET cp932", "'カナ'", "STRING", "カナ"),
    ("DOUBLE(10, 2)", "1.5", "STRING", "1.5"),
    ("FLOAT", "-0e0", "STRING", "0"),
    ("CHAR(100) CHARACTER SET utf8mb4", "'長い'", "STRING", "長い"),
    ("TEXT", "''", "STRING", ""),
    ("MEDIUMTEXT", "REPEAT('x', 70000)", "STRING", "x" * 70000),
    ("BINARY(4)", "X'00ff00'", "BINARY", b"\x00\xff\x00\x00"),
    ("VARBINARY(400)", "X'00ff7f00'", "BINARY", b"\x00\xff\x7f\x00"),
    ("BLOB", "X'00ff7f00'", "BINARY", b"\x00\xff\x7f\x00"),
    ("VARCHAR(10) CHARACTER SET latin1", "'é'", "BINARY", "é".encode()),
    ("BLOB", "'text'", "STRING", "text"),
    ("DATE", "'2024-02-29'", "DATE", date(2024, 2, 29)),
    ("DATETIME", "'2024-02-29 12:30:00'", "TIMESTAMP_NTZ", datetime(2024, 2, 29, 12, 30)),
    ("DATETIME(6)", "'9999-12-31 23:59:59.999999'", "TIMESTAMP_NTZ", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("DATETIME(3)", "'2024-02-29 12:30:00.005'", "STRING", "2024-02-29 12:30:00.005"),
    ("DATETIME(1)", "'2024-02-29 12:30:00.5'", "STRING", "2024-02-29 12:30:00.5"),
    ("TIMESTAMP(6) NULL", "'2024-02-29 12:30:00.000001'", "TIMESTAMP", datetime(2024, 2, 29, 12, 30, 0, 1, UTC)),
    ("TIMESTAMP NULL", "'2024-02-29 12:30:00'", "STRING", "2024-02-29 12:30:00+00:00"),
    ("TIME", "'-838:59:59'", "STRING", "-838:59:59"),
    ("TIME(4)", "'-00:00:01.0002'", "STRING", "-00:00:01.0002"),
    ("TIME(6)", "'12:30:00.000001'", "STRING", "12:30:00.000001"),
    ("TIME(5)", "'01:02:03.45678'", "STRING", "01:02:03.45678"),
    ("ENUM('a', 'b''é', 'c')", "'b''é'", "STRING", "b'é"),
    ("ENUM('é', 'z') CHARACTER SET latin1", "'é'", "STRING", "é"),
    ("SET('x', 'y', 'é')", "'y,é'", "STRING", "y,é"),
    ("SET('x', 'y')", "''", "STRING", ""),
    ("DATE", "'0000-00-00'", "STRING", "0000-00-00"),
    ("GEOMETRY", "ST_GeomFromText('POINT(1 2)')", "BINARY", struct.pack("<IBIdd", 0, 1, 1, 1.0, 2.0)),
]  # fmt: skip

#: What no value of the type in the document is, and why.
REFUSED = [
    ("TINYINT", "2", "BOOLEAN", "no boolean: neither 0 nor 1"),
    ("TEXT", "'ten'", "BIGINT", "no whole number"),
    ("BIGINT UNSIGNED", "18446744073709551615", "BIGINT", "it is no BIGINT"),
    ("DOUBLE", "1e39", "FLOAT", "a number that is too large"),
    ("DOUBLE", "1.5", "BIGINT", "no whole number"),
    ("DECIMAL(10, 3)", "1.005", "DECIMAL(10, 2)", "it is no DECIMAL(10,2)"),
    ("BLOB", "X'ff'", "STRING", "it is no STRING"),
    ("DATE", "'0000-00-00'", "DATE", "a date with a month or day of zero"),
    ("DATE", "'0000-01-01'", "DATE", "a date beyond the years 1 to 9999"),
    ("DATE", "'2024-00-10'", "DATE", "a date with a month or day of zero"),
    ("DATETIME", "'0000-00-00 00:00:00'", "TIMESTAMP_NTZ", "a time with a month or day of zero"),
    ("TIMESTAMP NULL", "0", "TIMESTAMP", "a time with a month or day of zero"),
    ("DATETIME", "'2024-01-01 12:00:00'", "TIMESTAMP", "a time without a zone: read it as TIMESTAMP_NTZ"),
    ("TIMESTAMP NULL", "'2024-01-01 12:00:00'", "TIMESTAMP_NTZ", "a time with a zone: read it as TIMESTAMP"),
    ("TIME", "'12:00:00'", "TIMESTAMP", "no time"),
]  # fmt: skip
OF_MYSQL = [
    ("JSON", "'{\"bb\": 1, \"a\": [1.5, null, \"x\\\\n\"]}'", "STRING", '{"a": [1.5, null, "x\\n"], "bb": 1}'),
    ("JSON", "CAST(CAST('2024-02-29 12:30:00' AS DATETIME) AS JSON)", "STRING", '"2024-02-29 12:30:00.000000"'),
    ("JSON", "CAST(CAST('-01:02:03.5' AS TIME(1)) AS JSON)", "STRING", '"-01:02:03.500000"'),
    ("JSON", "CAST(CAST(12.50 AS DECIMAL(6, 2)) AS JSON)", "STRING", "12.50"),
    ("JSON", "'null'", "STRING", "null"),
    ("JSON", "JSON_ARRAY(18446744073709551615, -9223372036854775808, TRUE, 70000, -70000, CAST(X'00' AS BINARY(1)))", "STRING",
     '[18446744073709551615, -9223372036854775808, true, 70000, -70000, "base64:type15:AA=="]'),
    ("JSON", "JSON_OBJECT('k', REPEAT('é', 40000))", "STRING", '{"k": "' + "é" * 40000 + '"}'),
]  # fmt: skip
OF_MARIADB = [
    ("JSON", "'{\"b\":1,  \"a\":[1.5]}'", "STRING", '{"b":1,  "a":[1.5]}'),
    ("UUID", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "STRING", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("UUID", "'f81d4fae-7dec-11d0-a765-00a0c91e6bf6'", "STRING", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
    ("INET6", "'2001:db8::ff00:42:8329'", "STRING", "2001:db8::ff00:42:8329"),
    ("INET4", "'192.0.2.33'", "STRING", "192.0.2.33"),
    ("TEXT COMPRESSED", "REPEAT('long ', 100)", "STRING", "long " * 100),
    ("VARCHAR(1000) COMPRESSED", "'short'", "STRING", "short"),
]  # fmt: skip


def test_each_type_comes_as_it_is_from_the_table_and_from_the_log(place):
    """Pass: of every type the value that was written, from a snapshot and from a change, null as null, and what its type
    does not hold is refused with the column and why, without the value."""
    values = [*VALUES, *(OF_MARIADB if place.mariadb else OF_MYSQL)]
    place.sql("SET sql_mode = 'ALLOW_INVALID_DATES'")
    place.sql("SET time_zone = '+00:00'")
    check_values(lambda tables: Taking(place.options(tables=tables)), place.sql, values, REFUSED)


def test_zero_dates_are_null_where_that_is_asked_for(place):
    """Pass: dates and times of zero are null in the snapshot and in the log; text keeps them."""
    place.sql("SET sql_mode = ''")
    place.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE, t DATETIME, s TIMESTAMP NULL, x DATE)")
    place.sql("INSERT INTO t VALUES (1, 0, 0, 0, 0)")
    schema = "id INT, d DATE, t TIMESTAMP_NTZ, s TIMESTAMP, x STRING"
    tables = {"t": {"key": ["id"], "schema": schema}}
    with Taking(place.options(tables=tables, zero_dates="null")) as taking:
        taking.load()
        place.sql("INSERT INTO t VALUES (2, '2024-00-00', 0, 0, 0)")
        assert changes(taking.some(2)) == [
            ("insert", 1, None, None, None, "0000-00-00"),
            ("insert", 2, None, None, None, "0000-00-00"),
        ]


DOUBLES = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: number == 0 or abs(number) > 1e-300
)


@settings(
    deadline=None,
    max_examples=4,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(DOUBLES, min_size=20, max_size=60))
def test_numbers_are_printed_as_the_server_does(mysql_place, numbers):
    """Pass: any DOUBLE as text, and as JSON, from the log as from the table."""
    place = mysql_place
    numbers = [
        *numbers,
        0.0,
        1801439850948199.2,
        1e15,
        999999999999999.9,
        1e16,
        1e-14,
        1e-15,
        123456789.125,
    ]
    place.sql("DROP TABLE IF EXISTS t")
    place.sql("CREATE TABLE t (id INT PRIMARY KEY, d DOUBLE, j JSON)")
    with place.connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO t VALUES (%s, %s, JSON_ARRAY(CAST(%s AS JSON)))",
            [(at, n, repr(n)) for at, n in enumerate(numbers)],
        )
    tables = {"t": {"key": ["id"], "schema": "id INT, d STRING, j STRING"}}
    with Taking(place.options(tables=tables)) as taking:
        taking.load()
        first = changes(taking.some(len(numbers)))
        place.sql("UPDATE t SET id = id + 1000")
        after = [c for c in changes(taking.some(2 * len(numbers))) if c[0] == "insert"]
    for number, one, two in zip(numbers, first, after, strict=True):
        assert one[2:] == two[2:]
        assert float(one[2]) == number or math.isclose(float(one[2]), number)


WORDS = st.text(st.characters(codec="utf-8"), max_size=8)
DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | WORDS
    | st.sampled_from([0.5, -1.25, 1e20, 1e-7]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=20,
)


@settings(
    deadline=None,
    max_examples=3,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(DOCUMENTS, min_size=10, max_size=30))
def test_any_document_is_printed_as_the_server_does(mysql_place, documents):
    """Pass: any JSON document, from the log as from the table; and after a change of a part of it, told in full and as
    what was changed."""
    import json

    place = mysql_place
    place.sql("DROP TABLE IF EXISTS t")
    place.sql("CREATE TABLE t (id INT PRIMARY KEY, j JSON, n INT)")
    with place.connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO t VALUES (%s, %s, 0)",
            [(at, json.dumps(each)) for at, each in enumerate(documents)],
        )
    tables = {"t": {"key": ["id"], "schema": "id INT, j STRING, n INT"}}
    paths = "'$.a', 'new', '$[1]', JSON_OBJECT('k', 1.5), '$.b.c', NULL"
    with Taking(place.options(tables=tables)) as taking:
        taking.load()
        first = changes(taking.some(len(documents)))
        place.sql("UPDATE t SET n = 1")
        assert [c[2] for c in changes(taking.some(len(documents)))] == [c[2] for c in first]
        for partial, image in (("", "FULL"), ("PARTIAL_JSON", "FULL"), ("PARTIAL_JSON", "NOBLOB")):
            place.sql("SET binlog_row_value_options = %s", partial)
            place.sql(f"SET binlog_row_image = {image}")
            for change in (
                f"JSON_SET(j, {paths})",
                "JSON_SET(j, '$.\"bb\"', 'longer than before', '$[2]', 7)",
                "JSON_REPLACE(j, '$.a', JSON_ARRAY(1, 'x'), '$[0]', NULL)",
                "JSON_REMOVE(j, '$[0]', '$.bb')",
            ):
                place.sql(f"UPDATE t SET j = {change}, n = n + 1")
                found = changes(taking.some(len(documents)))
                there = place.sql("SELECT id, CAST(j AS CHAR) FROM t ORDER BY id")
                assert [(c[1], c[2]) for c in found] == there
    place.sql("SET binlog_row_value_options = '', binlog_row_image = FULL")


@pytest.mark.parametrize("kind", ["struct<a:int>", "map<string,int>", "variant", "array<int>"])
def test_types_without_values_are_told_before_anything_runs(kind):
    """Pass: the column, its type, and what to do."""
    options = MySQLSourceOptions(
        url="mysql://root@localhost/shop", tables={"t": {"key": ["id"], "schema": f"id INT, x {kind}"}}
    )  # fmt: skip
    with pytest.raises(OptionError, match="column x"):
        MySQLSource(options)
