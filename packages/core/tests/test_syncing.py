"""Spark's records of a query: what is synced when, and what a loss of power has left in part."""

from __future__ import annotations

import errno
import json
import os
import struct
import threading
import zipfile
import zlib
from pathlib import Path

import pytest
from mainstem.run.syncing import Syncing, mend, sync_done

OFFSETS = "v2\n" + json.dumps({"batchWatermarkMs": 0, "conf": {"a": "b" * 600}}) + '\ns:{"0":7}'
COMMIT = "v1\n" + json.dumps({"nextBatchWatermarkMs": 0})


@pytest.fixture
def synced(monkeypatch):
    """The paths that were synced."""
    found = []

    def fsync(file):
        found.append(Path(f"/proc/self/fd/{file}").readlink())

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def put(file, text):
    """Write a record as Spark does, with its checksums."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    size = 8 + 4 * -(-len(text) // 512)
    file.with_name(f".{file.name}.crc").write_bytes(bytes(size))


def records(folder, planned, done):
    for batch in range(planned):
        put(folder / "offsets" / str(batch), OFFSETS)
    for batch in range(done):
        put(folder / "commits" / str(batch), COMMIT)
    return folder


def names(folder, part):
    return sorted(file.name for file in (folder / part).glob("*"))


def test_what_is_planned_is_synced_with_its_names(tmp_path, synced):
    folder = records(tmp_path / "checkpoint" / "queries" / "q", 1, 0)
    put(folder / "sources" / "s" / "0", "v1")
    put(folder / "state" / "0" / "_metadata" / "metadata", "v1")
    syncing = Syncing(folder)
    syncing.planned(0)
    syncing.settle()
    for part in ("offsets/0", "offsets/.0.crc", "offsets", "sources/s/0", "sources/s", "sources"):
        assert folder / part in synced
    assert {folder / "state", folder / "state/0/_metadata/metadata"} <= set(synced)
    assert {folder, folder.parent, folder.parent.parent} <= set(synced)
    synced.clear()
    put(folder / "offsets" / "1", OFFSETS)
    put(folder / "commits" / "0", COMMIT)
    syncing.planned(1)
    syncing.settle()
    done = [folder / "commits" / name for name in ("0", ".0.crc", ".")]
    planned = [folder / "offsets" / name for name in ("1", ".1.crc", ".")]
    assert sorted(synced) == sorted([*done, *planned]), "what is known is not synced again"


def test_who_settles_waits_for_all_that_was_begun_and_hears_what_failed(tmp_path, monkeypatch):
    """Pass: nothing waits before; also the slowest is on disk after; one that fails is raised, once."""
    folder = records(tmp_path / "q", 1, 0)
    slow, ended = threading.Event(), []

    def fsync(file):
        name = Path(f"/proc/self/fd/{file}").readlink().name
        if name == "0":
            assert slow.wait(30)
            ended.append(name)
        if name == ".0.crc" and failing:
            raise OSError(errno.EIO, "the disk")

    failing = False
    monkeypatch.setattr(os, "fsync", fsync)
    syncing = Syncing(folder)
    syncing.planned(0)
    assert ended == []
    threading.Timer(0.2, slow.set).start()
    syncing.settle()
    assert ended == ["0"]
    failing = True
    syncing.planned(0)
    with pytest.raises(OSError, match="the disk"):
        syncing.settle()
    syncing.settle()


def test_the_state_of_a_batch_is_synced_but_for_what_is_not_whole(tmp_path, synced):
    folder = tmp_path / "q"
    syncing = Syncing(folder)
    for version in (1, 2):
        (folder / "state" / "0" / "1").mkdir(parents=True, exist_ok=True)
        (folder / "state" / "0" / "1" / f"{version}.changelog").write_text("x")
        (folder / "state" / "0" / "1" / f".{version}.changelog.abc.tmp").write_text("x")
        synced.clear()
        syncing.written()
        syncing.settle()
        files = [path.name for path in synced if path.is_file()]
        assert files == [f"{version}.changelog"]
        assert folder / "state" / "0" / "1" in synced


def test_what_is_done_is_synced(tmp_path, synced):
    folder = records(tmp_path / "q", 2, 2)
    sync_done(folder)
    assert set(synced) == {folder / "commits" / name for name in ("1", ".1.crc", ".")}
    sync_done(tmp_path / "nothing")


def test_a_record_of_what_is_done_that_ends_too_early_goes(tmp_path):
    for cut in range(len(COMMIT)):
        folder = records(tmp_path / "q", 2, 2)
        (folder / "commits" / "1").write_text(COMMIT[:cut])
        mend(folder, stateful=False)
        assert names(folder, "commits") == [".0.crc", "0"], cut
        assert names(folder, "offsets") == [".0.crc", ".1.crc", "0", "1"]


@pytest.mark.in_turn
def test_a_record_of_what_is_planned_that_ends_too_early_goes(tmp_path):
    for cut in range(len(OFFSETS)):
        folder = records(tmp_path / "q", 3, 2)
        (folder / "offsets" / "2").write_text(OFFSETS[:cut])
        mend(folder, stateful=False)
        assert names(folder, "offsets") == [".0.crc", ".1.crc", "0", "1"], cut
        assert names(folder, "commits") == [".0.crc", ".1.crc", "0", "1"]


def test_one_of_which_blocks_were_never_written_goes(tmp_path):
    folder = records(tmp_path / "q", 3, 2)
    (folder / "offsets" / "2").write_bytes(bytes(len(OFFSETS)))
    mend(folder, stateful=False)
    assert names(folder, "offsets") == [".0.crc", ".1.crc", "0", "1"]


def test_one_whose_checksums_end_too_early_goes(tmp_path):
    folder = records(tmp_path / "q", 3, 2)
    (folder / "offsets" / ".2.crc").write_bytes(bytes(8))
    mend(folder, stateful=False)
    assert names(folder, "offsets") == [".0.crc", ".1.crc", "0", "1"]


def test_what_was_relied_on_stays_whatever_it_is(tmp_path):
    """Pass: a record with a wrong byte, and one of a batch that is done, are left to be told."""
    folder = records(tmp_path / "q", 3, 3)
    (folder / "offsets" / "2").write_text(OFFSETS[:9])
    mend(folder, stateful=False)
    assert len(names(folder, "offsets")) == 6
    folder = records(tmp_path / "p", 3, 2)
    (folder / "offsets" / "2").write_text(OFFSETS.replace("conf", "c{nf").replace('"a"', '"a'))
    mend(folder, stateful=False)
    assert len(names(folder, "offsets")) == 6


def test_a_whole_record_of_a_pyspark_that_names_no_sources_stays(tmp_path):
    """Pass: also without checksums that fit; one that ends too early goes, as of any other."""
    plain = OFFSETS.replace("v2", "v1", 1).replace("\ns:", "\n")
    for cut in (0, 1, 9):
        folder = records(tmp_path / f"q{cut}", 3, 2)
        for batch in range(3):
            put(folder / "offsets" / str(batch), plain)
        (folder / "offsets" / "2").write_text(plain[: len(plain) - cut])
        mend(folder, stateful=False)
        assert ("2" in names(folder, "offsets")) == (cut == 0)


def test_a_whole_record_of_fewer_sources_stays(tmp_path):
    """Pass: planned under a changed document, it is kept by its checksums: a sink may have the batch."""
    folder = records(tmp_path / "q", 3, 2)
    (folder / "offsets" / "1").write_text(f'{OFFSETS}\ns__control:{{"logOffset":1}}')
    data = OFFSETS.encode()
    sums = [zlib.crc32(data[n : n + 512]) for n in range(0, len(data), 512)]
    (folder / "offsets" / ".2.crc").write_bytes(
        b"crc\0" + struct.pack(f">I{len(sums)}I", 512, *sums)
    )
    mend(folder, stateful=False)
    assert "2" in names(folder, "offsets")
    (folder / "offsets" / "2").write_text(OFFSETS.replace("7", "8"))
    mend(folder, stateful=False)
    assert "2" not in names(folder, "offsets"), "a source's line may be missing"


def test_a_first_batch_whose_state_was_not_described_begins_anew(tmp_path):
    folder = records(tmp_path / "q", 1, 0)
    mend(folder, stateful=False)
    assert names(folder, "offsets") == [".0.crc", "0"]
    put(folder / "state" / "0" / "_metadata" / "metadata", "v1")
    mend(folder, stateful=True)
    assert names(folder, "offsets") == [".0.crc", "0"]
    (folder / "state" / "0" / "_metadata" / "metadata").write_text("")
    mend(folder, stateful=True)
    assert names(folder, "offsets") == []


def test_a_snapshot_that_ends_too_early_goes(tmp_path):
    folder = records(tmp_path / "q", 6, 6)
    state = folder / "state" / "0" / "0"
    state.mkdir(parents=True)
    for name in ("5.zip", "6.zip"):
        with zipfile.ZipFile(state / name, "w") as made:
            made.writestr("x", "y" * 1000)
    whole = (state / "6.zip").read_bytes()
    (state / "6.zip").write_bytes(whole[:200])
    (state / "6.changelog").write_text("x")
    mend(folder, stateful=True)
    assert names(folder, "state/0/0") == ["5.zip", "6.changelog"]


def test_state_of_what_is_not_done_goes(tmp_path):
    """Pass: of three batches of which two are done the state of the third goes, in each store, with its checksums;
    before any is done all of it goes, and what describes it stays."""
    folder = records(tmp_path / "q", 3, 2)
    for store in ("state/0/1", "state/0/1/left", "state/1/0"):
        for version in (1, 2, 3):
            put(folder / store / f"{version}.changelog", "x")
    put(folder / "state" / "0" / "_metadata" / "metadata", "v1")
    (folder / "state/1/0/3_0a-b.zip").write_bytes(b"")
    mend(folder, stateful=True)
    kept = [".1.changelog.crc", ".2.changelog.crc", "1.changelog", "2.changelog"]
    assert names(folder, "state/0/1/left") == names(folder, "state/1/0") == kept
    assert names(folder, "state/0/1") == [*kept, "left"]
    first = records(tmp_path / "first", 1, 0)
    put(first / "state/0/0/1.changelog", "")
    put(first / "state" / "0" / "_metadata" / "metadata", "v1")
    mend(first, stateful=True)
    assert names(first, "state/0/0") == []
    assert names(first, "state/0/_metadata") == [".metadata.crc", "metadata"]


def test_what_a_source_has_noted_in_part_goes_and_what_was_planned_with_it(tmp_path):
    """Pass: notes that end too early, and those since, of batches that are not done; with them the offsets that were
    planned. What a batch that is done relies on stays, whatever it is."""
    folder = records(tmp_path / "q", 3, 2)
    offsets = OFFSETS.rpartition("\n")[0] + '\nlines:{"logOffset":1}'
    for batch in range(3):
        put(folder / "offsets" / str(batch), offsets)
    for number in range(5):
        put(folder / "sources" / "lines" / str(number), 'v1\n{"path":"x"}')
    mend(folder, stateful=False)
    assert names(folder, "offsets")[-1] == "2"
    (folder / "sources/lines/1").write_text("")
    (folder / "sources/lines/3").write_text('v1\n{"pa')
    mend(folder, stateful=False)
    assert [name for name in names(folder, "sources/lines") if name.isdigit()] == ["0", "1", "2"]
    assert [name for name in names(folder, "offsets") if name.isdigit()] == ["0", "1"]
