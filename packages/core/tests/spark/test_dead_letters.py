"""`mainstem deadletters`: refused rows are found where sinks have stored them, and sent through the document again, once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from signal import SIGKILL

import pyarrow.parquet as pq
import pytest
from mainstem.cli.app import app
from mainstem.crashpoints import ARMED, Died, armed
from mainstem.dead_letters import Letter, RedriveLog
from mainstem_testkit import crash_at_every_point
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


@pytest.mark.in_turn
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


@pytest.mark.in_turn
def test_letters_are_the_same_wherever_they_are_stored(refused):
    """Pass: as Parquet in folders, and compressed, each by the id that it has as lines."""
    pipeline = refused()
    for stored in (
        {"form": "parquet", "partition_by": ["node"]},
        {"form": "jsonlines", "compression": "gzip"},
    ):
        before = {row["id"] for row in listed(pipeline)}
        for place in ("bad", "checkpoints", "out"):
            shutil.rmtree(pipeline.folder / place)
        refused(**stored)
        pipeline.run()
        assert {row["id"] for row in listed(pipeline)} == before
        assert len(before) == 3


def test_what_can_not_be_read_is_told(refused, pipeline):
    """Pass: csv has no types; no sink stores refused rows; no source takes them."""
    refused()
    whole = pipeline.file.read_text()
    refused(again=False)
    without = pipeline.file.read_text()
    for given, words, message in (
        (whole.replace("row.rejected", "total"), ["list"], "no sink stores refused rows"),
        (whole, ["list", "--sink", "out"], "out stores no refused rows"),
        (whole, ["list", "--node", "rwo"], "there is no node 'rwo'. Did you mean 'row'?"),
        (whole, ["show", "zz"], "there is no refused row 'zz'"),
        (without, ["redrive"], "the document has no source `redrive`"),
        (whole, ["redrive", "--into", "lines"], "lines is no source `redrive`"),
    ):
        pipeline.file.write_text(given)
        ended = CliRunner().invoke(app, ["deadletters", words[0], str(pipeline.file), *words[1:]])
        assert message in str(ended.exception), ended.output


@pytest.mark.in_turn
def test_what_was_sent_comes_once_over_kills(refused):
    """Pass: the command is killed at each of its steps and given again, and the run that reads what it sent dies
    at each of its own: each payload comes out once."""

    def sent(pipeline):
        for place in ("bad", "checkpoints", "out"):
            shutil.rmtree(pipeline.folder / place)
        pipeline.run()
        pipeline.file.write_text(pipeline.file.read_text().replace("n INT", "n STRING"))
        command = [sys.executable, "-m", "mainstem", "deadletters", "redrive", str(pipeline.file)]
        for step, chosen in (("before-rename", ["--reason", "is no INT"]), ("after-rename", [])):
            armed = {**os.environ, ARMED: f"redrive.{step}"}
            assert subprocess.run(command + chosen, env=armed, check=False).returncode == -SIGKILL
            told(pipeline, "redrive", *chosen)

    def oracle(pipeline):
        assert numbers(pipeline) == ["1", "4", "five", "two"]
        assert len(pipeline.rows("bad")) == 4  # what is no JSON came, and was refused again

    def runners(points):
        return [point for point in points if point.startswith("run.")]

    points = crash_at_every_point(refused(), oracle, points=runners, before=sent, here=True)
    assert points == ["run.before-batch", "run.after-batch"]


@pytest.mark.parametrize(("step", "sent"), [("before-rename", 2), ("after-rename", 1)])
def test_a_sending_that_dies_has_sent_all_or_nothing(tmp_path, step, sent):
    """Pass: the next one sends what the first has not, at positions of its own."""
    with armed(f"redrive.{step}:1:die"), pytest.raises(Died):
        RedriveLog(tmp_path).add([letter(0)])
    assert RedriveLog(tmp_path).add([letter(0), letter(1)]) == sent
    assert len(RedriveLog(tmp_path).known()) == 2
    rows = [pq.read_metadata(file).num_rows for file in (tmp_path / "messages").glob("[0-9]*")]
    assert sum(rows) == 2


def letter(number):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Letter(f"{number:016x}", "bad", "row", "why", at, b"x")


def test_two_that_send_at_once_send_each_letter_once(tmp_path):
    """Pass: whoever is second sees what the first has sent; positions go on."""
    given = [letter(n) for n in range(50)]
    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda _: RedriveLog(tmp_path).add(given), range(8)))
    assert sorted(sent) == [0] * 7 + [50]
    assert RedriveLog(tmp_path).add([*given, letter(50)]) == 1
    assert RedriveLog(tmp_path).add(given[:2], again=True) == 2
    names = sorted(file.stem for file in (tmp_path / "messages").glob("*.parquet"))
    assert list(map(int, names)) == [0, 50, 51]
