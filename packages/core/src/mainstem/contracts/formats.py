"""Formats: how single values are written, which `decode` reads and `encode` writes.

A format has a half for reading and one for writing, each with options of its own, which stand beside the
operator's. Both are asked before Spark; what they give for tasks is pickled, and made ready there once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeVar

from pydantic import ConfigDict, create_model, model_validator

from mainstem.contracts.columns import with_unknown
from mainstem.contracts.components import Component, Find, Needs, model_of
from mainstem.contracts.ddl import Column, quoted
from mainstem.contracts.options import Options, option
from mainstem.errors import OptionError, PluginError

if TYPE_CHECKING:
    import pyarrow as pa

    #: A batch as columns, and by row why it is refused, or None.
    Decoded = tuple[Sequence[pa.Array[Any]], Sequence[str | None]]

H = TypeVar("H", bound="Half")


class Half(ABC):
    """What both halves of a format share: made for one use of an operator, with all of its options."""

    options: Options

    def __init__(self, options: Options) -> None:
        self.options = options

    @classmethod
    def options_model(cls) -> type[Options]:
        """Return the model of the half's own options, with which `options` is annotated."""
        return model_of(cls)

    def needs(self) -> Needs:
        """Return what the Spark session must have for it; asked once, before Spark."""
        return Needs()


class ValueReader(Protocol):
    """Reads values in tasks. It is pickled, and equal to one that reads alike: a frozen dataclass."""

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch.

        It is given an array of values (binary, null where a message has none) and returns `Decoded`: an
        array for each column, of the types that `mainstem.columns.arrow_type` gives (for a VARIANT the
        JSON text of it), and for each row why it is refused, or None. It never raises because of a
        value. That of a `ChangesDecoder` is given the messages' keys too, and returns `Changes`. Each
        is given `Decoder.headers` behind these.
        """


class Decoder(Half):
    """How values become columns, a row each."""

    @abstractmethod
    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        """Return the columns that come out. Called without Spark, perhaps more than once.

        Args:
            schema: the columns that the document declares, if it does.

        Raises:
            OptionError: the options do not fit each other, or the format has no such values.
        """

    @abstractmethod
    def reader(self, schema: Sequence[Column] | None) -> ValueReader:
        """Return what reads the columns for such a schema."""

    @property
    def many(self) -> bool:
        """Whether a value holds rows, none, one or several, all of which are read or none.

        The reader is then called with an array of values and with how many bytes the rows of one may
        take, written plainly; it returns `Several`.
        """
        return False

    @property
    def headers(self) -> Sequence[str]:
        """The messages' headers that the reader needs, such as those that name a schema.

        It is given an array for each (binary), null where a message does not have that header.
        """
        return ()

    @property
    def types(self) -> Sequence[str]:
        """The columns, structs, that are each null but in values of one type; no value is of two.

        Each is an output of `decode`, whose columns are its fields.
        """
        return ()

    @property
    def pattern(self) -> str | None:
        """Spark's pattern of TIMESTAMP columns, which the reader then gives as texts; None for none."""
        return None

    @property
    def loose(self) -> bool:
        """Whether a text that `pattern` does not fit is null, instead of a reason to refuse the row."""
        return False


class Times(Options):
    """How times are written that are no text of ISO 8601."""

    unit: Literal["s", "ms", "us", "ns"] | None = option(
        None,
        description="What a bare number counts since 1970, for TIMESTAMP columns; numbers are refused "
        "when left out.",
    )


class FieldOptions(Options):
    """Options of formats whose values name their fields."""

    missing: Literal["null", "reject"] = option(
        "null",
        description="A column that the value does not have: null, or the row is refused.",
    )
    extra: Literal["ignore", "reject"] = option(
        "ignore",
        description="A field that the schema does not have: ignored, or the row is refused.",
    )


class UnknownOptions(FieldOptions):
    """Options of formats whose values can keep fields that nobody knows."""

    unknown: str | None = option(
        None,
        min_length=1,
        description="The column of the fields that the value has and the schema does not, a VARIANT: "
        "null where there are none.",
    )

    @model_validator(mode="after")
    def _kept_or_refused(self) -> Self:
        if self.unknown is not None and self.extra != "ignore":
            raise ValueError("`unknown` keeps what `extra: reject` refuses")
        return self


class MapOptions(UnknownOptions):
    """Options of reading values that are maps by name."""

    times: Times = option(
        Times, description="How times are written, where they are no ISO 8601 text and no time."
    )


class MapDecoder(Decoder):
    """Values that are maps by name, as objects of a library: the columns are those of the document."""

    options: MapOptions

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        if not schema:
            raise OptionError("the format needs a `schema`", option="schema")
        for column in schema:
            if "interval" in (column.type or ""):
                told = f"the format has no values of type {column.type}, as column {column.name}"
                raise OptionError(told, option="schema")
        return with_unknown(schema, self.options.unknown)

    def given(self) -> tuple[tuple[str, Any], ...]:
        """Return what `mainstem.objects.ObjectColumns` is told of the options."""
        options = self.options
        return (
            ("unit", options.times.unit),
            ("missing", options.missing == "null"),
            ("extra", options.extra == "ignore"),
            ("unknown", options.unknown is not None),
        )


class ChangesOptions(Options):
    """Options of every format whose values tell of a table's changes."""

    key: list[str] | None = option(
        None, min_length=1, description="The columns of the table's key."
    )
    sequence: str = option(
        "position",
        description="The column, one of `keep` or the message column `position`, that only grows for a "
        "key.",
    )
    preimages: bool = option(
        True,
        description="Whether the rows as they were before come out too. A table of PostgreSQL must have "
        "REPLICA IDENTITY FULL for that: else updates are refused, and of a deleted row only the key is "
        "true. Without pre-images a deletion tells the key alone.",
    )


