"""Names with columns in them, as options give them: `customer:{id}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from string import Formatter, hexdigits
from typing import Annotated

from pydantic import AfterValidator

from mainstem.contracts.ddl import literal, quoted


def _as_it_is(text: str) -> str:
    return text


class Template:
    """A name of text and of columns in braces; a brace itself is written twice.

    Args:
        text: as the document has it.

    Raises:
        ValueError: it is no template; says why.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            parsed = list(Formatter().parse(text))
        except ValueError as error:
            raise ValueError(
                f"{error}; a column is named as {{id}}, and a brace itself is written twice"
            ) from None
        for _, name, layout, conversion in parsed:
            if name is not None and (not name or layout or conversion):
                raise ValueError("expected a column's name between braces, such as {id}")
        self.parts: list[tuple[str, str | None]] = [(before, name) for before, name, _, _ in parsed]

    @classmethod
    def of(cls, columns: Sequence[str], between: str) -> Template:
        """Return the template of some columns with a text between them."""
        names = (name.replace("{", "{{").replace("}", "}}") for name in columns)
        made = cls("")
        made.text = between.join(f"{{{name}}}" for name in names)
        made.parts = [(between if at else "", name) for at, name in enumerate(columns)]
        return made

    @property
    def columns(self) -> list[str]:
        """The columns that are named, each once, in their order."""
        return list(dict.fromkeys(name for _, name in self.parts if name is not None))

    def sql(self, shown: Callable[[str], str] = _as_it_is) -> str:
        """Return the SQL of a row's name; null where one of its columns is.

        Args:
            shown: makes of a column's SQL, of type STRING, what stands in the name.
        """
        made = []
        for before, name in self.parts:
            made += [literal(before)] if before else []
            made += [shown(f"CAST({quoted(name)} AS STRING)")] if name is not None else []
        return f"concat({', '.join(made)})"

    def filled(
        self, values: Mapping[str, str], shown: Callable[[str], str] = _as_it_is
    ) -> str | None:
        """Return the name that values make; None where one is lacking.

        Args:
            values: by column, as text; names compare as Spark's do, case aside.
            shown: makes of a value what stands in the name.
        """
        known = {name.lower(): value for name, value in values.items()}
        made = []
        for before, name in self.parts:
            made.append(before)
            if name is not None:
                if name.lower() not in known:
                    return None
                made.append(shown(known[name.lower()]))
        return "".join(made)

    # -- names of one row alone -----------------------------------------------------------------

    def apart(self) -> None:
        """See that columns are told apart in the name.

        Raises:
            ValueError: two of them have nothing between them that could.
        """
        if not all(self._ends[:-1]):
            raise ValueError(
                "two columns need a sign between them that is no hexadecimal digit, or names are shared"
            )

    @cached_property
    def _ends(self) -> list[str]:
        """By column in their order, the sign by which its value's end is known; empty if there is none.

        One of the text up to the next column, which that value can't have then; the last value ends
        with the name.
        """
        texts, text = [], ""
        for before, name in self.parts:  # a brace ends a part, too
            text += before
            if name is not None:
                texts.append(text)
                text = ""
        found = []
        for between in texts[1:]:
            signs = [sign for sign in between if sign not in hexdigits]
            found.append(next((sign for sign in signs if not sign.isalnum()), "".join(signs[:1])))
        return [*found, ""]

    def row_sql(self) -> str:
        """Return the SQL of a name that no other row has, of columns that are a key.

        In the value of a column that another one follows, the sign which ends it is percent-encoded.
        """
        ends = iter(self._ends)

        def shown(value: str) -> str:
            for sign in _encoded_for(next(ends)):
                value = f"replace({value}, {literal(sign)}, {literal(_encoded(sign))})"
            return value

        return self.sql(shown)

    def row_filled(self, values: Mapping[str, str]) -> str | None:
        """Return what `row_sql` makes of values; None where one is lacking."""
        ends = iter(self._ends)

        def shown(value: str) -> str:
            for sign in _encoded_for(next(ends)):
                value = value.replace(sign, _encoded(sign))
            return value

        return self.filled(values, shown)

    def pattern(self, wild: str = "*", plain: Callable[[str], str] = _as_it_is) -> str:
        """Return what all its names match.

        Args:
            wild: stands for any text.
            plain: makes of a text what matches that alone.
        """
        return "".join(
            plain(before) + ("" if name is None else wild) for before, name in self.parts
        )


def _encoded_for(end: str) -> list[str]:
    """Return what is encoded in a value that ends with a sign, in this order."""
    return list(dict.fromkeys(("%", end))) if end else []


def _encoded(sign: str) -> str:
    return "".join(f"%{octet:02X}" for octet in sign.encode())


def _checked(text: str) -> str:
    Template(text)
    return text


#: An option that is a template, kept as its text.
TemplateText = Annotated[str, AfterValidator(_checked)]
