"""A plugin as a page of the docs prints it, installed, and the queue that speaks in lines which it talks to."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from mainstem_testkit import install

ROOT = Path(__file__).parent.parent


class Page:
    """A page of the docs whose first block of Python is the module `mainstem_jobs`."""

    def __init__(self, name: str) -> None:
        self.text = (ROOT / "docs" / name).read_text()

    def blocks(self, language: str) -> list[str]:
        """Return the blocks of code of a language, in order."""
        return re.findall(rf"^```{language}\n(.*?)^```", self.text, re.DOTALL | re.MULTILINE)

    def installed(self, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        """Put on everybody's path what an installer would write; `kind` is sources or sinks."""
        module = self.blocks("python")[0]
        (entry,) = self.blocks("toml")
        site = folder / "site"
        group, line = entry.splitlines()
        word, value = line.split(" = ")
        assert group == f'[project.entry-points."mainstem.{kind}"]'
        install(monkeypatch, site, "mainstem-jobs", **{kind: {word: value.strip(chr(34))}})
        (site / "mainstem_jobs.py").write_text(module)
        yield site
        sys.modules.pop("mainstem_jobs", None)

    def suite(self, server: Any, place: Path) -> Any:
        """Return the standard tests that the page's last block of Python makes, over a server."""
        names: dict[str, Any] = {"__name__": "printed"}
        exec(self.blocks("python")[-1], names)
        suite = names["TestJobs"]()
        suite.server = server
        suite._move(place)
        return suite


def _queue_server() -> Any:
    """The server of the kit's own tests."""
    file = ROOT / "packages" / "testkit" / "tests" / "zoo" / "queue_server.py"
    spec = spec_from_file_location("line_queue_server", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_SERVER = _queue_server()


class LineQueue(_SERVER.QueueServer):  # type: ignore[misc, name-defined]
    """The queue, under the name that the pages give its fixture."""

    name = "line_queue"

    def ask(self, request: str) -> Any:
        """Return the answer to a line."""
        return _SERVER.ask(self.port, request)

    def read(self, queue: str) -> list[str]:
        """Return the texts of a queue that were put one by one: what its journal has."""
        puts = (line.split(" ", 2) for line in (self.folder / "journal").read_text().splitlines())
        return [put[2].strip() for put in puts if put[:2] == ["put", queue]]
