"""From rows to messages: subject, header lines and body.

NATS keeps headers as lines of text (`Name: value`), so a value must be UTF-8 without line breaks, and
spaces around it would be gone for who reads it; a row with another one is refused. Headers that begin
with `Nats-` are not data: they tell the server what to do, or a reader where a message came from. Only
those that the option `directives` names are sent on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from mainstem.columns import Column, Template, check_types, find_column
from mainstem.sinks import Refused, values_of

if TYPE_CHECKING:
    import pyarrow as pa

#: A server reads a command's line of 4,096 bytes at most unless it is told else; the rest of the line is
#: the subject for answers and two sizes.
_LONGEST = 3900
_NOT_ALLOWED = re.compile(r"[\s\x00-\x1f\x7f]")
_REMEMBERED = 10_000


class SubjectTemplate(Template):
    """A subject with the names of columns in it: `orders.{key}`.

    What a column holds is text, or UTF-8 in bytes; it may be several tokens (`eu.berlin`).

    Raises:
        ValueError: the text is no template, or no subject.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._known: dict[tuple[Any, ...], str] = {}
        # What begins with `$` is the server's own: `$JS.API.STREAM.DELETE.x` deletes a stream.
        self._own = text.startswith("$")
        if not self.columns and (why := self._fault(self._made(()))):
            raise ValueError(why)

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

    def _made(self, texts: tuple[str, ...]) -> str:
        return self.filled(dict(zip(self.columns, texts, strict=True))) or ""

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


#: Directives that are the sink's own, or make no sense of one message.
OWN = re.compile(r"nats-(msg-id|expected-.*|batch-.*)", re.IGNORECASE)

_VERSION = b"NATS/1.0\r\n"
_NAME = re.compile(r"[!-9;-~]+")
_TYPES = {"headers": ("map<string,binary>",), "key": ("binary", "string")}
_NUMBERS = ("tinyint", "smallint", "int", "bigint")


class Message(NamedTuple):
    """A message to publish.

    `identity` and `body` are the row's `_id` and value; `head` are the header lines, whole, or empty;
    `size` is of both.
    `name` is what the stream knows the message by, and `expected` the sequence it is to follow.
    """

    identity: bytes | None
    subject: str
    head: bytes
    body: bytes
    size: int
    name: str | None = None
    expected: int | None = None

    @property
    def lane(self) -> str:
        """What its order is within."""
        return self.subject

    @property
    def payload(self) -> bytes:
        """What is told of its row if it is refused."""
        return self.body


@dataclass(frozen=True)
class Layout:
    """What messages are made of.

    Args:
        subject: the template of their subjects.
        stream: the stream that is to take them, and no other; empty for core NATS.
        suffix: what follows a row's `_id` in the message's id; None gives messages no id.
        directives: the `Nats-` headers that are sent on, in lower case.
        expect: the header that carries the expected sequence, and the column that holds it.
    """

    subject: str
    stream: str = ""
    suffix: str | None = None
    directives: frozenset[str] = frozenset()
    expect: tuple[str, str] | None = None


def check_columns(
    columns: Sequence[Column], template: SubjectTemplate, expect: tuple[str, str] | None = None
) -> None:
    """Refuse columns that can't be what their names say, or lack what the options name.

    Args:
        columns: what the sink will be given.
        template: of the subject.
        expect: an option, and the column it names, of sequences that are expected.

    Raises:
        OptionError: says which column of what.
    """
    wanted = dict(_TYPES)
    named = [("subject", column) for column in template.columns]
    for option, column in [*named, *([expect] if expect else [])]:
        find_column(columns, column, option)
        wanted[column.lower()] = _NUMBERS if expect == (option, column) else ("binary", "string")
    check_types(columns, wanted)


def messages(
    batch: pa.RecordBatch, layout: Layout, template: SubjectTemplate, refused: Refused
) -> Iterator[Message]:
    """Yield a message for each row; a row that makes none is noted as refused.

    A null value is an empty body, a null header an empty one.
    """
    column = partial(values_of, batch)
    subjects: Any = repeat(())
    if template.columns:
        subjects = zip(*map(column, template.columns), strict=False)
    expectations = repeat(None) if layout.expect is None else column(layout.expect[1])
    first = _VERSION
    if layout.stream:
        first += b"Nats-Expected-Stream: %b\r\n" % layout.stream.encode()
    expect = layout.expect[0].encode() if layout.expect else b""
    suffix = layout.suffix
    rows = zip(
        column("value"), column("headers"), column("_id"), subjects, expectations, strict=False
    )
    subject_of = template.subject
    for value, headers, identity, parts, expected in rows:
        name = None
        head = first
        try:
            subject = subject_of(parts)
            if identity is not None and suffix is not None:
                name = identity.hex() + suffix
                head += b"Nats-Msg-Id: %b\r\n" % name.encode()
            if expected is not None:
                if expected < 0:
                    raise ValueError(f"the expected sequence is below 0: {expected}")
                head += b"%b: %d\r\n" % (expect, expected)
            if headers:
                head += lines(headers, layout.directives)
        except ValueError as error:
            refused.add(identity, value, str(error))
            continue
        head = b"" if head is _VERSION or head == _VERSION else head + b"\r\n"
        body = value or b""
        size = len(head) + len(body)
        yield Message(identity, subject, head, body, size, name, expected)


def lines(headers: Sequence[tuple[str, bytes | None]], directives: frozenset[str]) -> bytes:
    """Return the header lines of a row.

    Raises:
        ValueError: a header can't be one of NATS; says which and why.
    """
    made = []
    for name, value in headers:
        if name[:5].lower() == "nats-" and name.lower() not in directives:
            continue
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"header {name[:40]!r}: names are ASCII, without spaces and colons, and not empty"
            )
        value = value or b""
        if b"\r" in value or b"\n" in value:
            raise ValueError(
                f"header {name!r} has a line break in its value, which NATS can't keep"
            )
        if value != value.strip():
            raise ValueError(f"header {name!r} has spaces around its value, which NATS can't keep")
        try:
            value.decode()
        except UnicodeDecodeError:
            raise ValueError(
                f"header {name!r} is not UTF-8, and headers of NATS are text"
            ) from None
        made.append(b"%b: %b\r\n" % (name.encode(), value))
    return b"".join(made)
