"""`mainstem run` in a shell pipeline: rows in at standard input, rows out at standard output, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


def document(pipeline, **more):
    schema = "id BIGINT NOT NULL, name STRING"
    return pipeline.document(
        sources={"lines": {"use": "pipe"}},
        operators={
            "event": {
                "use": "decode",
                "from": "lines",
                "with": {"format": "json", "schema": schema},
            }
        },
        sinks={
            "out": {"use": "stdout", "from": "event"},
            "bad": pipeline.sink("bad", "event.rejected"),
        },
        **more,
    )


@pytest.mark.in_turn
def test_rows_pass_from_one_program_to_the_next(pipeline):
    """Pass: a bounded run ends when its input does; standard output has the rows alone, each once; a line that
    is none is refused; a second run reads on with what it is given.
    """
    document(pipeline)
    for begin in (0, 500):
        lines = "".join(
            json.dumps({"id": n, "name": f"é{n}"}) + "\n" for n in range(begin, begin + 500)
        )
        done = subprocess.run(
            [sys.executable, "-m", "mainstem", "run", str(pipeline.file)],
            input=lines + "no json\n" + '{"id": -1}',
            capture_output=True, text=True, timeout=180, encoding="utf-8",
            env={**os.environ, "PYTHONIOENCODING": "ascii:replace"},  # rows are UTF-8 all the same
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        expected = [{"id": n, "name": f"é{n}"} for n in range(begin, begin + 500)]
        assert sorted(rows, key=lambda row: row["id"]) == [{"id": -1}, *expected]
        assert '"event": "summary"' in done.stderr
    assert len(pipeline.rows("bad")) == 2


@pytest.mark.in_turn
def test_a_reader_that_goes_ends_the_run(pipeline):
    """Pass: with a word about it, and an exit code."""
    document(pipeline)
    lines = "".join(json.dumps({"id": n, "name": "x" * 100}) + "\n" for n in range(20_000))
    run = subprocess.Popen(
        [sys.executable, "-m", "mainstem", "run", str(pipeline.file)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    run.stdout.close()
    _, told = run.communicate(lines, timeout=180)
    assert run.returncode == 1
    assert "nobody reads standard output" in told


def test_keys_that_are_no_keys_of_json_are_refused():
    """Pass: before a run; days would be numbers."""
    from mainstem import Events, OptionError
    from mainstem_direct_socket.options import StdoutOptions
    from mainstem_direct_socket.stdout import StdoutSink

    shape = Events("days MAP<DATE, INT>")
    with pytest.raises(OptionError, match="can't hold column days"):
        StdoutSink(StdoutOptions()).check_types(shape.columns, shape)
