"""The paging of state, without Spark."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed_driver import OneBucket, key
from keyed_logics import TIME, Count, CountText, Remember
from mainstem.durable import DamagedError
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = pl.Schema({"k": pl.Int64, "text": pl.String, "at": TIME})
#: Pages of a few rows, portions of a few pages.
SMALL = {"page_bytes": 2_000, "portion_bytes": 6_000}


def micros(at: datetime) -> int:
    return round((at - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))


def rows_of(ids: list[int | None]) -> list[dict[str, object]]:
    return [{KEY: key(k), "k": k} for k in ids]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[list[dict[str, object]], int | None]]:
    """Batches of rows with their watermarks; keys few or many, some hot, some without."""
    keys = draw(st.sampled_from([3, 40, 3000]))
    seconds = 0
    batches = []
    for _ in range(draw(st.integers(1, 8))):
        rows = []
        for _ in range(draw(st.integers(0, 40))):
            k = draw(st.one_of(st.none(), st.just(0), st.integers(0, keys)))
            due = draw(st.one_of(st.none(), st.integers(0, 100)))
            at = None if due is None else START + timedelta(seconds=seconds + due)
            text = "x" * draw(st.sampled_from([0, 5, 300]))
            rows.append({KEY: key(k), "k": k, "text": text, "at": at})
        batches.append((rows, micros(START + timedelta(seconds=seconds)) if seconds else None))
        seconds += draw(st.integers(0, 60))
    return batches


@settings(max_examples=150, deadline=None)
@given(
    histories(),
    st.sampled_from([SMALL, {"page_bytes": 200, "portion_bytes": 1}, {}]),
    st.booleans(),
)
@pytest.mark.in_turn
def test_any_batches_give_what_one_list_gives(history, limits, queued) -> None:
    """Pass: rows come out once they are due, and only those, as if all state were one list; also where
    they wait apart from their keys."""
    bucket = OneBucket(Remember(COLUMNS, "at", queued), **limits)
    kept: list[dict[str, object]] = []
    for rows, watermark in history:
        found = bucket.batch({"rows": rows}, watermark)
        kept += rows
        due = [r for r in kept if watermark and r["at"] and micros(r["at"]) <= watermark]
        kept = [r for r in kept if r not in due]
        assert _bag(found.get(MAIN, [])) == _bag(rows)
        assert _bag(found.get("gone", [])) == _bag(due)
        wanted = min((micros(r["at"]) for r in kept if r["at"]), default=None)
        assert bucket.timer == (None if wanted is None else -(-wanted // 1000))
    end = micros(START + timedelta(days=1))
    found = bucket.batch({}, end)
    assert _bag(found.get("gone", [])) == _bag([r for r in kept if r["at"]])
    if all(r["at"] for r in kept):
        assert not bucket.store.entries, "an empty bucket leaves nothing behind"


def _bag(rows: list[dict[str, object]]) -> Counter[tuple[object, ...]]:
    return Counter((r["k"], r["text"], r["at"]) for r in rows)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.one_of(st.none(), st.integers(0, 500)), max_size=60), max_size=8))
@pytest.mark.in_turn
def test_counts_are_exact_however_pages_are_cut(batches) -> None:
    """Pass: counting by key over small pages gives what a Counter gives."""
    bucket, counter = OneBucket(Count(), **SMALL), Counter()
    for ids in batches:
        counter.update(ids)
        found = bucket.batch({"rows": rows_of(ids)}).get(MAIN, [])
        assert {r["k"]: r["n"] for r in found} == {k: counter[k] for k in set(ids)}


def test_only_touched_pages_are_read_and_only_changed_ones_written() -> None:
    """Pass: of 5,000 keys' pages, one row reads one and writes one, and one that changes nothing none."""
    bucket = OneBucket(Keep(), page_bytes=4_000)
    bucket.batch({"rows": rows_of(list(range(5000)))})
    assert len(bucket.store.entries) > 30
    bucket.store.forget_counts()
    bucket.batch({"rows": rows_of([77])})
    assert len(bucket.store.got) == 2, "the directory and a page"
    assert not bucket.store.written
    bucket.store.forget_counts()
    bucket.batch({"rows": rows_of([100_000])})
    assert len(bucket.store.got) == 2
    assert len(bucket.store.written) == 2, "a page and the directory"


