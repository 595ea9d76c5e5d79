"""Answers from a Java process of their own, and from what was answered before."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from mainstem.analysis.requests import Analyse, Answer, Request

#: Another one whenever answers come to mean something else.
_VERSION = 1
_SECONDS = 120
#: What other programs of Spark's are told, and would be wrong here; how much of a line is told.
_OTHERS, _LONGEST = {"MASTER", "PYSPARK_SUBMIT_ARGS"}, 200


class Remembered:
    """Answers that are kept by what was asked; others are asked for.

    Args:
        analyse: asks; called for what is not known alone.
        folder: where answers are kept, one small file each; the user's cache when left out.
    """

    def __init__(self, analyse: Analyse, folder: Path | None = None) -> None:
        self._analyse = analyse
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._folder = folder or cache / "mainstem" / "sql"
        self._spark = version("pyspark")

    def __call__(self, requests: Sequence[Request]) -> list[Answer | None]:
        """Return the answers to requests, in their order."""
        found: dict[Request, Answer | None] = {}
        for each in requests:
            with suppress(OSError, ValueError, KeyError, TypeError):  # not kept, or damaged
                found[each] = Answer.from_json(self._file(each).read_text(encoding="utf-8"))
        unknown = [each for each in dict.fromkeys(requests) if each not in found]
        if unknown:
            answers = self._analyse(unknown)
            for each, answer in zip(unknown, answers, strict=True):
                found[each] = answer
                if answer is not None:
                    self._write(each, answer)
        return [found[each] for each in requests]

    def _file(self, request: Request) -> Path:
        asked = json.dumps([_VERSION, self._spark, asdict(request)])
        name = hashlib.sha256(asked.encode()).hexdigest()
        return self._folder / name[:2] / f"{name[2:]}.json"

    def _write(self, request: Request, answer: Answer) -> None:
        file = self._file(request)
        hidden = file.with_suffix(f".{os.getpid()}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            hidden.write_text(answer.as_json(), encoding="utf-8")
            hidden.replace(file)
        except OSError:
            return  # no cache here: asked again next time


class Process:
    """A Java process that is started with the first request and ends with this one.

    Args:
        missing: told why there are no answers, once.
    """

    def __init__(self, missing: Callable[[str], None]) -> None:
        self._missing = missing
        self._process: subprocess.Popen[str] | None = None
        self._gone = False
        #: What it says beside its answers, once it is started.
        self._words: IO[bytes] | None = None

    def __call__(self, requests: Sequence[Request]) -> list[Answer | None]:
        """Return the answers to requests; None for each where the process can't be had."""
        if self._gone:
            return [None] * len(requests)
        try:
            process = self._started()
            assert process.stdin is not None  # noqa: S101
            assert process.stdout is not None  # noqa: S101
            process.stdin.write(json.dumps([asdict(each) for each in requests]) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            found: list[Any] = json.loads(line)
        except (OSError, ValueError):
            self._gone = True
            self._missing(f"Java did not answer{self._said()} (mainstem doctor tells more)")
            return [None] * len(requests)
        return [None if each is None else Answer.from_json(json.dumps(each)) for each in found]

    def _said(self) -> str:
        """Return the last line that the process has said, behind a colon."""
        if self._words is None:
            return ""
        self._words.seek(0)
        lines = self._words.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1][:_LONGEST]}" if lines else ""

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            java = os.environ.get("JAVA_HOME")
            if not (java or shutil.which("java")):
                raise OSError("no Java")
            self._words = TemporaryFile()  # noqa: SIM115  # closed with the process
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mainstem.analysis.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                env={name: value for name, value in os.environ.items() if name not in _OTHERS},
                text=True,
            )
        return self._process

    def close(self) -> None:
        """End the process."""
        if self._words is not None:
            self._words.close()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
