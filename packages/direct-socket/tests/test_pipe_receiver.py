"""The source `pipe`: a named pipe, a program's output, and how each ends. Standard input: test_shell.py."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager

import pytest
from mainstem import PermanentError, TransientError
from mainstem_direct_socket.options import PipeSourceOptions
from mainstem_direct_socket.pipe_receiver import STDIN, PipeReceiver
from mainstem_testkit.conformance.receiver import taken
from mainstem_testkit.processes import descendants


@contextmanager
def receiver(**given):
    made = PipeReceiver(PipeSourceOptions.model_validate(given), 0, "node")
    made.connect(None)
    try:
        yield made
    finally:
        made.close()


def python(text):
    return [sys.executable, "-c", text]


def test_a_named_pipe_outlives_who_writes(tmp_path):
    """Pass: it is made; writers come and go; a file in its place is told."""
    path = tmp_path / "p"
    with receiver(path=str(path)) as made:
        for number in range(3):
            with path.open("w") as pipe:
                pipe.write(f"{number}\n")
            assert [m.value for m in taken(made, 1)] == [b"%d" % number]
        assert made.caught_up() is None
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(PermanentError, match="no named pipe"),
        receiver(path=str(tmp_path / "file")),
    ):
        pass


def test_a_program_that_ends_well_has_ended():
    """Pass: all its lines, the last one without an end too; a bounded run may begin then, and not before."""
    with receiver(command=python("print('a'); print('b', end='')")) as made:
        assert made.caught_up() is False
        assert [m.value for m in taken(made, 2)] == [b"a", b"b"]
        assert made.caught_up() is True
        made.close()
        made.connect(None)
        assert taken(made, 1, seconds=0.2) == []


def test_a_program_that_fails_is_started_again():
    """Pass: what it gave comes first, then an error that passes, with what it said; `never` leaves it at that."""
    text = "import sys; print('x'); print('oh dear', file=sys.stderr); sys.exit(3)"
    with receiver(command=python(text)) as made:
        assert [m.value for m in made_of(made, 1)] == [b"x"]
        with pytest.raises(TransientError, match="ended with 3: oh dear"):
            taken(made, 1)
        made.close()
        made.connect(None)
        assert [m.value for m in made_of(made, 1)] == [b"x"]
    with receiver(command=python(text), restart="never") as made:
        taken(made, 1)
        assert made.caught_up() is True
    with pytest.raises(PermanentError, match="No such file"), receiver(command=["/no/such"]):
        pass


def test_what_a_program_says_last_is_waited_for(monkeypatch):
    """Pass: it is told with the end, however late it is heard."""
    hear = PipeReceiver._hear

    def slowly(*given):
        time.sleep(0.5)
        hear(*given)

    monkeypatch.setattr(PipeReceiver, "_hear", slowly)
    text = "import sys; print('oh dear', file=sys.stderr); sys.exit(3)"
    wanted = pytest.raises(TransientError, match="ended with 3: oh dear")
    with receiver(command=python(text)) as made, wanted:
        taken(made, 1)


def test_a_program_that_only_closes_its_output_is_ended():
    """Pass: it is no reason to wait for ever."""
    text = "import os, time; os.write(1, b'x\\n'); os.close(1); time.sleep(600)"
    with receiver(command=python(text)) as made:
        assert [m.value for m in made_of(made, 1)] == [b"x"]
        with pytest.raises(TransientError, match="ended with -9"):
            taken(made, 1)


def test_a_program_that_writes_no_lengths_is_told():
    """Pass: what came before is given, then a refused row that says so, then an error."""
    text = "import sys; sys.stdout.write('2 hi oh no'); sys.stdout.flush(); sys.stdin.read()"
    with receiver(command=python(text), framing="octets") as made:
        good, bad = made_of(made, 2)
        assert (good.value, good.refused) == (b"hi", None)
        assert "expected a length in digits" in bad.refused
        with pytest.raises(TransientError, match="expected a length"):
            made.take(0.1)


def made_of(made, count):
    """Return so many messages, and look no further."""
    found = []
    while len(found) < count:
        found += made.take(1)
    return found


def test_a_program_ends_with_its_receiver():
    """Pass: nothing is left of it."""
    before = set(descendants())
    with receiver(command=python("import time; print('up', flush=True); time.sleep(60)")) as made:
        assert [m.value for m in made_of(made, 1)] == [b"up"]
    assert set(descendants()) <= before


def test_standard_input_must_be_handed_on(monkeypatch):
    """Pass: else it is told."""
    monkeypatch.delenv(STDIN, raising=False)
    with pytest.raises(PermanentError, match="handed on"), receiver():
        pass
