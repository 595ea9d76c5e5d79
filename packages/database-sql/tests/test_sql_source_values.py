"""Values of every type come back from each database as they are, or not at all."""

from __future__ import annotations

import uuid
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from mainstem import OptionError, PipelineError
from test_sql_source_driver import PRODUCTS, Checkpoint, Place, place_of

EARLY, LATE = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
MICRO = datetime(2024, 3, 31, 1, 30, 0, 123456)
TEXTS = ["", " ", "it's", 'say "so"', "back\\slash", "two\nlines", "%s %(x)s :x", "漢字 😀", "null"]
WIDE = Decimal("12345678901234567890.123456789012345678")


def utc(value):
    return value.replace(tzinfo=UTC)


#: By product: the type of a column, the type that it is read as, and values; as given when they
#: are no pairs, else as put and as read.
TYPES = {
    "postgres": [
        ("boolean", "BOOLEAN", [True, False]),
        ("smallint", "SMALLINT", [32767, -32768]),
        ("smallint", "INT", [7]),
        ("integer", "INT", [2**31 - 1, -(2**31)]),
        ("integer", "DECIMAL(12,2)", [(7, Decimal("7.00"))]),
        ("bigint", "BIGINT", [2**63 - 1, -(2**63)]),
        ("real", "FLOAT", [1.5, (0.1, 0.10000000149011612), float("inf"), 3.4028234663852886e38]),
        ("real", "DOUBLE", [(0.1, 0.10000000149011612)]),
        ("double precision", "DOUBLE", [0.1, 5e-324, float("-inf"), float("nan"), -0.0]),
        ("numeric(38,18)", "DECIMAL(38,18)", [WIDE, Decimal("-1e-18")]),
        ("numeric(6,2)", "DECIMAL(10,4)", [(Decimal("1234.50"), Decimal("1234.5000"))]),
        ("numeric", "DECIMAL(10,2)", [(Decimal("1.5"), Decimal("1.50"))]),
        ("numeric(9,0)", "INT", [(Decimal(999999999), 999999999)]),
        ("text", "STRING", TEXTS),
        ("varchar(20)", "STRING", ["é"]),
        ("char(4)", "STRING", [("ab", "ab  ")]),
        ("uuid", "STRING", ["6f9619ff-8b86-d011-b42d-00cf4fc964ff"]),
        ("jsonb", "STRING", ['{"a": [1, null]}']),
        ("inet", "STRING", [("10.0.0.1", "10.0.0.1/32")]),
        ("interval", "STRING", [("1 day 02:00:00", "P1DT2H")]),
        ("int[]", "STRING", ["{1,NULL,3}"]),
        ("bytea", "BINARY", [b"", b"\x00\xff\x10 "]),
        ("date", "DATE", [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]),
        ("timestamptz", "TIMESTAMP", [utc(EARLY), utc(MICRO), utc(LATE)]),
        ("timestamptz", "TIMESTAMP", [("2024-03-31 03:30:00.5+02", utc(MICRO.replace(microsecond=500000)))]),
        ("timestamp", "TIMESTAMP_NTZ", [EARLY, MICRO, LATE]),
    ],
    "mariadb": [
        ("tinyint(1)", "BOOLEAN", [(1, True), (0, False)]),
        ("bit(1)", "BOOLEAN", [(1, True), (0, False)]),
        ("tinyint", "TINYINT", [127, -128]),
        ("tinyint unsigned", "SMALLINT", [255]),
        ("smallint", "SMALLINT", [32767, -32768]),
        ("mediumint", "INT", [8388607]),
        ("int", "INT", [2**31 - 1, -(2**31)]),
        ("int unsigned", "BIGINT", [2**32 - 1]),
        ("bigint", "BIGINT", [2**63 - 1, -(2**63)]),
        ("bigint unsigned", "BIGINT", [2**63 - 1]),
        ("bigint unsigned", "DECIMAL(20,0)", [(2**64 - 1, Decimal(2**64 - 1))]),
        ("year", "INT", [2024]),
        ("float", "FLOAT", [(0.1, 0.10000000149011612), 3.4028234663852886e38]),
        ("float", "DOUBLE", [(0.1, 0.10000000149011612)]),
        ("double", "DOUBLE", [0.1, 2.2250738585072014e-308, -1.7976931348623157e308]),
        ("double", "FLOAT", [1.5]),
        ("decimal(38,18)", "DECIMAL(38,18)", [WIDE, Decimal("-1e-18")]),
        ("decimal(9,0)", "INT", [(Decimal(999999999), 999999999)]),
        ("longtext", "STRING", TEXTS),
        ("varchar(20) CHARACTER SET latin1", "STRING", ["é"]),
        ("enum('a','b')", "STRING", ["b"]),
        ("json", "STRING", ['{"a": [1, null]}']),
        ("time(6)", "STRING", ["-12:30:00.250000"]),
        ("longblob", "BINARY", [b"", b"\x00\xff\x10 "]),
        ("binary(3)", "BINARY", [b"\x00a\xff"]),
        ("date", "DATE", [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]),
        ("datetime(6)", "TIMESTAMP", [(MICRO, utc(MICRO)), (LATE, utc(LATE))]),
        ("datetime(6)", "TIMESTAMP_NTZ", [EARLY, MICRO, LATE]),
        ("datetime", "TIMESTAMP_NTZ", [MICRO.replace(microsecond=0)]),
        ("timestamp(6) NULL", "TIMESTAMP", [(MICRO, utc(MICRO))]),
    ],
    "sqlite": [
        ("BOOLEAN", "BOOLEAN", [(1, True), (0, False)]),
        ("INTEGER", "TINYINT", [127, -128]),
        ("INTEGER", "BIGINT", [2**63 - 1, -(2**63)]),
        ("REAL", "FLOAT", [1.5, float("inf")]),
        ("REAL", "DOUBLE", [0.1, 5e-324, (7, 7.0)]),
        ("DECIMAL(10,2)", "DECIMAL(10,2)", [(12.34, Decimal("12.34")), (5, Decimal("5.00")), ("7.1", Decimal("7.10"))]),
        ("TEXT", "DECIMAL(38,18)", [(str(WIDE), WIDE)]),
        ("TEXT", "STRING", TEXTS),
        ("BLOB", "BINARY", [b"", b"\x00\xff\x10 "]),
        ("DATE", "DATE", [("1500-01-01", date(1500, 1, 1)), ("9999-12-31", date(9999, 12, 31))]),
        ("TEXT", "TIMESTAMP", [("2024-03-31 01:30:00.123456", utc(MICRO)), ("2024-03-31T03:30:00.123456+02:00", utc(MICRO)), ("2024-03-31T01:30:00Z", utc(MICRO.replace(microsecond=0)))]),
        ("TEXT", "TIMESTAMP_NTZ", [("2024-03-31 01:30:00.123456", MICRO)]),
    ],
}  # fmt: skip


