"""Every error of the project, grouped by what its reader does next.

====================  =========  ==========================================
error                 exit code  what to do
====================  =========  ==========================================
`PipelineError`       1          look at the data or the external system, run again
`DocumentError`       2          mend the document
`PluginError`         3          install, upgrade or remove a plugin
`MachineError`        4          give the machine what it lacks
====================  =========  ==========================================

`OptionError` is what a component raises while the document is checked; the core turns it into a
`Problem` of a `DocumentError`, with its line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


class MainstemError(Exception):
    """Base of all errors that are meant for the user; `exit_code` is the command's."""

    exit_code = 1


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a document.

    `key` is the path of keys to it (`sources.orders.with.url`); `line` and `column` count from 1
    and are 0 when the document did not come from text.
    """

    message: str
    key: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    hint: str = ""
    exit_code: int = 2

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        text = ": ".join(part for part in (where, self.key, self.message) if part)
        return f"{text}\n    {self.hint}" if self.hint else text


class DocumentError(MainstemError):
    """The document is wrong: holds every problem found, in the order of their lines."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.file, p.line, p.column)))
        # A missing plugin hides what its node says, so it is the code only when all else is right.
        self.exit_code = min((p.exit_code for p in self.problems), default=2)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class PluginError(MainstemError):
    """A plugin is missing, broken, in conflict or built for another core."""

    exit_code = 3


class MachineError(MainstemError):
    """The machine lacks something a run needs: Java, a jar, a folder that can be written."""

    exit_code = 4


class PipelineError(MainstemError):
    """A run failed. `node` is the node it failed in, `row` what is known of the row."""

    exit_code = 1

    def __init__(self, message: str, *, node: str | None = None, row: str | None = None) -> None:
        self.node = node
        self.row = row
        super().__init__(message)


class FencedError(PipelineError):
    """Another run of the same checkpoint has taken over: this one must write nothing more."""


class ExternalError(PipelineError):
    """An external system, or the way to it, is not as it should be; raised as one of the next two."""


class TransientError(ExternalError):
    """An external system can't do something now; a retry may help."""


class PermanentError(ExternalError):
    """An external system can't do something, and no retry would help, or all were in vain."""


class RefusedRowError(ValueError):
    """An external system can never take this row. Says why, in words without secrets."""


class OptionError(ValueError):
    """Raised by a component whose options, or the shapes it is connected to, do not fit.

    Args:
        message: what is wrong and what was expected.
        option: the option at fault, for the line in the document; None for the whole node.
        hint: the next step.
    """

    def __init__(self, message: str, *, option: str | None = None, hint: str = "") -> None:
        self.message = message
        self.option = option
        self.hint = hint
        super().__init__(message)


def article(word: str) -> str:
    """Return a word with `a` or `an` before it."""
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


def nearest(word: str, among: Iterable[str]) -> str:
    """Return the hint `Did you mean 'x'?` for the word nearest to `word`, or an empty string."""
    found = get_close_matches(word, list(among), n=1, cutoff=0.6)
    return f"Did you mean {found[0]!r}?" if found else ""
