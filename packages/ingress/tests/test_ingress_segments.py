"""Segments: what goes in comes out, and what is not whole is refused by its name."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ingress_far import messages, store_of, values_in
from mainstem_ingress import LogError, Message, Values
from mainstem_ingress.log import Log, keep_cursor
from mainstem_ingress.segments import (
    ID,
    REASON,
    Header,
    as_batch,
    ending,
    file_of,
    numbers,
    open_segment,
    read_header,
    remove_torn,
    schema_of,
    write,
)

HASH = bytes(range(16))


def through_a_file(
    folder: Path, given: list[Message], *extra: pa.Field[Any], ids: Any = None
) -> Any:
    """Return the rows of a segment that was written and read."""
    header = Header(0, len(given), 0, 0, 1.5)
    write(folder, header, as_batch(given, ids, schema_of(extra)))
    found, batch = open_segment(file_of(folder, 0))
    assert found == header
    batch.validate(full=True)
    return batch.to_pylist()


def column(rows: Any, name: str) -> list[Any]:
    return [row[name] for row in rows]


def test_a_column_of_values_is_stored_as_its_messages_are(tmp_path: Path) -> None:
    """Pass: the same rows, whichever way they came, but for the time of storing."""
    column = Values([b"a", memoryview(b"xbcx")[1:3], bytearray(), bytes(300)], "é")
    schema = schema_of([pa.field("n", pa.int64()), pa.field("t", pa.string())])
    as_column = as_batch(column, None, schema)
    each = [message._replace(extra=(None, None)) for message in column]
    as_messages = as_batch(each, None, schema)
    as_column.validate(full=True)
    assert as_column.schema == as_messages.schema
    assert as_column.drop_columns("timestamp") == as_messages.drop_columns("timestamp")
    assert as_column["value"].to_pylist() == [b"a", b"bc", b"", bytes(300)]
    assert as_column["timestamp"].null_count == 0


@pytest.mark.parametrize(
    "values",
    [
        [b"a"],
        [None],
        [b""],
        [b"a", None, b"", b"\x00\xff", None],
        [None, None],
        [None] * 9 + [b"last"],
        [bytes([n]) * n for n in range(40)],
    ],
)
def test_keys_and_values_are_bytes_or_nothing(tmp_path: Path, values: list[bytes | None]) -> None:
    rows = through_a_file(tmp_path, [Message(v, key=v) for v in values])
    assert column(rows, "value") == values
    assert column(rows, "key") == values


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([None], [None]),
        ([[]], [[]]),
        ([None, []], [None, []]),
        ([[("a", b"1")], None, [], [("b", b"2"), ("c", b"")]],
         [[("a", b"1")], None, [], [("b", b"2"), ("c", b"")]]),
        ([[("a", b"1"), ("b", b"2"), ("a", b"3")]], [[("a", b"3"), ("b", b"2")]]),
        ([[("ключ é 🦀", "значение".encode())]], [[("ключ é 🦀", "значение".encode())]]),
        ([[("", b"empty name")]], [[("", b"empty name")]]),
        ([[("same", b"1")], [("same", b"2")], [("same", b"")]],
         [[("same", b"1")], [("same", b"2")], [("same", b"")]]),
    ],
)  # fmt: skip
def test_headers_keep_their_pairs_and_of_a_repeated_name_the_last(
    tmp_path: Path, given: list[Any], found: list[Any]
) -> None:
    rows = through_a_file(tmp_path, [Message(b"v", headers=pairs) for pairs in given])
    assert column(rows, "headers") == found


def test_texts_and_times(tmp_path: Path) -> None:
    given = [
        Message(b"", origin="очередь 🦀", timestamp=0),
        Message(b"", origin="", timestamp=-1),
        Message(b"", origin="q", timestamp=1_700_000_000_123_456, refused="too large"),
    ]
    rows = through_a_file(tmp_path, given)
    assert column(rows, "origin") == ["очередь 🦀", "", "q"]
    assert [round(t.timestamp() * 1e6) for t in column(rows, "timestamp")] == [
        m.timestamp for m in given
    ]
    assert column(rows, REASON) == [None, None, "too large"]


def test_one_origin_for_all_rows(tmp_path: Path) -> None:
    rows = through_a_file(tmp_path, [Message(b"", origin="é")] * 3)
    assert column(rows, "origin") == ["é"] * 3


def test_a_message_without_a_time_has_that_of_storing(tmp_path: Path) -> None:
    import time

    before = time.time()
    (row,) = through_a_file(tmp_path, [Message(b"")])
    assert before - 0.001 <= row["timestamp"].timestamp() <= time.time() + 0.001


def test_ids_stand_beside_rows_that_have_one(tmp_path: Path) -> None:
    rows = through_a_file(tmp_path, messages(1, 2, 3), ids=[None, HASH, None])
    assert column(rows, ID) == [None, HASH, None]
    assert column(through_a_file(tmp_path, messages(1)), ID) == [None]


def test_columns_that_a_source_adds(tmp_path: Path) -> None:
    extra = [
        pa.field("n", pa.int64()),
        pa.field("t", pa.string()),
        pa.field("at", pa.timestamp("us", "UTC")),
    ]
    given = [
        Message(b"", extra=(2**62, "é", 0)),
        Message(b"", extra=(None, None, None)),
        Message(b"", extra=(-1, "", 1)),
        Message(b"x", refused="it is none"),  # has none of them
    ]
    rows = through_a_file(tmp_path, given, *extra)
    assert column(rows, "n") == [2**62, None, -1, None]
    assert column(rows, "t") == ["é", None, "", None]
    assert [t and t.microsecond for t in column(rows, "at")] == [0, None, 1, None]


# -- files --------------------------------------------------------------------------------------


def test_numbers_go_on_and_sums_stand_in_each_header(log: Log) -> None:
    store = store_of(log)
    for count in (1, 3, 2):
        store.store(messages(*range(count)))
    files = [file_of(store.folder, n) for n in range(3)]
    headers = [read_header(file) for file in files]
    assert [h.number for h in headers] == [0, 1, 2]
    assert [h.rows for h in headers] == [1, 3, 2]
    assert [h.rows_before for h in headers] == [0, 1, 4]
    sizes = [file.stat().st_size for file in files]
    assert [h.bytes_before for h in headers] == [0, sizes[0], sizes[0] + sizes[1]]
    again = store_of(log)
    assert (again.next, again.rows, again.bytes) == (3, 6, sum(sizes)) == (
        store.next, store.rows, store.bytes,
    )  # fmt: skip


def test_a_torn_write_is_removed_and_never_read(log: Log) -> None:
    store_of(log).store(messages(1))
    whole = file_of(log.receiver(0), 0).read_bytes()
    for name in ("000000000001.segment.new", "000000000000.ids.new"):
        (log.receiver(0) / name).write_bytes(whole[:-7])
    assert log.end("0") == 1
    assert values_in(log) == [1]
    store = store_of(log)
    assert sorted(f.name for f in log.receiver(0).iterdir()) == ["000000000000.segment"]
    store.store(messages(2))
    assert values_in(log) == [1, 2]


def test_a_write_that_fails_leaves_nothing(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of(log)
    with monkeypatch.context() as broken:
        broken.setattr("mainstem_ingress.segments.os.fsync", _fail)
        with pytest.raises(OSError, match="no room"):
            store.store(messages(1, ids=True))
    assert list(log.receiver(0).iterdir()) == []
    store.store(messages(1, ids=True))
    assert values_in(log) == [1]


def test_a_segment_that_has_its_name_is_never_written_again(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that can't be synced, after the rename: a reader may have the segment by now."""
    store = store_of(log)
    with monkeypatch.context() as broken:
        broken.setattr("mainstem_ingress.segments.sync_folder", _fail)
        with pytest.raises(LogError, match=r"000000000000\.segment"):
            store.store(messages(1))
    assert values_in(log) == [1]


