"""`${env:NAME}`, `${env:NAME:-default}` and `${file:PATH}`: resolved late, never printed.

What a reference stands for is a secret as far as the core is concerned: a `Scrubber` learns it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mainstem.document.reading import MOST_BYTES, NO_TEXT, Path_, Written, read_regular
from mainstem.document.scrubber import Scrubber

_REFERENCE = re.compile(r"\$\$|\$\{([^}]*)\}|\$\{")
_FORM = re.compile(r"(env):([A-Za-z_]\w*)(?::-(.*))?|(file):(.+)", re.DOTALL)
#: A scalar with a reference in it, for the JSON Schema.
PATTERN = r"\$\{(env|file):"


def resolve(written: Written, scrubber: Scrubber) -> tuple[Any, set[Path_]]:
    """Return the document's values with references resolved, and the paths that held one.

    What can't be resolved becomes a problem of `written`, and the path keeps its text.
    """
    referring: set[Path_] = set()

    def walk(value: Any, path: Path_) -> Any:
        if isinstance(value, dict):
            return {key: walk(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item, (*path, i)) for i, item in enumerate(value)]
        if isinstance(value, str) and "$" in value:
            return _replace(value, path, walk_found)
        return value

    def walk_found(match: re.Match[str], path: Path_) -> str:
        if match.group() == "$$":
            return "$"
        form = _FORM.fullmatch(match.group(1) or "")
        if form is None:
            message = f"{match.group()!r} is no reference; expected ${{env:NAME}} or ${{file:PATH}}"
            written.problems.append(written.problem(message, path, hint="Write $$ for a plain $."))
            return match.group()
        referring.add(path)
        text = _value(form, path)
        if text is None:
            written.unresolved.add(path)
            return match.group()
        # Not as it is written: what it stands for by default is a secret as well.
        shown = match.group() if form.group(3) is None else f"${{env:{form.group(2)}}}"
        scrubber.hide(text, shown)
        return text

    def _value(form: re.Match[str], path: Path_) -> str | None:
        if form.group(1):
            name, default = form.group(2), form.group(3)
            text = os.environ.get(name) or default
            if text is None:
                state = "empty" if name in os.environ else "not set"
                hint = f"Set it, or write ${{env:{name}:-default}}."
            elif NO_TEXT.search(text):
                text, state, hint = None, "not UTF-8 text", ""
            if text is None:
                problem = written.problem(
                    f"environment variable {name} is {state}", path, hint=hint
                )
                written.problems.append(problem)
            return text
        file = Path(written.folder, form.group(5))
        try:
            return read_regular(file, MOST_BYTES).rstrip("\n")
        except (OSError, ValueError) as error:
            if isinstance(error, UnicodeDecodeError):
                reason = "it is not UTF-8 text"
            else:
                reason = getattr(error, "strerror", None) or str(error)
            written.problems.append(written.problem(f"can't read {file}: {reason}", path))
            return None

    return walk(written.values, ()), referring


def _replace(text: str, path: Path_, found: Callable[[re.Match[str], Path_], str]) -> str:
    return _REFERENCE.sub(lambda match: found(match, path), text)
