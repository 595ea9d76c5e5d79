"""The log of a relay, without Spark: what a crash leaves of it, and what its readers are given."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mainstem import Events
from mainstem.contracts.abilities import Reached
from mainstem.contracts.ddl import Column
from mainstem.crashpoints import Died, armed
from mainstem.errors import OptionError, PipelineError
from mainstem.relays.components import RelaySink, RelaySource
from mainstem.relays.log import RelayLog
from mainstem.relays.reading import RelayReading

MINUTE = 60_000


@pytest.fixture
def log(tmp_path):
    made = RelayLog(tmp_path / "relay")
    made.prepare("n BIGINT")
    return made


def write(log, batch, numbers, watermark=None):
    """Write a batch, one file for each number."""
    room = log.room()
    room.mkdir(parents=True)
    for number in numbers:
        pq.write_table(pa.table({"n": [number]}), room / f"{number}.parquet")
    log.add("query", batch, watermark, {f"{number}.parquet": 1 for number in numbers})


def read(log, start, *, timed=True, columns="n BIGINT, _watermark TIMESTAMP", behind=0):
    """Return the end of the next batch after an offset, and its rows."""
    reading = RelayReading(log.folder, timed, 2, behind)
    planner = reading.planner()
    end = planner.latest(start)
    kinds = {"n": pa.int64(), "more": pa.string(), "_watermark": pa.timestamp("us", "UTC")}
    names = [column.split()[0] for column in columns.split(", ")]
    schema = pa.schema([(name, kinds[name]) for name in names])
    parts = planner.parts(start, end)
    rows = [
        row for part in parts for each in reading.read(part, schema) for row in each.to_pylist()
    ]
    return end, rows


def beginning(log):
    return RelayReading(log.folder, timed=True, tasks=2).planner().initial()


def test_rows_are_read_once_each_with_the_newest_watermark(log):
    """Pass: two batches as one, then nothing, then the third; one row tells the watermark, if asked for."""
    write(log, 0, [1, 2], 5 * MINUTE)
    write(log, 1, [], 6 * MINUTE)
    end, rows = read(log, beginning(log))
    assert sorted(row["n"] for row in rows if row["n"]) == [1, 2]
    (told,) = [row["_watermark"] for row in rows if row["_watermark"]]
    assert told.timestamp() == 6 * 60
    assert read(log, end)[0] == end
    write(log, 2, [3], 7 * MINUTE)
    assert [row["n"] for row in read(log, end, timed=False, columns="n BIGINT")[1]] == [3]


def test_of_rows_that_are_behind_the_watermark_one_as_far_behind_is_told(log):
    """Pass: where windows stay open for two minutes, what reads them is told of a watermark before that."""
    write(log, 0, [1], 5 * MINUTE)
    _, rows = read(log, beginning(log), behind=2 * MINUTE)
    (told,) = [row["_watermark"] for row in rows if row["_watermark"]]
    assert told.timestamp() == 3 * 60


@pytest.mark.parametrize("point", ["before-segment", "before-entry", "after-entry"])
def test_a_segment_is_there_whole_or_not_at_all(log, point):
    """Pass: whoever dies at a step of it, nobody reads a part; written again, the rows are there once."""
    write(log, 0, [1])
    with armed(f"relay.{point}:1:die"), pytest.raises(Died):
        write(log, 1, [2, 3])
    end, rows = read(log, beginning(log))
    written = point == "after-entry"
    assert sorted(row["n"] for row in rows) == ([1, 2, 3] if written else [1])
    if not written:
        write(log, 1, [2, 3])
        assert sorted(row["n"] for row in read(log, end)[1]) == [2, 3]
    assert log.last().batch == 1
    assert list(log.damage()) == []


def test_what_was_removed_is_not_missed_and_what_is_gone_is(log):
    """Pass: a new reader begins with what is there; one that has not read a segment that is gone is told."""
    for batch in range(4):
        write(log, batch, [batch])
    first = beginning(log)
    log.remove([1, 2])
    assert sorted(row["n"] for row in read(log, beginning(log))[1]) == [2, 3]
    with pytest.raises(PipelineError, match="is gone, and has not been read"):
        read(log, first)


def test_what_was_taken_back_is_read_again_though_nothing_is_left(log):
    """Pass: a reader goes on with the numbers that it knows, at once and from then on."""
    for batch in range(3):
        write(log, batch, [batch])
    end, _ = read(log, beginning(log))
    log.remove([1, 2])
    write(log, 3, [3])
    log.remove([3])
    log.forget("query", 2)
    assert read(log, end)[1] == []
    write(log, 3, [33])
    write(log, 4, [4])
    assert sorted(row["n"] for row in read(log, end)[1]) == [4, 33]
    log.forget("query", 3)
    assert (log.last().number, log.last().batch) == (4, 3)


def test_what_is_gone_is_not_kept_in_mind(log):
    """Pass: a reader that goes on for long knows a thousand entries at most, and so does the writer."""
    planner = RelayReading(log.folder, timed=True, tasks=2).planner()
    offset = planner.initial()
    for batch in range(1200):
        log.add("query", batch, None, {})
        offset = planner.latest(offset)
    assert offset["segment"] == 1200
    assert len(planner._log._known) <= 1000
    assert len(log._known) <= 1000


def test_what_was_read_is_kept_for_as_long_as_it_is_to_be(log):
    """Pass: of what all have read the older part goes, without a look at the rest; the newest stays."""
    for batch in range(4):
        write(log, batch, [batch])
    times = [log.entry(number).at for number in range(1, 5)]
    log.remove_old(4, times[1])
    assert log.numbers() == [3, 4]
    log.remove_old(2, times[3] + 1)
    assert log.numbers() == [3, 4]
    log.remove_old(4, times[3] + 1)
    write(log, 4, [4])
    assert log.numbers() == [4, 5]
    anew = RelayLog(log.folder)
    anew.remove_old(4, times[3] + 1)
    assert anew.numbers() == [5]
    write(anew, 5, [5])
    assert anew.last().number == 6


def test_what_a_loss_of_power_has_brought_back_is_removed_again(log):
    """Pass: of segments that were removed one is there again: a new reader begins after it, and it goes."""
    for batch in range(6):
        write(log, batch, [batch])
    back = log.folder / f"{2:020}.json"
    entry = back.read_text()
    log.remove_old(3, log.entry(6).at)
    back.write_text(entry)
    anew = RelayLog(log.folder)
    assert anew.first() == 4
    assert sorted(row["n"] for row in read(anew, beginning(anew))[1]) == [3, 4, 5]
    anew.remove_old(4, log.entry(6).at)
    assert anew.numbers() == [5, 6]


def test_a_log_made_anew_is_not_taken_for_the_other(log, tmp_path):
    """Pass: an offset of the one is refused by the other."""
    write(log, 0, [1])
    offset = beginning(log)
    other = RelayLog(tmp_path / "other")
    other.prepare("n BIGINT")
    write(other, 0, [1])
    with pytest.raises(PipelineError, match="was made anew"):
        read(other, offset)


def test_segments_of_other_columns_are_read_with_those_of_now(log):
    """Pass: a column that came later is null in rows of before."""
    write(log, 0, [1])
    log.prepare("n BIGINT, more STRING")
    columns = "n BIGINT, more STRING, _watermark TIMESTAMP"
    assert read(log, beginning(log), columns=columns)[1] == [
        {"n": 1, "more": None, "_watermark": None}
    ]


def test_damage_is_told_with_the_file(log):
    """Pass: an entry that was changed, and a file that is gone."""
    write(log, 0, [1])
    write(log, 1, [2])
    (log.folder / "segments" / f"{2:020}" / "2.parquet").unlink()
    entry = log.folder / f"{1:020}.json"
    entry.write_text(entry.read_text().replace('"batch": 0', '"batch": 9'))
    told = list(RelayLog(log.folder).damage())
    assert len(told) == 2
    assert "was changed after it was written" in told[0]
    assert "2.parquet" in told[1]


@pytest.mark.parametrize(
    "kind", ["struct<variant_id:int,void:int>", "map<string,struct<`a void`:int>>"]
)
def test_a_field_is_not_taken_for_a_type_that_it_is_named_after(tmp_path, kind):
    """Pass: it is held; the types are refused, within others too."""
    sink = RelaySink(tmp_path, "relay")
    sink.prepare([Column("a", kind)], Events("a STRING"))
    for refused in ("variant", "array<void>", "struct<v:variant>", "interval day to second"):
        with pytest.raises(OptionError, match="can't hold the column b"):
            sink.prepare([Column("b", refused)], Events("b STRING"))


def test_who_has_read_nothing_misses_what_is_gone(tmp_path):
    """Pass: nothing is gone of a log that begins at 1; then what was before the oldest segment is."""
    source = RelaySource(tmp_path, "relay", Events("n BIGINT"), timed=False)
    log = RelayLog(tmp_path / "relays" / "relay")
    log.prepare("n BIGINT")
    write(log, 0, [1])
    write(log, 1, [2])
    nothing = Reached(None, tmp_path, tmp_path)
    assert source.gone(nothing) == ""
    log.remove([1])
    assert source.gone(nothing) == "segments 1 to 1 of the relay"


def test_partitions_are_no_further_than_any_once_all_batches_are_taken_back(log):
    """Pass: how far each was is not known then, and none holds back less than the furthest back."""
    for batch in range(3):
        log.add("query", batch, None, {}, {"a": (100 + batch, 5.0), "b": (7, 6.0)})
    log.remove([1])
    log.forget("query", 0)
    assert log.last().marks == {"a": [7, 5.0], "b": [7, 6.0]}
