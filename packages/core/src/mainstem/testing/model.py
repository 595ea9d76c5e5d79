"""The file of tests beside a document."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from mainstem.contracts.options import Options, option
from mainstem.document import checking
from mainstem.document.reading import Written, read_file
from mainstem.errors import DocumentError


class Step(Options):
    """One thing that happens: rows arrive, or time passes."""

    rows: dict[str, list[Any]] | None = option(
        None, description="Rows that arrive together, by source; for a message source, values."
    )
    advance: dict[str, str] | None = option(
        None, description="Times that watermarks move to, by the node that has the watermark."
    )

    @model_validator(mode="after")
    def _one_thing(self) -> Step:
        if (self.rows is None) == (self.advance is None):
            raise ValueError("give one of `rows` and `advance`")
        return self


class Case(Options):
    """One test."""

    steps: Annotated[list[Step | Literal["crash"]], Field(min_length=1)] = option(
        description="What happens, in order. `crash`: the last batch is done but its commit is lost."
    )
    answers: dict[str, list[dict[str, Any]]] = option(
        dict,
        description="What external systems answer, by the node that asks: rows of the columns that "
        "it asks by and of those it is answered. A key that is in no row has no answer.",
    )
    expect: dict[str, list[dict[str, Any]]] = option(
        description="The rows that came out, in any order, by sink or by output (`node.rejected`); "
        "columns that are left out may hold anything."
    )


class TestFile(Options):
    """Tests of a document."""

    __test__ = False  # no test of pytest's

    document: str | None = option(
        None, description="The document; `x.yaml` beside `x.test.yaml` when left out."
    )
    env: dict[str, str] = option(dict, description="What environment variables hold meanwhile.")
    tests: dict[str, Case] = option(min_length=1, description="The tests, by name.")


def read_tests(file: Path) -> tuple[TestFile, Written, Path]:
    """Return a file of tests, what is written where in it, and the path of its document.

    Raises:
        DocumentError: with every problem found.
    """
    written: Written = read_file(file)
    found = checking.check(TestFile, written.values, written, (), set())
    if found is None or written.problems:
        raise DocumentError(dict.fromkeys(written.problems))
    name = found.document or file.name.replace(".test.", ".")
    if name == file.name:
        problem = written.problem("names no `document`", ())
        raise DocumentError([problem])
    return found, written, file.parent / name
