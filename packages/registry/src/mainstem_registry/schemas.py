"""Schemas by the heads of values: asked for once, and kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mainstem import PermanentError
from mainstem.patience import retry

from mainstem_registry.framing import FRAMINGS, UnknownSchema
from mainstem_registry.options import RegistryOptions
from mainstem_registry.references import referred

if TYPE_CHECKING:
    from mainstem_registry.client import Client, Reference, Registered, Schema
    from mainstem_registry.glue import GlueClient

T = TypeVar("T")

#: For how long one that can't be had is not asked for again, in seconds, and how many are known at most.
_GONE, _MOST_GONE = 30.0, 10_000


class File(NamedTuple):
    """A schema by the name by which others refer to it, and the names to which it refers itself."""

    name: str
    text: str
    uses: tuple[str, ...] = ()


class Schemas:
    """What a registry has, in one process.

    Args:
        options: of the registry.
        framing: the name of that of values.
    """

    def __init__(self, options: RegistryOptions, framing: str) -> None:
        self.framing = FRAMINGS[framing]
        self._options = options
        self._client: Client | GlueClient | None = None
        self._refused: dict[bytes, tuple[float, str]] = {}

    def schema(self, head: bytes) -> Schema:
        """Return the schema of a head. It is not kept: what a format makes of it is.

        Raises:
            UnknownSchema: the registry has none, or the head is none.
            TransientError: the registry was away for longer than `give_up`.
            PermanentError: it refuses the request.
        """
        number = self.framing.number(head)
        if number is None:
            raise UnknownSchema(self.framing.flaw(head))
        until, why = self._refused.get(head, (0.0, ""))
        if until > time.monotonic():
            raise UnknownSchema(why)
        try:
            ids = self.framing.ids(head)
            found = self._asked(lambda client: client.schema(number, ids))
        except UnknownSchema as error:
            raise self._refusal(head, f"{self.framing.schema_name(head)}: {error}") from None
        if found is None:
            raise self._refusal(head, f"the registry has no {self.framing.schema_name(head)}")
        return found

    def with_references(self, head: bytes) -> tuple[Schema, list[str]]:
        """Return the schema of a head, and the texts of all to which it refers, and to which they do.

        Raises:
            UnknownSchema, TransientError, PermanentError: as those of `schema`.
        """
        schema = self.schema(head)
        try:
            found = referred(schema, lambda to: self._asked(lambda client: client.referred(to)))
            return schema, [each.text for each in found.values()]
        except UnknownSchema as error:
            raise self._refusal(head, f"{self.framing.schema_name(head)}: {error}") from None

    def _refusal(self, head: bytes, why: str) -> UnknownSchema:
        """Note why a schema can't be had."""
        if len(self._refused) >= _MOST_GONE:
            self._refused.clear()
        self._refused[head] = (time.monotonic() + _GONE, why)
        return UnknownSchema(why)

    def head(
        self,
        subject: str,
        schema: Schema,
        *,
        register: bool,
        files: Sequence[File] = (),
        uses: Sequence[str] = (),
    ) -> bytes:
        """Return the head of values of a schema under a subject.

        Args:
            register: whether it is registered if it is not yet.
            files: what it refers to, each behind those that it refers to; their names are their subjects.
            uses: those of the names to which it refers itself.

        Raises:
            PermanentError: it is not there, or does not fit to those before it.
            TransientError: the registry was away for longer than `give_up`.
        """
        from mainstem_registry.client import Reference

        known: dict[str, Reference] = {}
        for name, text, its in files:
            part = schema._replace(text=text, references=tuple(known[each] for each in its))
            if register:
                self._register(name, part)
            known[name] = Reference(name, name, str(self._found(name, part).version))
        whole = schema._replace(references=tuple(known[each] for each in uses))
        if register:
            return self.framing.head(self._register(subject, whole))
        return self.framing.head(self._found(subject, whole).number)

    def _register(self, subject: str, schema: Schema) -> int:
        try:
            return self._asked(lambda client: client.register(subject, schema))
        except UnknownSchema as error:
            raise PermanentError(f"the registry's answer is none: {error}") from None

    def _found(self, subject: str, schema: Schema) -> Registered:
        try:
            found = self._asked(lambda client: client.find(subject, schema))
        except UnknownSchema as error:
            raise PermanentError(f"the registry's answer is none: {error}") from None
        if found is None:
            raise PermanentError(f"the registry has not this schema under {subject}: {schema.text}")
        return found

    def _asked(self, question: Callable[[Client | GlueClient], T]) -> T:
        if self._client is None:
            self._client = _connect(self._options)
        client = self._client
        return retry(lambda _: question(client), self._options.give_up.total_seconds())


def _connect(options: RegistryOptions) -> Client | GlueClient:
    if options.glue is not None:
        from mainstem_registry.glue import GlueClient

        return GlueClient(options.glue)
    from mainstem_registry.client import Client

    return Client(options)