def _fail(*_: object) -> None:
    import errno

    raise OSError(errno.ENOSPC, "no room")


def damaged(kind: str, file: Path) -> None:
    whole = file.read_bytes()
    header, batch = open_segment(file)
    told = asdict(header)
    file.unlink()  # the rows are still mapped from the file that was
    match kind:
        case "gone":
            pass
        case "empty":
            file.write_bytes(b"")
        case "truncated":
            file.write_bytes(whole[: len(whole) // 2])
        case "without its last byte":
            file.write_bytes(whole[:-1])
        case "garbage":
            file.write_bytes(bytes(reversed(whole)))
        case "another version":
            rewrite(file, batch, json.dumps({**told, "format": 99}))
        case "no version":
            del told["format"]
            rewrite(file, batch, json.dumps(told))
        case "no header":
            rewrite(file, batch, None)
        case "no JSON":
            rewrite(file, batch, "{")
        case "no object":
            rewrite(file, batch, "[1]")
        case "unknown words":
            rewrite(file, batch, json.dumps({**told, "more": 1}))
        case "another number":
            rewrite(file, batch, json.dumps({**told, "number": 7}))
        case "fewer rows":
            rewrite(file, batch.slice(1), json.dumps(told))
        case "no rows":
            rewrite(file, None, json.dumps(told))


def rewrite(file: Path, batch: Any, header: str | None) -> None:
    """Write a segment whose checksums are right and whose content is not."""
    rows = pa.BufferOutputStream()
    with pa.ipc.new_file(rows, schema_of() if batch is None else batch.schema) as writer:
        if batch is not None:
            writer.write_batch(batch)
    written = rows.getvalue()
    file.write_bytes(bytes(written) + ending(memoryview(written), (header or "").encode()))


HEADERS = [
    "gone", "empty", "truncated", "without its last byte", "garbage", "another version", "no version",
    "no header", "no JSON", "no object", "unknown words", "another number",
]  # fmt: skip


@pytest.mark.parametrize("kind", [*HEADERS, "fewer rows", "no rows"])
def test_a_damaged_segment_is_refused_by_its_name(log: Log, kind: str) -> None:
    store = store_of(log)
    for n in range(3):
        store.store(messages(2 * n, 2 * n + 1))
    file = file_of(store.folder, 1)
    damaged(kind, file)
    with pytest.raises(LogError) as refused:
        open_segment(file)
    assert str(file) in str(refused.value)
    if kind in HEADERS:
        with pytest.raises(LogError) as refused:
            read_header(file)
        assert str(file) in str(refused.value)


def test_another_version_says_what_reads_it(log: Log) -> None:
    store_of(log).store(messages(1))
    file = file_of(log.receiver(0), 0)
    damaged("another version", file)
    with pytest.raises(LogError, match=r"has format 99, and this version reads 2; read it with"):
        open_segment(file)


@pytest.mark.parametrize("kind", [k for k in HEADERS if k != "gone"])
def test_nothing_is_stored_behind_a_newest_segment_that_is_damaged(log: Log, kind: str) -> None:
    store_of(log).store(messages(1))
    file = file_of(log.receiver(0), 0)
    damaged(kind, file)
    with pytest.raises(LogError, match=r"000000000000\.segment"):
        store_of(log)


@pytest.mark.in_turn
def test_no_bit_that_changed_on_the_disk_becomes_another_message(log: Log) -> None:
    """Pass: in each byte of a small segment a bit is turned, alone: rows are refused by its name, and so
    is the header, unless it is what it was."""
    store_of(log).store(messages(1, 2))
    file = file_of(log.receiver(0), 0)
    whole = file.read_bytes()
    header = read_header(file)
    for place in range(len(whole)):
        turned = bytearray(whole)
        turned[place] ^= 1 << place % 8
        file.write_bytes(turned)
        with pytest.raises(LogError, match=r"000000000000\.segment"):
            open_segment(file)
        try:
            found = read_header(file)
        except LogError:
            continue
        assert found == header
    file.write_bytes(whole)
    assert open_segment(file)[1].column("value").to_pylist() == [b"1", b"2"]


def test_what_is_stored_is_its_owners_alone(log: Log) -> None:
    """Pass: 0600, whatever the process's mask."""
    store_of(log).store(messages(1))
    keep_cursor(log.receiver(0), 1, "c")
    modes = {file.name: file.stat().st_mode & 0o777 for file in log.receiver(0).glob("*.*")}
    assert modes == dict.fromkeys(modes, 0o600)
    assert {"000000000000.segment", "cursor.json"} <= {*modes}


def test_only_segments_count(tmp_path: Path) -> None:
    for name in (
        "lock",
        "000000000002.segment",
        "000000000001.ids",
        "000000000003.segment.new",
        "x.segment",
    ):
        (tmp_path / name).touch()
    assert numbers(tmp_path) == [2]
    assert numbers(tmp_path, ".ids") == [1]
    remove_torn(tmp_path)
    assert not (tmp_path / "000000000003.segment.new").exists()


def test_a_time_that_most_programs_make_an_error_of_is_a_reason_and_no_time(tmp_path):
    """Pass: whatever a sender claims, also beyond 64 bits, the message is stored, with why it is refused and the
    time of storing; the first and the last time that count are kept."""
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    times = [first, last, first - 1, last + 1, 2**80, None]
    rows = through_a_file(tmp_path, [Message(b"x", timestamp=at) for at in times])
    reasons = column(rows, REASON)
    assert [reason is None for reason in reasons] == [True, True, False, False, False, True]
    assert (
        reasons[4]
        == f"it can't be stored: its timestamp, {2**80} microseconds, is beyond the years 1 to 9999"
    )
    assert [row["timestamp"].year for row in rows[:2]] == [1, 9999]
    assert all(row["timestamp"].year >= 2026 for row in rows[2:])
    assert column(rows, "value") == [b"x"] * len(times)


def test_verifying_a_log_names_each_damaged_file(log: Log) -> None:
    """Pass: segments, cursor and consumers: whole, nothing is told; with a byte changed, that file alone."""
    store = store_of(log)
    for n in range(2):
        store.store(messages(n))
    keep_cursor(log.receiver(0), 2, "c")
    with log.consumers.locked():
        log.consumers.put("query", {"0": 1})

    def told() -> list[str]:
        found = []
        for check in log.checks():
            try:
                check()
            except LogError as error:
                found.append(str(error))
        return found

    assert told() == []
    files = [*log.receiver(0).glob("*.segment"), *log.folder.rglob("*.json")]
    assert len(files) == 4
    for file in files:
        whole = file.read_bytes()
        file.write_bytes(whole[:5] + bytes([whole[5] ^ 4]) + whole[6:])
        (only,) = told()
        assert str(file) in only
        file.write_bytes(whole)