class Keep(Count):
    """Keeps the first row of each key; what is there stays in its place."""

    def step(self, step: Step) -> Done:
        old = step.state["counts"]
        new = step.rows["rows"].unique(KEY).join(old, on=KEY, how="anti")
        rows = new.select(KEY, n=pl.lit(1, pl.Int64))
        return Done({}, {"counts": pl.concat([old, rows]) if rows.height else old})


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2999), min_size=1, max_size=30), max_size=6))
@pytest.mark.in_turn
def test_few_keys_of_many_are_handled_alone(batches) -> None:
    """Pass: with much state and few rows, a step has only their keys, and no other row is lost."""
    sizes: list[int] = []

    class Watching(Count):
        def step(self, step: Step) -> Done:
            sizes.append(step.state["counts"].height)
            return super().step(step)

    bucket, counter = OneBucket(Watching(), page_bytes=30_000), Counter(range(3000))
    bucket.batch({"rows": rows_of(list(range(3000)))})
    for ids in batches:
        sizes.clear()
        counter.update(ids)
        found = bucket.batch({"rows": rows_of(ids)})[MAIN]
        assert {r["k"]: r["n"] for r in found} == {k: counter[k] for k in set(ids)}
        assert max(sizes) == len(set(ids))
    found = bucket.batch({"rows": rows_of(list(range(3000)))})[MAIN]
    assert {r["k"]: r["n"] for r in found} == {k: counter[k] + 1 for k in range(3000)}


def test_a_row_due_before_1970_is_given_once_there_is_a_watermark() -> None:
    """Pass: without a watermark its bucket is to be woken after 0, which is Spark's until there is one."""
    bucket = OneBucket(Remember(COLUMNS, "at"))
    old = datetime(1965, 1, 1, tzinfo=UTC)
    bucket.batch({"rows": [{KEY: key(1), "k": 1, "text": "", "at": old}]})
    assert bucket.timer == 1
    found = bucket.batch({}, micros(START))
    assert [r["k"] for r in found["gone"]] == [1]
    assert bucket.timer is None