class ChangesDecoder(Decoder):
    """How values become the changes of a table, none, one or several each."""

    options: ChangesOptions


@dataclass
class Several:
    """The rows of a batch of messages, none, one or several of each.

    Attributes:
        ends: for each message where its rows end.
        rows: the values, by column.
        reasons: for each message why it is refused, or None.
    """

    ends: list[int] = field(default_factory=list)
    rows: Sequence[Any] = ()
    reasons: list[str | None] = field(default_factory=list)


@dataclass
class Changes:
    """The changes of a batch of messages.

    Attributes:
        kinds: for each change its type, for each message where its changes end.
        rows: the values of the changes, by column.
        committed: for each message when the database made the change, in microseconds, or None.
        reasons: for each message why it is refused, or None.
    """

    kinds: list[str] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    committed: list[int | None] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)


class Encoder(Half):
    """How columns become values, by SQL of Spark's; see `ArrowEncoder` for any other way."""

    @abstractmethod
    def check(self, columns: Sequence[Column]) -> None:
        """Look at the columns that go into values: without Spark as far as they are known, then with it.

        Raises:
            OptionError: the format has no values of theirs.
        """

    @abstractmethod
    def value(self, columns: Sequence[Column]) -> str:
        """Return SQL for the value of a row with these columns: bytes, or what is cast to them."""


class ValueWriter(Protocol):
    """Writes values in tasks. It is pickled, and equal to one that writes alike: a frozen dataclass."""

    def open(self) -> Callable[..., tuple[Any, Sequence[str | None]]]:
        """Return what writes a batch.

        It is given an array for each of `ArrowEncoder.given`, and returns an array of values (binary)
        and for each row why it has none, or None. It never raises because of a row.
        """


class ArrowEncoder(Encoder):
    """How columns become values, in tasks."""

    @abstractmethod
    def writer(self, columns: Sequence[Column]) -> ValueWriter:
        """Return what writes rows with these columns, all of known type."""

    def given(self, columns: Sequence[Column]) -> Sequence[str]:
        """Return SQL for what the writer is given: the columns, unless Spark does a part of the work."""
        return [quoted(column.name) for column in columns]

    def value(self, columns: Sequence[Column]) -> str:
        """Return SQL for what the writer has made."""
        return f"{WRITTEN}.value"


#: The column that has what a `ValueWriter` has made of a row: `value`, and `reason` where there is none.
WRITTEN = "__written"


class Format(Component):
    """How single values are written.

    Attributes:
        decoder: the half for `decode`; None for a format that can't be read.
        encoder: the half for `encode`; None for one that can't be written.
    """

    kind = "format"
    options: Options
    decoder: ClassVar[type[Decoder] | None] = None
    encoder: ClassVar[type[Encoder] | None] = None


class FormattedOptions(Options):
    """Options of an operator with a format, to which the format's own are added for each use.

    Attributes:
        half: that of the format, in a model that has its options.
    """

    half: ClassVar[type[Half] | None] = None

    format: str = option(
        description="How the value is written: a format's word. Its own options stand beside this one; "
        "`mainstem plugins show WORD` tells them."
    )

    def made(self, kind: type[H]) -> H:
        """Return the format's half for these options."""
        if self.half is None or not issubclass(self.half, kind):
            raise TypeError(f"{type(self).__name__} has no options of a format: see `with_format`")
        return self.half(self)


def with_format(
    base: type[FormattedOptions], attribute: str, given: Mapping[str, Any], find: Find
) -> type[Options]:
    """Return an operator's options with those of the format that is given among them.

    Args:
        base: the operator's own.
        attribute: of a `Format`, which half is meant.
        given: what the document says.
        find: gives the component of a kind and word.

    Raises:
        OptionError: there is no such format, or it has no such half.
    """
    word = given.get("format")
    if not isinstance(word, str):
        return _open(base)
    try:
        half: type[Half] | None = getattr(find("format", word), attribute)
        if half is not None:
            return joined(base, half)
    except PluginError as error:
        raise OptionError(str(error), option="format") from error
    can = "written" if attribute == "encoder" else "read"
    raise OptionError(f"{word} can't be {can}", option="format")


@lru_cache(maxsize=256)
def joined(base: type[FormattedOptions], half: type[Half]) -> type[FormattedOptions]:
    """Return the options of an operator with those of a half of a format.

    Raises:
        PluginError: both have an option of one name.
    """
    own = half.options_model()
    if twice := sorted(_options(own) & _options(base)):
        raise PluginError(
            f"{half.__qualname__}: the operator has the option {', '.join(twice)} too"
        )
    bases: Any = base if issubclass(base, own) else (own, base)  # some have no options
    made: type[FormattedOptions] = create_model(
        base.__name__, __base__=bases, __module__=base.__module__
    )
    made.half = half
    return made


def _options(model: type[Options]) -> set[str]:
    """Return the names that options have in documents, and in the model."""
    return {name for key, field in model.model_fields.items() for name in (key, field.alias or key)}


@lru_cache(maxsize=8)
def _open(base: type[FormattedOptions]) -> type[FormattedOptions]:
    """Return an operator's options beside which anything may stand, where the format is not known."""

    class Open(base):  # type: ignore[valid-type, misc]
        model_config = ConfigDict(extra="ignore")

    return Open
