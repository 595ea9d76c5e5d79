"""Times that the sink `sql` writes are the same instants, whatever the time zones."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta

import pytest
from mainstem import Events
from sql_writing import STRATEGIES, changes, slow, strategies

EDGES = [
    datetime(2024, 3, 31, 1, 30, tzinfo=UTC),  # the hour that the clocks of Europe skip
    datetime(2024, 10, 27, 0, 30, tzinfo=UTC),  # and the one that they have twice
    datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
    datetime(1890, 1, 1, 12, 0, 0, 123456, UTC),  # when clocks were 53 minutes and 28 seconds ahead
    datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC),
]
PLAIN = [datetime(2024, 3, 31, 2, 30), datetime(2024, 10, 27, 2, 30, 0, 1)]
DDL = "id BIGINT, t TIMESTAMP, n TIMESTAMP_NTZ, d DATE"
ROWS = [
    {"id": n, "t": EDGES[n % len(EDGES)], "n": PLAIN[n % 2], "d": date(2024, 3, 31) + timedelta(n)}
    for n in range(24)
]


FAR = [slow("Pacific/Auckland"), slow("America/St_Johns")]


@pytest.fixture(params=["Europe/Berlin", *FAR])
def abroad(request, spark, monkeypatch):
    """Puts this machine and Spark's session into a zone far from UTC."""
    before = spark.conf.get("spark.sql.session.timeZone")
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)
    monkeypatch.undo()
    time.tzset()


def server_in(place, zone):
    """Let a server's new sessions be in a zone; return what undoes it."""
    if place.product == "postgres":
        place.ask(f"ALTER DATABASE postgres SET timezone = '{zone}'")
        return "ALTER DATABASE postgres RESET timezone"
    place.ask("SET GLOBAL time_zone = '+13:00'")
    return "SET GLOBAL time_zone = DEFAULT"


@pytest.mark.parametrize(
    "count", [2, 24], ids=["few", "many"]
)  # which PostgreSQL takes differently
@strategies("transactional", "staged")
@pytest.mark.in_turn
def test_instants_are_the_same_in_every_zone(place, abroad, how, count):
    """Pass: with machine, session and server abroad, what a reader in UTC sees are the same instants,
    and times without a zone and dates are as they were."""
    undo = server_in(place, abroad) if place.server else None
    try:
        rows = [*ROWS[:count], {"id": 99}]
        assert place.write(rows, DDL, how, parts=2) is None
    finally:
        if undo:
            place.ask(undo)
    wanted = [(row["id"], row.get("t"), row.get("n"), row.get("d")) for row in rows]
    assert place.read(DDL) == wanted


def test_a_column_that_counts_seconds_is_given_the_same_instants(place_in, abroad):
    """Pass: MySQL turns what it is given for a TIMESTAMP from the session's zone, which is UTC."""
    place = place_in("mariadb")
    place.ask("CREATE TABLE {t} (id BIGINT, t TIMESTAMP(6) NULL)")
    undo = server_in(place, abroad)
    try:
        assert place.write(ROWS[:1], "id BIGINT, t TIMESTAMP") is None
    finally:
        place.ask(undo)
    (seconds,) = place.ask("SELECT UNIX_TIMESTAMP(t) FROM {t}")[0]
    assert seconds == EDGES[0].timestamp()


def test_versions_that_are_times_are_compared_as_instants(place, abroad):
    """Pass: of the two hours that clocks show alike, the later one is the newer."""
    shape = changes("id BIGINT, name STRING, t TIMESTAMP", ["id"], "t")
    early, late = EDGES[1:3]
    place.write(
        [{"id": 1, "name": "late", "t": late}, {"id": 2, "name": "early", "t": early}], shape
    )
    rows = [{"id": 1, "name": "early", "t": early}, {"id": 2, "name": "late", "t": late}]
    place.write(rows, shape, number=1)
    assert place.rows() == [(1, "late"), (2, "late")]


def test_times_that_a_product_has_not_come_back(place):
    """Pass: no other time is written than the one given; PostgreSQL has all years from 1 to 9999."""
    rows = [
        {"id": n, "t": datetime(year, 6, 1, tzinfo=UTC)}
        for n, year in enumerate((1, 999, 1582, 9999))
    ]
    refused = place.write(rows, "id BIGINT, t TIMESTAMP")
    told = 0 if refused is None else refused.count()
    found = place.read("id BIGINT, t TIMESTAMP")
    assert found == [(row["id"], row["t"]) for row in rows if row["id"] in {n for n, _ in found}]
    assert len(found) + told == len(rows)
    assert place.product != "postgres" or not told


@strategies("transactional", "staged")
def test_a_time_beyond_the_year_9999_is_a_refused_row(place, spark, how):
    """Pass: the row is refused with its column, its number is in what is told of it, the others are written;
    no text that is none of a time is in the table."""
    far = 1_711_848_600_000  # milliseconds, taken for seconds
    frame = spark.sql(
        f"SELECT id, timestamp_seconds(IF(id = 1, {far}L, 1711848600L)) AS t, "
        "IF(id = 2, date_from_unix_date(20000000), DATE '2024-01-01') AS d FROM range(4)"
    )
    shape = Events("id BIGINT, t TIMESTAMP, d DATE")
    refused = STRATEGIES[how].write(place.sink(), frame, place.batch(shape))
    told = {row["reason"]: bytes(row["payload"]).decode() for row in refused.collect()}
    assert told.keys() == {f"column {name} is beyond the years 1 to 9999" for name in ("t", "d")}
    assert str(far * 1_000_000) in told["column t is beyond the years 1 to 9999"]
    assert [row[0] for row in place.read("id BIGINT, t TIMESTAMP, d DATE")] == [0, 3]
