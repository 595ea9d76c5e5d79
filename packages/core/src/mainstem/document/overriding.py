"""Changes to a document from outside: `--set key.path=value` and `MAINSTEM_KEY__PATH=value`.

The environment comes first and `--set` wins over it. Values are YAML, and may hold references.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from mainstem.document.model import Document
from mainstem.document.reading import Path_, Written, read_text
from mainstem.errors import DocumentError, Problem, nearest

_PART = re.compile(r'"([^"]+)"|([^."=]+)')
PREFIX = "MAINSTEM_"


def override(written: Written, changes: Iterable[str]) -> None:
    """Change a document; what can't be understood becomes a problem of it."""
    for name in sorted(os.environ):
        if name.startswith(PREFIX):
            path = tuple(name.removeprefix(PREFIX).lower().split("__"))
            if path[0] in Document.model_fields and all(path):
                _change(written, path, os.environ[name], name)
            elif path[0] in Document.model_fields:
                _wrong(written, f"{name}: a part of its path is empty")
            elif (
                len(path) > 1
                and (hint := nearest(path[0], Document.model_fields))
                and name not in repr(written.values)  # which may refer to it
            ):
                _wrong(written, f"{name}: a document has no key {path[0]!r}", hint)
    for change in changes:
        key, equals, text = change.partition("=")
        parts = [quoted or plain for quoted, plain in _PART.findall(key)]
        if not equals or not parts:
            _wrong(written, f"expected --set KEY.PATH=VALUE, found {change!r}")
        elif parts[0] not in Document.model_fields:
            hint = nearest(parts[0], Document.model_fields)
            _wrong(written, f"--set {key}: a document has no key {parts[0]!r}", hint)
        else:
            _change(written, tuple(parts), text, f"--set {key}")


def _change(written: Written, path: tuple[str, ...], text: str, origin: str) -> None:
    try:
        inner = read_text(f"value: {text}")
    except DocumentError:
        _wrong(written, f"{origin}: the value is not YAML")
        return
    if inner.problems or inner.values.keys() != {"value"}:
        why = inner.problems[0].message if inner.problems else "more than one value"
        _wrong(written, f"{origin}: {why}")
        return
    value = inner.values["value"]
    place: Any = written.values
    whole: Path_ = ()
    for part, following in zip(path, (*path[1:], None), strict=True):
        key: str | int = part
        if isinstance(place, list):
            if not part.isdigit() or int(part) >= len(place):
                _wrong(written, f"{origin}: the list has no item {part!r}")
                return
            key = int(part)
        elif not isinstance(place, dict):
            _wrong(written, f"{origin}: {'.'.join(map(str, whole))} holds no keys")
            return
        whole = (*whole, key)
        if following is None:
            place[key] = value
            written.origins[whole] = origin
        elif isinstance(place, dict):
            place = place.setdefault(part, {})
        else:
            place = place[int(part)]


def _wrong(written: Written, message: str, hint: str = "") -> None:
    written.problems.append(Problem(message, "", written.file, hint=hint))
