"""XML becomes columns: elements and attributes by name, a document or each element of one name a row.

A document type, and with it every entity that is not XML's own, is refused: nothing is fetched, and no
value becomes larger than it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, fromstring
from xml.parsers import expat

from mainstem.contracts.ddl import Column, parts_of
from mainstem.contracts.formats import Several
from mainstem.formats import scalars
from mainstem.formats.arrow import Array
from mainstem.formats.json_values import EMPTY, NULL, Decoded
from mainstem.formats.rules import Rules
from mainstem.formats.scalars import Misfit
from mainstem.formats.words import word_of

_NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"
#: How documents begin that are in UTF-8, and say no other.
_PLAIN = re.compile(
    rb"\s*<(?!\?xml)|"
    rb"<\?xml\s+version=[\"']1\.0[\"'](?:\s+encoding=[\"'](?i:utf-8)[\"'])?\s*\?>"
)
_BLANKS = " \t\r\n"
#: What a row takes at least for each column, in bytes.
_LEAST = 8
#: What stands for a field: elements of its name, or the text of an attribute.
_Found = Sequence[Element | str]
_Takes = Callable[[_Found], Any]


class XmlValues:
    """Reads documents by a schema.

    Args:
        columns: those that come out.
        rules: how times are written.
        row: the name of the elements that are rows; the document's own element for None.
        text: the field of a struct that has the text of its element.
        missing: whether a column that a row does not have is null, instead of a reason.
        extra: whether a row may have others.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        rules: Rules = Rules(),  # noqa: B008
        *,
        row: str | None = None,
        text: str = "value",
        missing: bool = True,
        extra: bool = True,
    ) -> None:
        self._columns, self._row, self._text = columns, row, text
        self._names = frozenset(column.name for column in columns)
        self._takes = [_taking(column.type or "", rules, text) for column in columns]
        self._missing, self._extra = missing, extra

    def read(self, values: Array) -> Decoded:
        """Return the columns of an array of bytes, a row each, and why rows are refused."""
        rows: list[Sequence[Any]] = []
        reasons: list[str | None] = []
        none = (None,) * len(self._columns)
        for value in values.to_pylist():
            try:
                rows.append(self._fields(_document(value)))
                reasons.append(None)
            except Misfit as misfit:
                rows.append(none)
                reasons.append(str(misfit))
        return self._arrays(rows), reasons

    def read_rows(self, values: Array, limit: int) -> Several:
        """Return the rows of each value, all of them or none.

        Args:
            limit: how many bytes those of one may take.
        """
        found = Several()
        rows: list[Sequence[Any]] = []
        for value in values.to_pylist():
            begin = len(rows)
            try:
                size = 0
                for element in _rows(_document(value), self._row or ""):
                    size += _LEAST * len(self._columns) + sum(map(len, element.itertext()))
                    if size > limit:
                        raise Misfit(f"its rows take more than {limit} bytes")
                    rows.append(self._fields(element))
                found.reasons.append(None)
            except Misfit as misfit:
                del rows[begin:]
                found.reasons.append(str(misfit))
            found.ends.append(len(rows))
        found.rows = self._arrays(rows)
        return found

    def _arrays(self, rows: Sequence[Sequence[Any]]) -> list[Array]:
        columns = zip(*rows, strict=True) if rows else ((),) * len(self._columns)
        return [
            scalars.made(column.type or "", list(each))
            for column, each in zip(self._columns, columns, strict=True)
        ]

    def _fields(self, element: Element) -> list[Any]:
        """Return the values of a row."""
        held = _held(element, self._text if self._text in self._names else None)
        if not self._extra and (more := held.keys() - self._names):
            raise Misfit(f"unknown: {len(more)} elements or attributes")
        if not self._extra and self._text not in held and _own_text(element).strip(_BLANKS):
            raise Misfit("unknown: a text")
        made: list[Any] = []
        misfits: list[str] = []
        for column, take in zip(self._columns, self._takes, strict=True):
            try:
                found = held.get(column.name, ())
                if not self._missing and not found:
                    raise Misfit("is missing")
                made.append(take(found))
                if made[-1] is None and not column.nullable:
                    raise Misfit("is null")
            except Misfit as misfit:
                words = str(misfit)
                misfits.append(column.name + (words if words.startswith(".") else f" {words}"))
        if misfits:
            raise Misfit(", ".join(misfits))
        return made


# -- documents ------------------------------------------------------------------------------