@pytest.fixture(params=PRODUCTS)
def place(request, tmp_path):
    with place_of(request, tmp_path) as made:
        yield made


def put(place, values, *, name="v"):
    """Put values into a column, each with its number."""
    with place.connected() as connection, closing(connection.cursor()) as cursor:
        statement = f"INSERT INTO {place.table} (id, {name}) VALUES ({place.mark}, {place.mark})"
        cursor.execute("BEGIN")
        for number, value in enumerate(values):
            cursor.execute(statement, (number, value))
        cursor.execute("COMMIT")


def read(place, columns, tmp_path):
    return Checkpoint(tmp_path / uuid.uuid4().hex, place.options(columns)).read()


def same(found, expected):
    """Whether values are equal, and of one type; a NaN equals a NaN, and 0 is not -0."""
    if isinstance(found, datetime) and found.tzinfo is not None:
        found = found.astimezone(UTC)
    return type(found) is type(expected) and repr(found) == repr(expected)


def test_values_of_every_type_come_back_as_they_are(place, tmp_path):
    """Each type has a column, and each value, and null, a row with its number beside it."""
    types = TYPES[place.product]
    names = [f"v{number}" for number in range(len(types))]
    columns = ", ".join(f"{n} {c}" for n, (c, _, _) in zip(names, types, strict=True))
    place.ask(f"CREATE TABLE {{t}} (id INT, {columns})")
    expected = {}
    for name, (_, _, given) in zip(names, types, strict=True):
        pairs = [each if isinstance(each, tuple) else (each, each) for each in given]
        expected[name] = [after for _, after in pairs] + [None]
        put(place, [before for before, _ in pairs] + [None], name=name)
    wanted = ", ".join(f"{n} {k}" for n, (_, k, _) in zip(names, types, strict=True))
    rows = read(place, f"id INT, {wanted}", tmp_path)
    assert len(rows) == sum(map(len, expected.values()))
    wrong = []
    for name, (column, kind, _) in zip(names, types, strict=True):
        found = sorted((row["id"], row[name]) for row in rows if row[name] is not None)
        came = [value for _, value in found]
        if len(came) != len(expected[name]) - 1 or not all(map(same, came, expected[name])):
            wrong.append(f"{column} as {kind}: {came}, expected were {expected[name]}")
    assert not wrong, "\n".join(wrong)


