"""Options of `table_table_join`, and what they make of two tables' columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from mainstem import Changelog, OptionError, Options, option
from mainstem.attempts import OnError, on_error_option
from mainstem.columns import Column
from pydantic import model_validator

from mainstem_operators_joins.columns import pairs, taken_columns

LEFT, RIGHT = "left", "right"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


class TableTableJoinOptions(Options):
    """Options of `table_table_join`: exactly one of `on` and `foreign_key`."""

    on: list[str] | dict[str, str] | None = option(
        None,
        min_length=1,
        description="The key columns of both tables: a list, or by the left one's name the right one's.",
        example=["order_id"],
    )
    foreign_key: str | list[str] | None = option(
        None,
        min_length=1,
        description="SQL over the left row that gives the right table's key; a list for a key of several "
        "columns. Many left rows can refer to one right row; one with a null refers to none.",
        example="customer_id",
    )
    join: Literal["inner", "left", "full"] = option(
        "inner",
        description="Which rows there are: with a row on both sides, all of the left, or (with `on`) "
        "all of both.",
    )
    take: list[str] | dict[str, str] | None = option(
        None,
        description="The right table's columns in the result: a list, or by new name. When left out: all "
        "but those the tables are joined on.",
        example={"customer_name": "name"},
    )
    on_error: OnError = on_error_option()

    @model_validator(mode="after")
    def _one_way(self) -> TableTableJoinOptions:
        if (self.on is None) == (self.foreign_key is None):
            raise ValueError("expected exactly one of `on` and `foreign_key`")
        if self.foreign_key is not None and self.join == "full":
            raise ValueError(
                "`join: full` needs `on`: a right row to which none refers has no left key to be told by"
            )
        return self

    @property
    def pairs(self) -> dict[str, str]:
        """The key columns that `on` names: the right one's by the left one's."""
        return pairs(self.on or [])

    @property
    def references(self) -> list[str]:
        """The expressions of `foreign_key`."""
        given = self.foreign_key
        return [given] if isinstance(given, str) else list(given or ())

    def right_key(self, left: Changelog, right: Changelog) -> list[str]:
        """Return the right table's key columns, in the order of the left side's expressions."""
        if self.on is None:
            return list(right.key)
        by_left = {name.lower(): other for name, other in self.pairs.items()}
        return [by_left[name.lower()] for name in left.key]

    def taken(self, left: Changelog, right: Changelog) -> dict[str, Column]:
        """Return the right columns of the result, by their names in it.

        Raises:
            OptionError: one is not there, or its name can't be had.
        """
        if self.on is not None:
            keys: Iterable[str] = self.pairs.values()
        else:  # a foreign key that is a left column tells the right key already
            plain = [left.column(text.strip().strip("`")) for text in self.references]
            keys = [k for k, c in zip(right.key, plain, strict=False) if c is not None]
        return taken_columns(self.take, right, "the right table", beside=left.names, keys=keys)

    def expressions(self) -> Mapping[str, str]:
        """Return those of `foreign_key` by the option's place."""
        if isinstance(self.foreign_key, str):
            return {"foreign_key": self.foreign_key}
        return {f"foreign_key.{n}": text for n, text in enumerate(self.references)}

    def check_keys(self, left: Changelog, right: Changelog) -> None:
        """Refuse tables whose keys are not those named.

        Raises:
            OptionError: names both.
        """
        if self.on is None:
            if len(self.references) != len(right.key):
                raise OptionError(
                    f"{len(self.references)} expressions, and the right table's key has "
                    f"{len(right.key)} columns: {', '.join(right.key)}",
                    option="foreign_key",
                )
            return
        for side, given, named in (
            (LEFT, left, list(self.pairs)),
            (RIGHT, right, list(self.pairs.values())),
        ):
            if sorted(map(str.lower, named)) != sorted(map(str.lower, given.key)):
                raise OptionError(
                    f"the {side} table's key is {', '.join(given.key)}, not {', '.join(named)}",
                    option="on",
                    hint="`on` joins tables with the same key. Where left rows name the key of a right "
                    "one, write `foreign_key`.",
                )
        for name, other in self.pairs.items():
            self.check_comparable(left.column(name), right.column(other))

    def check_comparable(self, left: Column | None, right: Column | None) -> None:
        """Refuse keys of types that can't be joined, as far as they are known.

        Raises:
            OptionError: names both.
        """
        if left is None or right is None or left.type is None or right.type is None:
            return
        one, other = left.type.lower(), right.type.lower()
        integers = one in _INTEGERS and other in _INTEGERS
        # A key of the result is the one or the other: both have one type.
        if one != other and not (integers and self.join != "full"):
            raise OptionError(
                f"the left table has the key {left.ddl}, the right one {right.ddl}",
                option="on",
                hint="Bring both to one type with `select`, before the changelogs are made.",
            )
