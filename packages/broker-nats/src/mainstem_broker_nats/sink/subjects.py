"""Subjects of messages: made of a row by a template, and looked at before the server sees them."""

from __future__ import annotations

import re
from string import Formatter
from typing import Any

from mainstem.columns import quoted

#: A server reads a command's line of 4,096 bytes at most unless it is told else; the rest of the line is
#: the subject for answers and two sizes.
_LONGEST = 3900
_NOT_ALLOWED = re.compile(r"[\s\x00-\x1f\x7f]")
_REMEMBERED = 10_000


class Template:
    """A subject with the names of columns in it: `orders.{key}`.

    What a column holds is text, or UTF-8 in bytes; it may be several tokens (`eu.berlin`). `{{` and `}}`
    stand for braces.

    Raises:
        ValueError: the text is no template.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts: list[tuple[str, str | None]] = []
        try:
            parsed = list(Formatter().parse(text))
        except ValueError as error:
            raise ValueError(
                f"{error}; a column is named as {{key}}, and a brace itself is written twice"
            ) from None
        for literal, name, layout, conversion in parsed:
            if name is not None and (not name or layout or conversion):
                raise ValueError("expected a column's name between braces, such as {key}")
            self._parts.append((literal, name))
        self._known: dict[tuple[Any, ...], str] = {}
        # What begins with `$` is the server's own: `$JS.API.STREAM.DELETE.x` deletes a stream.
        self._own = self._parts[0][0].startswith("$") if self._parts else False
        if not self.columns and (why := self._fault(self._made(()))):
            raise ValueError(why)

    @property
    def columns(self) -> list[str]:
        """The columns that are named, each once, in their order."""
        return list(dict.fromkeys(name for _, name in self._parts if name is not None))

    @property
    def constant(self) -> str | None:
        """The subject, where no column is named."""
        return None if self.columns else self._made(())

    def subject(self, values: tuple[Any, ...]) -> str:
        """Return the subject of a row.

        Args:
            values: what its columns hold, in the order of `columns`.

        Raises:
            ValueError: it is no subject that can be published to; says why.
        """
        known = self._known.get(values)
        if known is not None:
            return known
        made = self._made(tuple(map(_text, self.columns, values)))
        if why := self._fault(made):
            raise ValueError(why)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[values] = made
        return made

    def sql(self) -> str:
        """Return SQL that is the same for rows of one subject."""
        parts = []
        for literal, name in self._parts:
            if literal:
                parts.append("'" + literal.replace("\\", "\\\\").replace("'", "\\'") + "'")
            if name is not None:
                parts.append(f"CAST({quoted(name)} AS STRING)")
        return f"concat({', '.join(parts)})"

    def _made(self, texts: tuple[str, ...]) -> str:
        of = dict(zip(self.columns, texts, strict=True))
        return "".join(
            literal + (of[name] if name is not None else "") for literal, name in self._parts
        )

    def _fault(self, subject: str) -> str:
        """Return why nothing can be published to a subject, or an empty string."""
        shown = repr(subject if len(subject) <= 80 else subject[:80] + "...")
        if not subject:
            return "the subject is empty"
        if _NOT_ALLOWED.search(subject):
            return f"subject {shown} has a space or a control character in it"
        tokens = subject.split(".")
        if "" in tokens:
            return f"subject {shown} has an empty token: nothing before, between or after its dots"
        if "*" in tokens or ">" in tokens:
            return f"subject {shown} has a wildcard in it, and a message has one subject"
        if subject.startswith("$") and not self._own:
            return f"subject {shown} begins with $, which is the server's own"
        if len(subject) > _LONGEST // 4 and len(subject.encode()) > _LONGEST:
            return f"subject {shown} has more than {_LONGEST} bytes"
        return ""


def matches(subject: str, pattern: str) -> bool:
    """Whether a subject is one of those that a pattern with wildcards stands for."""
    wanted, tokens = pattern.split("."), subject.split(".")
    for place, part in enumerate(wanted):
        if part == ">":
            return len(tokens) > place
        if place >= len(tokens) or part not in ("*", tokens[place]):
            return False
    return len(wanted) == len(tokens)


def _text(column: str, value: Any) -> str:
    if value is None:
        raise ValueError(f"no subject: column {column!r} is null")
    if isinstance(value, str):
        return value
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        raise ValueError(f"no subject: column {column!r} is not UTF-8: {value[:40]!r}") from None