#: Columns that are not read as a type whose values they do not all have.
MISFITS = {
    "postgres": [
        ("bigint", "INT"), ("smallint", "TINYINT"), ("numeric(10,2)", "DECIMAL(10,1)"),
        ("numeric(10,2)", "DECIMAL(9,2)"), ("numeric(10,2)", "DOUBLE"), ("numeric(10,2)", "BIGINT"),
        ("double precision", "FLOAT"), ("double precision", "DECIMAL(10,2)"), ("integer", "STRING"),
        ("integer", "BOOLEAN"), ("bytea", "STRING"), ("text", "BINARY"), ("text", "INT"),
        ("timestamp", "TIMESTAMP"), ("timestamptz", "TIMESTAMP_NTZ"), ("timestamptz", "DATE"),
        ("date", "TIMESTAMP"), ("date", "STRING"), ("jsonb", "BINARY"), ("boolean", "STRING"),
    ],
    "mariadb": [
        ("bigint", "INT"), ("int unsigned", "INT"), ("tinyint unsigned", "TINYINT"),
        ("bigint unsigned", "DECIMAL(19,0)"), ("decimal(10,2)", "DECIMAL(10,1)"),
        ("decimal(10,2)", "DOUBLE"), ("longtext", "BINARY"), ("longblob", "STRING"),
        ("int", "STRING"), ("int", "BOOLEAN"), ("datetime", "DATE"), ("date", "TIMESTAMP"),
        ("bit(2)", "BOOLEAN"), ("longtext", "TIMESTAMP"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("server", ["postgres", "mariadb"])
def test_a_type_that_lacks_values_of_its_column_is_refused(server, request, tmp_path):
    misfits = MISFITS[server]
    there = ", ".join(f"v{number} {column}" for number, (column, _) in enumerate(misfits))
    wanted = ", ".join(f"v{number} {kind}" for number, (_, kind) in enumerate(misfits))
    with Place(server, request.getfixturevalue(server).url) as place:
        place.ask(f"CREATE TABLE {{t}} ({there})")
        with pytest.raises(OptionError) as caught:
            read(place, wanted, tmp_path)
    assert caught.value.option == "schema"
    told = caught.value.message
    taken = [each for number, each in enumerate(misfits) if f"column v{number} is " not in told]
    assert not taken


#: Single values that do not fit, in columns that can't be refused as a whole.
STRAY = {
    "postgres": [
        ("numeric", "DECIMAL(10,2)", "1.234"), ("numeric", "DECIMAL(4,2)", "123.45"),
        ("numeric", "DECIMAL(4,2)", "NaN"), ("timestamptz", "TIMESTAMP", "infinity"),
        ("timestamptz", "TIMESTAMP", "0044-03-15 BC"), ("date", "DATE", "12024-01-01"),
        ("bigint", "BIGINT NOT NULL", None),
    ],
    "mariadb": [
        ("bigint unsigned", "BIGINT", 2**63), ("tinyint", "BOOLEAN", 2), ("double", "FLOAT", 0.1),
        ("int", "INT NOT NULL", None),
    ],
    "sqlite": [
        ("INTEGER", "INT", 2**31), ("INTEGER", "INT", "many"), ("INTEGER", "BOOLEAN", 2),
        ("REAL", "DOUBLE", "x"), ("REAL", "BIGINT", 1.5), ("INTEGER", "DOUBLE", 2**63 - 1),
        ("REAL", "DECIMAL(10,2)", 0.30000000000000004), ("TEXT", "DECIMAL(10,2)", "1_0"),
        ("TEXT", "BINARY", "text"), ("BLOB", "STRING", b"bytes"), ("TEXT", "TIMESTAMP", "today"),
        ("TEXT", "TIMESTAMP_NTZ", "2024-03-31T01:30:00Z"), ("TEXT", "DATE", "20240331"),
        ("INTEGER", "TIMESTAMP", 1711848600), ("REAL", "FLOAT", 0.1),
    ],
}  # fmt: skip


def test_a_value_that_does_not_fit_is_told_by_column_and_table_alone(place, tmp_path):
    wrong = []
    for column, kind, value in STRAY[place.product]:
        place.ask("DROP TABLE IF EXISTS {t}")
        place.ask(f"CREATE TABLE {{t}} (id INT, v {column})")
        put(place, [value])
        try:
            told = f"no error: {read(place, f'v {kind}', tmp_path)}"
        except PipelineError as error:
            told = str(error)
        shown = value is not None and str(value) in told.replace(place.table, "")
        if not told.startswith(f"table {place.table}: column v has a ") or shown:
            wrong.append(f"{column} {value} as {kind}: {told}")
    assert not wrong, "\n".join(wrong)


def test_zero_dates_of_mysql_are_told(mariadb, tmp_path):
    with Place("mariadb", mariadb.url) as place:
        place.ask("CREATE TABLE {t} (id INT, v DATETIME)")
        with place.connected() as connection, closing(connection.cursor()) as cursor:
            cursor.execute("SET sql_mode = ''")
            cursor.execute(f"INSERT INTO {place.table} VALUES (1, '0000-00-00')")
        with pytest.raises(PipelineError, match="column v has a value .* that is no TIMESTAMP"):
            read(place, "v TIMESTAMP", tmp_path)


def test_text_that_is_no_utf_8_is_told(tmp_path):
    with Place("sqlite", f"sqlite:///{tmp_path}/x.db") as place:
        place.ask("CREATE TABLE {t} (id INT, v TEXT)")
        place.ask("INSERT INTO {t} VALUES (1, CAST(x'ff' AS TEXT))")
        with pytest.raises(PipelineError, match="column v has a value .* that is no STRING"):
            read(place, "v STRING", tmp_path)


def test_instants_do_not_depend_on_the_zone_of_the_server(postgres, mariadb, tmp_path):
    """A server in another zone gives the same instants: the connection's zone is UTC."""
    with Place("postgres", postgres.url) as one, Place("mariadb", mariadb.url) as other:
        one.ask("CREATE TABLE {t} (v TIMESTAMPTZ)")
        one.ask("INSERT INTO {t} VALUES ('2024-07-01 12:00:00+00')")
        other.ask("CREATE TABLE {t} (v TIMESTAMP NULL)")
        other.ask("INSERT INTO {t} VALUES (FROM_UNIXTIME(1719835200))")
        one.ask("ALTER DATABASE postgres SET timezone = 'Asia/Kolkata'")
        other.ask("SET GLOBAL time_zone = '+05:30'")
        try:
            for place in (one, other):
                (row,) = read(place, "v TIMESTAMP", tmp_path)
                assert row["v"] == datetime(2024, 7, 1, 12, tzinfo=UTC)
        finally:
            one.ask("ALTER DATABASE postgres RESET timezone")
            other.ask("SET GLOBAL time_zone = 'SYSTEM'")
