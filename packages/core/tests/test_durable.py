"""Small files are written whole, for their owner alone, and what changed on the disk is an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mainstem import PipelineError
from mainstem.durable import DamagedError, made_folder, private_folder, read_whole, write_whole

TEXTS = ["", "3", '{"end": 7, "cursor": "grüße 🎉"}', "a\n#00000000\n"]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_written_is_read(tmp_path, text):
    """Pass: the same text, also over a file that was there."""
    file = tmp_path / "kept.json"
    for each in (text, "other", text):
        write_whole(file, each)
        assert read_whole(file) == each
    assert [each.name for each in tmp_path.iterdir()] == ["kept.json"]


@pytest.mark.parametrize("text", TEXTS)
def test_no_bit_that_changed_is_read_as_something_else(tmp_path, text):
    """Pass: each bit turned, each byte cut from the end, each byte left out: an error with the file's name."""
    file = tmp_path / "kept.json"
    write_whole(file, text)
    whole = file.read_bytes()
    turned = [
        bytes([*whole[:n], whole[n] ^ 1 << bit, *whole[n + 1 :]])
        for n in range(len(whole))
        for bit in range(8)
    ]
    cut = [whole[:n] for n in range(len(whole))]
    left_out = [whole[:n] + whole[n + 1 :] for n in range(len(whole))]
    for changed in {*turned, *cut, *left_out} - {whole}:
        file.write_bytes(changed)
        with pytest.raises(DamagedError, match=r"kept\.json was changed after it was written"):
            read_whole(file)
    assert issubclass(DamagedError, PipelineError)


def test_only_the_owner_reads_what_is_kept(tmp_path):
    """Pass: 0600 in 0700, whatever the mask; folders above are as the mask says."""
    before = os.umask(0)
    try:
        folder = private_folder(tmp_path / "above" / "kept")
        write_whole(folder / "file", "x")
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "file").stat().st_mode & 0o777 == 0o600
    assert folder.parent.stat().st_mode & 0o777 == 0o777


def test_a_file_of_somebody_elses_format_has_no_checksum(tmp_path):
    """Pass: as Spark reads it."""
    write_whole(tmp_path / "metadata", "{}", checked=False)
    assert (tmp_path / "metadata").read_text() == "{}"


def test_folders_that_are_made_are_safe_by_name(tmp_path, monkeypatch):
    """Pass: each one's name is on disk before the next is made in it; one that is there is left alone."""
    done = []
    fsync, mkdir = os.fsync, Path.mkdir
    monkeypatch.setattr(
        os, "fsync", lambda f: (done.append(Path(f"/proc/self/fd/{f}").readlink().name), fsync(f))
    )
    monkeypatch.setattr(
        Path, "mkdir", lambda p, *a, **k: (done.append(f"made {p.name}"), mkdir(p, *a, **k))
    )
    root = tmp_path.name
    assert made_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert done == ["made a", root, "made b", "a"]
    done.clear()
    made_folder(tmp_path / "a" / "b")
    private_folder(tmp_path / "a" / "c")
    assert done == ["made c", "a"]
    assert (tmp_path / "a" / "c").stat().st_mode & 0o777 == 0o700
