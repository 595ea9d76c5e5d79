"""Schemas by the heads of values: asked for once, and kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from mainstem import PermanentError
from mainstem.patience import retry

from mainstem_registry.framing import FRAMINGS, UnknownSchema
from mainstem_registry.options import RegistryOptions

if TYPE_CHECKING:
    from mainstem_registry.client import Client, Schema

T = TypeVar("T")

#: For how long one that can't be had is not asked for again, in seconds, and how many are known at most.
_GONE, _MOST_GONE = 30.0, 10_000


class Schemas:
    """What a registry has, in one process.

    Args:
        options: of the registry.
        framing: the name of that of values.
    """

    def __init__(self, options: RegistryOptions, framing: str) -> None:
        self.framing = FRAMINGS[framing]
        self._options = options
        self._client: Client | None = None
        self._refused: dict[int, tuple[float, str]] = {}

    def schema(self, head: bytes) -> Schema:
        """Return the schema of a head. It is not kept: what a format makes of it is.

        Raises:
            UnknownSchema: the registry has none, or the head is none.
            TransientError: the registry was away for longer than `give_up`.
            PermanentError: it refuses the request.
        """
        number = self.framing.number(head)
        if number is None:
            raise UnknownSchema("it names no schema")
        until, why = self._refused.get(number, (0.0, ""))
        if until > time.monotonic():
            raise UnknownSchema(why)
        try:
            found = self._asked(lambda client: client.schema(number, self.framing.name))
        except UnknownSchema as error:
            raise self._refusal(number, f"schema {number}: {error}") from None
        if found is None:
            raise self._refusal(number, f"the registry has no schema {number}")
        if found.references:
            raise self._refusal(number, f"schema {number} refers to others, which is not read")
        return found

    def _refusal(self, number: int, why: str) -> UnknownSchema:
        """Note why a schema can't be had."""
        if len(self._refused) >= _MOST_GONE:
            self._refused.clear()
        self._refused[number] = (time.monotonic() + _GONE, why)
        return UnknownSchema(why)

    def head(self, subject: str, schema: Schema, *, register: bool) -> bytes:
        """Return the head of values of a schema under a subject.

        Args:
            register: whether it is registered if it is not yet.

        Raises:
            PermanentError: it is not there, or does not fit to those before it.
            TransientError: the registry was away for longer than `give_up`.
        """
        number: int | None
        try:
            if register:
                number = self._asked(lambda client: client.register(subject, schema))
            else:
                number = self._asked(lambda client: client.find(subject, schema))
        except UnknownSchema as error:
            raise PermanentError(f"the registry's answer is none: {error}") from None
        if number is None:
            raise PermanentError(f"the registry has not this schema under {subject}: {schema.text}")
        return self.framing.head(number)

    def _asked(self, question: Callable[[Client], T]) -> T:
        from mainstem_registry.client import Client

        if self._client is None:
            self._client = Client(self._options)
        client = self._client
        return retry(lambda _: question(client), self._options.give_up.total_seconds())