def test_pages_stay_about_as_large_as_wanted() -> None:
    """Pass: pages are between a tenth and all of the limit, also where one range of hashes is hot."""
    bucket = OneBucket(Keep(), page_bytes=8_000)
    hot = [{KEY: key(k, 1_000_000 + k), "k": k} for k in range(20_000)]
    bucket.batch({"rows": hot})
    bucket.batch({"rows": rows_of(list(range(100_000, 102_000)))})
    directory = bucket.directory()
    sizes = sorted(page.size for page in directory.pages)
    assert sizes[-1] <= 8_000
    assert sizes[len(sizes) // 2] >= 2_000
    assert sum(page.tables["counts"].rows for page in directory.pages) == 22_000


def test_pages_that_shrink_become_fewer() -> None:
    """Pass: when most rows have gone, few pages are left, and what stays is there."""
    bucket = OneBucket(Remember(COLUMNS, "at"), page_bytes=4_000)
    soon, later = START + timedelta(seconds=5), START + timedelta(days=9)
    rows = [
        {KEY: key(k), "k": k, "text": "x" * 40, "at": later if k % 100 == 0 else soon}
        for k in range(4000)
    ]
    bucket.batch({"rows": rows})
    many = len(bucket.store.entries)
    found = bucket.batch({}, micros(START + timedelta(seconds=6)))
    assert len(found["gone"]) == 3960
    assert many > 60
    assert len(bucket.store.entries) < 20
    found = bucket.batch({}, micros(later))
    assert sorted(r["k"] for r in found["gone"]) == list(range(0, 4000, 100))
    assert not bucket.store.entries


def test_a_huge_key_is_a_page_of_its_own() -> None:
    """Pass: a key with 10,000 rows is one page, and reading its neighbours does not read it."""
    bucket = OneBucket(Remember(COLUMNS, "at"), page_bytes=4_000)
    row = {"text": "y" * 20, "at": None}
    bucket.batch({"rows": [{KEY: key(1), "k": 1, **row}] * 10_000})
    others = [{KEY: key(k), "k": k, **row} for k in range(2, 500)]
    bucket.batch({"rows": others})
    directory = bucket.directory()
    (huge,) = [page for page in directory.pages if page.tables["kept"].rows >= 10_000]
    assert huge.tables["kept"].rows == 10_000
    assert len(directory.pages) > 5
    bucket.store.forget_counts()
    found = bucket.batch({"rows": [{KEY: key(1), "k": 1, **row}]})
    assert len(found[MAIN]) == 1
    bucket.store.forget_counts()
    bucket.batch({"rows": [others[0]]})
    assert ("kept", huge.number) not in bucket.store.got


def test_portions_bound_what_a_step_is_given() -> None:
    """Pass: no step is given much more than the limit, and each key is whole in one step."""
    seen: list[tuple[int, set[bytes]]] = []

    class Watching(Remember):
        def step(self, step: Step) -> Done:
            size = sum(f.estimated_size() for f in (*step.rows.values(), *step.state.values()))
            seen.append((int(size), set(step.rows["rows"][KEY].to_list())))
            return super().step(step)

    bucket = OneBucket(Watching(COLUMNS, "at"), page_bytes=4_000, portion_bytes=40_000)
    rows = [{KEY: key(k), "k": k, "text": "z" * 50, "at": None} for k in range(2_000)]
    bucket.batch({"rows": rows})
    for _ in range(3):
        seen.clear()
        bucket.batch({"rows": rows})
        assert len(seen) > 3
        assert max(size for size, _ in seen) < 100_000
        keys = [k for _, some in seen for k in some]
        assert len(keys) == len(set(keys)) == 2_000


def test_older_state_is_migrated_when_it_is_touched() -> None:
    """Pass: a new version reads the old counts, key by key, and what it has not touched stays old."""
    bucket = OneBucket(Count(), page_bytes=2_000)
    bucket.batch({"rows": rows_of(list(range(1000)))})
    bucket.logic = CountText()
    assert bucket.batch({"rows": rows_of([5])}) == {MAIN: [{"k": 5, "n": "2"}]}
    tables = {table for table, _ in bucket.store.entries}
    assert tables == {"", "counts", "totals"}
    found = bucket.batch({"rows": rows_of(list(range(1000)))})[MAIN]
    assert {r["k"]: r["n"] for r in found} == {k: "3" if k == 5 else "2" for k in range(1000)}
    assert {table for table, _ in bucket.store.entries} == {"", "totals"}


class Wide(Logic):
    """Keeps each key's newest row and gives the one before; some columns, or one more."""

    outputs = {MAIN: pl.Schema({"k": pl.Int64, "more": pl.String})}

    def __init__(self, *, queued: bool, wide: bool) -> None:
        more = {"more": pl.String} if wide else {}
        columns = pl.Schema({**more, "k": pl.Int64, "due": pl.Datetime("us", "UTC")})
        self.ports = {"rows": columns}
        self.tables = {"rows": Table(columns, due="due", queued=queued)}

    def step(self, step: Step) -> Done:
        came = step.state["rows"]
        rows = step.rows["rows"].select(came.columns)
        if not self.tables["rows"].queued:
            others = came.join(rows, on=KEY, how="anti", maintain_order="left")
            came = came.join(rows, on=KEY, how="semi", maintain_order="left")
            rows = pl.concat([others, rows])
        if "more" not in came.columns:
            came = came.with_columns(more=pl.lit(None, pl.String))
        return Done({MAIN: came.select("k", "more")}, {"rows": rows})


@pytest.mark.parametrize("queued", [False, True])
def test_rows_of_before_a_column_was_added_have_a_null_in_it(queued: bool) -> None:
    """Pass: of one version, wherever the column stands; rows of after have what they had."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    bucket = OneBucket(Wide(queued=queued, wide=False), page_bytes=500)
    bucket.batch({"rows": [{KEY: key(n), "k": n, "due": at} for n in range(100)]})
    bucket.logic = Wide(queued=queued, wide=True)
    new = [{KEY: key(n), "k": n, "due": at, "more": "x"} for n in range(50)]
    micros = int(at.timestamp() * 1e6)
    found = bucket.batch({"rows": new}, micros - 1) if queued else bucket.batch({"rows": new})
    if queued:
        assert not found
        found = bucket.batch({"rows": []}, micros)
        assert {(r["k"], r["more"]) for r in found[MAIN]} == {
            *((n, None) for n in range(100)),
            *((n, "x") for n in range(50)),
        }
    else:
        assert {(r["k"], r["more"]) for r in found[MAIN]} == {(n, None) for n in range(50)}
        found = bucket.batch({"rows": new})
        assert {(r["k"], r["more"]) for r in found[MAIN]} == {(n, "x") for n in range(50)}


class Signs(Logic):
    """Keeps rows below 0 and others in two tables."""

    ports = {"rows": pl.Schema({"k": pl.Int64})}
    tables = {name: Table(pl.Schema({"k": pl.Int64()})) for name in ("above", "below")}
    outputs = {MAIN: pl.Schema({"k": pl.Int64})}

    def step(self, step: Step) -> Done:
        rows, below = step.rows["rows"], pl.col("k") < 0
        new = {"above": rows.filter(~below), "below": rows.filter(below)}
        return Done({}, {n: pl.concat([step.state[n], more]) for n, more in new.items()})


class OneSign(Signs):
    """As `Signs`, in a later version that keeps all in one table; tells what a key has."""

    version = 2
    tables = {"every": Table(pl.Schema({"k": pl.Int64()}))}

    def step(self, step: Step) -> Done:
        return Done({MAIN: step.state["every"].drop(KEY)})

    def migrate(self, state: Mapping[str, pl.DataFrame], version: int) -> dict[str, pl.DataFrame]:
        return {"every": pl.concat([state["above"], state["below"]])}


@pytest.mark.parametrize("both", [False, True])
def test_a_table_without_rows_is_migrated_as_an_empty_one(both: bool) -> None:
    """Pass: `migrate` has both tables though one never had rows, and where only other pages have."""
    bucket = OneBucket(Signs(), page_bytes=500)
    ids = list(range(200)) + list(range(-20, 0) if both else [])
    bucket.batch({"rows": rows_of(ids)})
    pages = bucket.directory().pages
    assert any(set(page.tables) == {"above"} for page in pages)
    bucket.logic = OneSign()
    found = bucket.batch({"rows": rows_of(ids)})[MAIN]
    assert sorted(r["k"] for r in found) == sorted(ids)


def test_state_of_a_version_that_nobody_reads_is_an_error() -> None:
    """Pass: the error names the version."""
    bucket = OneBucket(CountText())
    bucket.batch({"rows": rows_of([1])})
    bucket.logic = Count()
    with pytest.raises(NotImplementedError, match="Count can't read state of version 2"):
        bucket.batch({"rows": rows_of([1])})


def test_a_row_of_another_key_is_an_error() -> None:
    """Pass: a logic that returns rows of keys that were not loaded is told so."""

    class Wrong(Count):
        def step(self, step: Step) -> Done:
            rows = pl.DataFrame({KEY: [key(999, 4_000_000_000)], "n": [1]})
            return Done({}, {"counts": rows})

    bucket = OneBucket(Keep(), page_bytes=2_000)
    bucket.batch({"rows": rows_of(list(range(1000)))})
    bucket.logic = Wrong()
    with pytest.raises(ValueError, match="rows of keys that the step did not have"):
        bucket.batch({"rows": [{KEY: key(1, 5), "k": 1}]})


@pytest.mark.parametrize(
    ("done", "message"),
    [
        (Done({"other": pl.DataFrame()}), "an output 'other', which it does not declare"),
        (Done({MAIN: pl.DataFrame({"k": [1]})}), "output '' has the columns"),
        (Done({}, {"other": pl.DataFrame()}), "a table 'other', which it does not declare"),
        (Done({}, {"counts": pl.DataFrame({"n": [1]})}), "table 'counts' has the columns"),
    ],
)
def test_what_is_not_declared_is_an_error(done: Done, message: str) -> None:
    """Pass: the error names the logic, and what it returned."""

    class Wrong(Count):
        def step(self, step: Step) -> Done:
            return done

    with pytest.raises(ValueError, match=message) as error:
        OneBucket(Wrong()).batch({"rows": rows_of([1])})
    assert "Wrong" in str(error.value)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_the_hash_of_a_key_is_its_first_bytes(kind: Any) -> None:
    """Pass: keys begin with the CRC-32 of their values, 0 for none, whatever the array's offset."""
    from mainstem_keyed_state.hashes import hashes_of, keyed_by

    values = pa.array([b"skipped!", b"a", None, b"b" * 50, b""], kind)[1:]
    wanted = [zlib.crc32(b"a"), 0, zlib.crc32(b"b" * 50), 0]
    keys, hashes = keyed_by(values)
    assert hashes.tolist() == wanted
    assert keys.type == kind
    assert keys.to_pylist() == [key("a"), None, key("b" * 50), key("")]
    assert hashes_of(pl.Series(keys)).tolist() == wanted


def test_a_row_without_a_key_has_no_hash_though_bytes_lie_there() -> None:
    """Pass: 0 for a null whose place in the array still has the bytes of a key."""
    from mainstem_keyed_state.hashes import hashes_of

    whole = pl.Series([key("a"), key("b" * 50)]).to_arrow(compat_level=pl.CompatLevel.newest())
    valid = pa.py_buffer(bytes([0b01]))
    masked = pa.Array.from_buffers(whole.type, 2, [valid, *whole.buffers()[1:]])
    keys = pl.Series(masked)
    assert keys.to_list() == [key("a"), None]
    assert hashes_of(keys).tolist() == [zlib.crc32(b"a"), 0]


# -- rows that wait apart from their keys -----------------------------------------------------


def waiting_rows(first: int, count: int, spread: int = 0) -> list[dict[str, object]]:
    """Rows of 500 keys, one a second, each due up to so many seconds later than it came."""
    chance = random.Random(first)
    return [
        {
            KEY: key(n % 500),
            "k": n % 500,
            "text": "x" * 50,
            "at": START + timedelta(seconds=n + chance.uniform(0, spread)),
        }
        for n in range(first, first + count)
    ]


@pytest.mark.parametrize("spread", [0, 5000])
@pytest.mark.in_turn
def test_rows_that_wait_cost_what_comes_and_goes(spread) -> None:
    """Pass: with fifty times as many rows that wait, a batch writes no more than three times as much, and
    a row is written a few times in all; by key it would be written fifty times."""
    written = {}
    for waiting in (1000, 50_000):
        bucket = OneBucket(Remember(COLUMNS, "at", queued=True))
        bucket.batch({"rows": waiting_rows(0, waiting, spread)}, 1)
        sizes = []
        for number in range(20):
            bucket.store.forget_counts()
            came = waiting_rows(waiting + number * 500, 500, spread)
            at = micros(START + timedelta(seconds=(number + 1) * 500 - 1))
            bucket.batch({"rows": came}, at)
            entries = bucket.store.entries
            sizes.append(
                sum(len(entries[name][1]) for name in set(bucket.store.written) & set(entries))
            )
        written[waiting] = sum(sizes) / (20 * 500)
        assert len(bucket.store.entries) < 200
    assert written[50_000] < 3 * written[1000]
    assert written[50_000] < 8 * 100, "bytes of a row's writes, of some 100 bytes each"


def test_rows_that_were_kept_by_key_wait_apart_from_now_on() -> None:
    """Pass: a later version queues what an older one kept by key; each row comes out once, in time."""

    class Queued(Remember):
        version = 2

        def migrate(self, state, version):
            return state

    bucket = OneBucket(Remember(COLUMNS, "at"), **SMALL)
    rows = waiting_rows(0, 100)
    bucket.batch({"rows": rows}, 1)
    bucket.logic = Queued(COLUMNS, "at", queued=True)
    gone = []
    for seconds in (10, 50, 70, 200):
        found = bucket.batch(
            {"rows": waiting_rows(1000 + seconds, 3)}, micros(START + timedelta(seconds=seconds))
        )
        gone.append([r["at"] for r in found.get("gone", [])])
    due = [r["at"] for r in rows]
    assert sorted(at for some in gone for at in some) == due
    assert sorted(gone[0]) == due[:11]
    assert [len(some) for some in gone] == [11, 40, 20, 29]


class Quiet(Remember):
    """As `Remember` with a queue, in a later version that returns its table only if it has changed."""

    version = 2

    def migrate(
        self, state: Mapping[str, pl.DataFrame], version: int
    ) -> Mapping[str, pl.DataFrame]:
        return state

    def step(self, step: Step) -> Done:
        rows, due = step.rows["rows"], step.state["kept"]
        state = {"kept": rows.filter(pl.col("at").is_not_null())} if due.height else {}
        return Done({MAIN: rows.drop(KEY), "gone": due.drop(KEY)}, state)


def test_what_an_older_version_kept_by_key_waits_though_a_step_returns_nothing_of_it() -> None:
    """Pass: a step is given the rows that are due, and no others; those come in their time."""
    bucket = OneBucket(Remember(COLUMNS, "at"))
    rows = waiting_rows(0, 100)
    bucket.batch({"rows": rows}, 1)
    bucket.logic = Quiet(COLUMNS, "at", queued=True)
    touch = [{**row, "at": None} for row in rows]
    assert not bucket.batch({"rows": touch}, 1).get("gone")
    gone = bucket.batch({}, micros(START + timedelta(seconds=200)))["gone"]
    assert sorted(r["at"] for r in gone) == [r["at"] for r in rows]


class Gone(OneSign):
    """As `OneSign`, but forgets all that was there."""

    def step(self, step: Step) -> Done:
        return Done({MAIN: step.state["every"].drop(KEY)}, {"every": step.state["every"].clear()})


def test_a_page_above_the_limit_may_become_empty_as_it_is_migrated() -> None:
    """Pass: rows of one key on one large page are migrated and removed in one step."""
    bucket = OneBucket(Signs(), page_bytes=500)
    one = [{KEY: key(1), "k": n} for n in range(1, 300)]
    bucket.batch({"rows": one})
    bucket.logic = Gone()
    assert len(bucket.batch({"rows": one[:1]})[MAIN]) == 299
    assert not bucket.batch({"rows": one[:1]}).get(MAIN)


def test_a_queue_that_is_no_longer_declared_is_told() -> None:
    bucket = OneBucket(Remember(COLUMNS, "at", queued=True))
    bucket.batch({"rows": waiting_rows(0, 10)}, 1)
    bucket.logic = Remember(COLUMNS, "at")
    with pytest.raises(ValueError, match="rows of \\['kept'\\] wait"):
        bucket.batch({"rows": waiting_rows(0, 10)}, 1)


@pytest.mark.in_turn
def test_every_changed_bit_of_what_is_kept_is_found() -> None:
    """Pass: the error says what was changed and what to do; a page under another's name is found too."""
    bucket = OneBucket(Remember(COLUMNS, "at"))
    rows = [{KEY: key(k), "k": k, "text": "x", "at": START} for k in range(3)]
    bucket.batch({"rows": rows})
    whole = dict(bucket.store.entries)
    assert len(whole) == 2
    for name, (layout, data) in whole.items():
        for bit in range(8 * len(data)):
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            bucket.store.entries = {**whole, name: (layout, bytes(changed))}
            with pytest.raises(DamagedError, match="was changed after it was written .*rollback"):
                bucket.batch({"rows": rows})
    (page,) = (name for name in whole if name[0])
    moved = (page[0], page[1] + 1)
    bucket.store.entries = {**whole, moved: whole[page]}
    with pytest.raises(DamagedError, match=f"page {moved[1]} of table"):
        bucket.entries().get([moved])
