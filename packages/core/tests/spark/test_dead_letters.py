"""`mainstem deadletters`: refused rows are found where sinks have stored them, and sent through the document again, once."""

from __future__ import annotations

import json

import pytest
from mainstem.cli.app import app
from mainstem.dead_letters import RedriveLog
from typer.testing import CliRunner

LINES = ['{"n": 1}', '{"n": "two"}', "no json\\", '{"n": 4}', '{"n": "five"}']


@pytest.fixture
def refused(pipeline):
    """A document that refused three of five lines, stored as `form`."""

    def made(form="jsonlines", schema="n INT", again=True, **more):
        pipeline.document(
            sources={
                "lines": {"use": "files", "with": {"path": "./in", "format": "message"}},
                **({"again": {"use": "redrive"}} if again else {}),
            },
            operators={
                "row": {
                    "use": "decode",
                    "from": ["lines", "again"] if again else "lines",
                    "with": {"format": "json", "schema": schema},
                },
                "total": {"use": "select", "from": "row", "with": {"columns": {"n": "n"}}},
            },
            sinks={
                "out": pipeline.sink("out", "total"),
                "bad": {
                    "use": "files",
                    "from": "row.rejected",
                    "with": {"path": "./bad", "format": form, **more},
                },
            },
        )
        return pipeline

    pipeline.feed("0.txt", LINES)
    made().run()
    return made


def told(pipeline, *words):
    given = [words[0], str(pipeline.file), *words[1:]]
    ended = CliRunner().invoke(app, ["deadletters", *given], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.output


def listed(pipeline, *more):
    return [
        json.loads(line) for line in told(pipeline, "list", *more, "--format", "json").splitlines()
    ]


def numbers(pipeline):
    return sorted(str(row["n"]) for row in pipeline.rows("out"))


def test_refused_rows_are_sent_again_once(refused):
    """Pass: listed with their reason and without what they hold; shown whole; after the document was mended those that are chosen come
    out, once, whoever asks again and whatever runs are made; one that is refused again is refused again."""
    pipeline = refused()
    found = listed(pipeline)
    assert len(found) == 3
    assert {row["node"] for row in found} == {"row"}
    assert "two" not in json.dumps(found)
    (broken,) = (row for row in found if row["bytes"] == len("no json\\"))
    assert told(pipeline, "show", broken["id"][:8]).endswith("no json\\\n")
    refused(schema="n STRING")
    assert told(pipeline, "redrive", "--reason", "is no INT", "--dry-run") == "2 would be sent\n"
    assert told(pipeline, "redrive", "--reason", "is no INT") == "2 sent\n"
    assert told(pipeline, "redrive") == "1 sent, 2 were sent before\n"
    assert told(pipeline, "redrive") == "0 sent, 3 were sent before\n"
    pipeline.run()
    pipeline.run()
    assert numbers(pipeline) == ["1", "4", "five", "two"]
    # The broken one is refused again, as a letter of its own: it came as another message.
    assert len(listed(pipeline)) == 4
    assert told(pipeline, "redrive", "--id", broken["id"], "--again") == "1 sent\n"


def test_they_are_read_from_parquet_and_folders(refused):
    """Pass: the same letters, by the same ids, whichever way they are stored."""
    pipeline = refused()
    before = {row["id"] for row in listed(pipeline)}
    refused("parquet", partition_by=["node"])
    pipeline.feed("1.txt", ["worse"])
    for file in (pipeline.folder / "bad").glob("*"):
        file.rename(pipeline.folder / f".{file.name}")
    pipeline.run()
    (row,) = listed(pipeline)
    assert (row["node"], row["bytes"]) == ("row", 5)
    assert row["id"] not in before


def test_what_can_not_be_read_is_told(refused, pipeline):
    """Pass: csv has no types; no sink stores refused rows; no source takes them."""
    refused()
    whole = pipeline.file.read_text()
    refused(again=False)
    without = pipeline.file.read_text()
    for given, words, message in (
        (whole.replace("row.rejected", "total"), ["list"], "no sink stores refused rows"),
        (whole, ["list", "--sink", "out"], "out stores no refused rows"),
        (whole, ["show", "zz"], "there is no refused row 'zz'"),
        (without, ["redrive"], "the document has no source `redrive`"),
        (whole, ["redrive", "--into", "lines"], "lines is no source `redrive`"),
    ):
        pipeline.file.write_text(given)
        ended = CliRunner().invoke(app, ["deadletters", words[0], str(pipeline.file), *words[1:]])
        assert message in str(ended.exception), ended.output


def test_two_that_send_at_once_do_not_overwrite_each_other(tmp_path):
    """Pass: the second is told, and nothing of the first is lost."""
    from datetime import UTC, datetime

    from mainstem.dead_letters import Letter

    def letter(number):
        at = datetime(2026, 1, 1, tzinfo=UTC)
        return Letter(f"{number:016x}", "bad", "row", "why", at, b"x")

    log = RedriveLog(tmp_path)
    log.add([letter(1), letter(2)])
    log.add([letter(3)])
    assert log.known() == {f"{n:016x}" for n in (1, 2, 3)}
    names = sorted(file.name for file in (tmp_path / "messages").glob("*.parquet"))
    assert [int(name.split(".")[0]) for name in names] == [0, 2]
    other = RedriveLog(tmp_path)
    other._files = list  # as it was before the first
    with pytest.raises(FileExistsError):
        other.add([letter(4)])
    assert log.known() == {f"{n:016x}" for n in (1, 2, 3)}