def _document(value: bytes | None) -> Element:
    """Return the element of a document.

    Raises:
        Misfit: it is none.
    """
    if value is None:
        raise Misfit(NULL)
    if not value.strip():
        raise Misfit(EMPTY)
    try:
        if _PLAIN.match(value) and b"<!D" not in value and b"\0" not in value:
            return fromstring(value)  # noqa: S314  # it has no document type
        return _parsed(value)
    except ParseError as error:
        line, column = error.position
    except expat.ExpatError as error:
        line, column = error.lineno, error.offset
    except (ValueError, LookupError) as error:  # of an encoding
        raise error if isinstance(error, Misfit) else Misfit("not XML: its encoding") from None
    raise Misfit(f"not XML at line {line}, character {column + 1}")


def _parsed(value: bytes) -> Element:
    """Return the element of a document that may have a document type, which is refused."""
    builder = TreeBuilder()
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True

    def start(name: str, attributes: Mapping[str, str]) -> None:
        builder.start(_whole(name), {_whole(key): text for key, text in attributes.items()})

    def refuse(*_: Any) -> None:
        raise Misfit("not XML as it is read: it has a document type")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: builder.end(_whole(name))
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(value, True)
    return builder.close()


def _whole(name: str) -> str:
    return f"{{{name}" if "}" in name else name


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _rows(element: Element, name: str) -> Iterator[Element]:
    """Yield the elements of a name that are in none of that name."""
    waiting = [element]
    while waiting:
        found = waiting.pop()
        if _local(found.tag) == name:
            yield found
        else:
            waiting += reversed(found)


def _held(element: Element, text: str | None) -> dict[str, list[Element | str]]:
    """Return the elements and attributes in an element, by name.

    Args:
        text: the name of its own text; None where nobody asks for it.
    """
    held: dict[str, list[Element | str]] = {}
    for name, value in element.attrib.items():
        if name != _NIL:
            held.setdefault(_local(name), []).append(value)
    for each in element:
        held.setdefault(_local(each.tag), []).append(each)
    own = _own_text(element)
    if text is not None and (own.strip(_BLANKS) or (text not in held and not len(element))):
        held.setdefault(text, []).append(own)
    return held


def _is_text(element: Element) -> bool:
    """Whether an element has a text and nothing else."""
    return not len(element) and not element.attrib and bool((element.text or "").strip(_BLANKS))


def _own_text(element: Element) -> str:
    """Return the text of an element without that of those in it; blanks between them are none."""
    if not len(element):
        return element.text or ""
    parts = [element.text or "", *(each.tail or "" for each in element)]
    return "".join(part for part in parts if part.strip(_BLANKS))


# -- values ---------------------------------------------------------------------------------


def _taking(kind: str, rules: Rules, text: str) -> _Takes:
    """Return what makes a value of a type of what is found."""
    word, parts = word_of(kind), parts_of(kind)
    if word == "array":
        one = _taking(parts[0].type or "", rules, text)
        return lambda found: [one([each]) for each in found] if found else None
    plain = _structured(word, kind, rules, text) if parts else _scalar(word, kind, rules)

    def take(found: _Found) -> Any:
        if len(found) > 1:
            raise Misfit(f"is there {len(found)} times")
        if not found or _is_nil(found[0]):
            return None
        return plain(found[0])

    return take


def _is_nil(found: Element | str) -> bool:
    return not isinstance(found, str) and found.get(_NIL) in ("true", "1")


def _scalar(word: str, kind: str, rules: Rules) -> Callable[[Element | str], Any]:
    no, is_text = f"is no {kind.upper()}", word == "string"
    read = scalars.reader(kind, rules)

    def take(found: Element | str) -> Any:
        if not isinstance(found, str) and len(found):
            raise Misfit(f"{no}: there are elements in it")
        text = found if isinstance(found, str) else found.text or ""
        if not is_text:
            text = text.strip(_BLANKS)
        return read(text) if text or is_text else None

    return take


def _structured(word: str, kind: str, rules: Rules, text: str) -> Callable[[Element | str], Any]:
    parts = parts_of(kind)
    takes = [_taking(part.type or "", rules, text) for part in parts]
    names = [part.name for part in parts]
    own = text if word == "struct" and text in names else None

    no = f"is no {word.upper()}: it is a text"

    def fields(found: Element | str) -> Any:
        if own is None and (isinstance(found, str) or _is_text(found)):
            raise Misfit(no)
        held = {own: [found]} if isinstance(found, str) else _held(found, own)
        return {
            name: _within(name, take, held.get(name, ()))
            for name, take in zip(names, takes, strict=True)
        }

    def pairs(found: Element | str) -> Any:
        if isinstance(found, str) or _is_text(found):
            raise Misfit(no)
        held = _held(found, None)
        key, value = takes
        return [(key([name]), _within(name, value, its)) for name, its in held.items()]

    return fields if word == "struct" else pairs


def _within(name: str, take: _Takes, found: _Found) -> Any:
    try:
        return take(found)
    except Misfit as misfit:
        words = str(misfit)
        raise Misfit(f".{name}" + (words if words.startswith(".") else f" {words}")) from None
