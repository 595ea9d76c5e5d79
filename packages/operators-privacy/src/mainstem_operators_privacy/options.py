"""What the document says of subjects, their keys and what is encrypted."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Annotated

from mainstem import Hidden, OptionError, Options, Schema, Secret, Shape, option
from mainstem.columns import Column, find_column
from mainstem_database.options import DatabaseOptions

#: Types whose values have one text each.
_SUBJECTS = ("string", "tinyint", "smallint", "int", "bigint")
#: Types whose values are what they were after they have been text.
_EXACT = ("string", "binary", "boolean", "tinyint", "smallint", "int", "bigint", "decimal", "date")
_MASTER = 32


def _check(master: Secret) -> Secret:
    try:
        found = base64.b64decode(master.get_secret_value().strip(), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if len(found) != _MASTER:
        raise ValueError(
            f"expected {_MASTER} bytes in base64, such as `openssl rand -base64 32` makes"
        )
    return master


class KeyOptions(DatabaseOptions):
    """Options of `keys`."""

    table: str = option(
        "mainstem_subject_keys",
        min_length=1,
        description="The table with a row for each subject, made where it is not there.",
    )
    master: Annotated[Secret, Hidden(_check)] = option(
        description="What the subjects' keys are encrypted with, and their names hidden: 32 bytes in "
        "base64. Who loses it has destroyed all of them.",
        example="${env:MASTER_KEY}",
    )

    @property
    def master_bytes(self) -> bytes:
        """The bytes of `master`."""
        return base64.b64decode(self.master.get_secret_value().strip())


class SubjectOptions(Options):
    """Options of all that knows whose a row is."""

    subject: str = option(
        min_length=1, description="The column that says whose a row is.", example="customer_id"
    )
    keys: KeyOptions = option(description="Where the keys of subjects are kept.")

    def cautions(self) -> Iterator[str]:
        yield from self.keys.cautions()

    def subject_of(self, given: Shape) -> str:
        """Return the column with the subject.

        Raises:
            OptionError: there is none, or its values have no one text.
        """
        column = find_column(given.columns, self.subject, "subject")
        if (column.type or "string").partition("(")[0] not in _SUBJECTS:
            hint = "Make a text of it with `select`."
            raise OptionError(f"{column.ddl} can't tell a subject", option="subject", hint=hint)
        return column.name


class EncryptOptions(SubjectOptions):
    """Options of `encrypt`."""

    columns: list[str] = option(
        min_length=1,
        description="The columns that are encrypted; they become text.",
        example=["name", "email"],
    )

    def private(self, given: Shape) -> list[Column]:
        """Return the columns that are encrypted.

        Raises:
            OptionError: one is not there, or can't be.
        """
        found = [find_column(given.columns, name, "columns") for name in self.columns]
        for column in found:
            if column.type is None:
                hint = "Give it one with `select`: CAST(... AS STRING)."
                raise OptionError(f"{column.name} has no known type", option="columns", hint=hint)
        check_exact(found)
        return found


class DecryptOptions(SubjectOptions):
    """Options of `decrypt`."""

    columns: Schema = option(
        description="The columns that are decrypted, with the types that they had.",
        example="name STRING, born DATE",
    )

    def private(self, given: Shape) -> list[Column]:
        """Return the columns that are decrypted, with the types that they get.

        Raises:
            OptionError: one is not there, or can't be.
        """
        for column in self.columns:
            found = find_column(given.columns, column.name, "columns")
            if found.type not in (None, "string"):
                raise OptionError(f"{found.ddl} is no text, and not encrypted", option="columns")
        check_exact(self.columns)
        return [
            Column(find_column(given.columns, c.name, "columns").name, c.type) for c in self.columns
        ]


def check_exact(columns: Sequence[Column]) -> None:
    """See that columns are named once, and that their values are what they were after being text.

    Raises:
        OptionError: one is not.
    """
    names = [column.name.lower() for column in columns]
    for column in columns:
        if names.count(column.name.lower()) > 1:
            raise OptionError(f"{column.name} is named twice", option="columns")
        if (column.type or "").partition("(")[0] not in _EXACT or "collate" in (column.type or ""):
            hint = "Make a text of it with `select`: to_json(...), date_format(...)."
            raise OptionError(f"{column.ddl} can't be encrypted", option="columns", hint=hint)


class ForgetOptions(SubjectOptions):
    """Options of the sink `forget`."""
