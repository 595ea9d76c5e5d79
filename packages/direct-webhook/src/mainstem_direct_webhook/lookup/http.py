"""Asks an HTTP service about a key."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from mainstem import PermanentError, RefusedRowError, Secret, TransientError
from mainstem.arrays import json_reader
from mainstem.columns import Column
from mainstem_lookup import MISSING, Answer, Key, Lookup

from mainstem_direct_webhook.client.answers import Fate, fate, retry_after
from mainstem_direct_webhook.client.connection import Blanking, Client, Reply, told
from mainstem_direct_webhook.client.secret_options import place
from mainstem_direct_webhook.lookup.options import PLACE, HTTPLookupOptions

#: What ends the fixed parts of a URL's path and query.
_FIXED = re.compile(r"\{[^{}]*\}|[/?&=]")
#: Answers that there is nothing for the key.
_NOTHING = frozenset({204, 404, 410})


class HTTPLookup(Lookup):
    """Sends a GET for each key; an answer is a JSON object."""

    options: HTTPLookupOptions

    def __init__(
        self, options: HTTPLookupOptions, keys: Sequence[Column], columns: Sequence[Column]
    ) -> None:
        super().__init__(options, keys, columns)
        self._read = json_reader(columns)
        self._names, self._where = options.names, place(options.url)
        self._path, self._mark, self._query = options.template.partition("?")
        # What stands between the places of columns can be a token, by itself.
        fixed = [Secret(part) for part in _FIXED.split(options.template) if part]
        self._shown = Blanking(options, fixed).shown
        accept = [] if "accept" in options.headers else [("accept", "application/json")]
        self._headers: list[tuple[str, str]] = accept
        self._client: Client | None = None

    def connect(self) -> None:
        try:
            self._client = Client(self.options, method="GET", most_body=self.options.max_size)
        except OSError as error:
            raise PermanentError(str(error)) from None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def ask(self, keys: Sequence[Key]) -> Sequence[Answer]:
        return [self._one(key) for key in keys]

    def _one(self, key: Key) -> Answer:
        try:
            target = self.target(key)
        except ValueError as error:
            return Answer(None, str(error))
        assert self._client is not None  # noqa: S101
        deadline = time.monotonic() + self.options.answer_timeout.total_seconds()
        try:
            reply = self._client.send(self._headers, b"", deadline, target)
        except RefusedRowError as error:
            return Answer(None, f"no request can ask for it: {self._shown(str(error))}")
        except TransientError as error:
            raise TransientError(f"{self._where}: {self._shown(str(error))}") from None
        except PermanentError as error:
            raise PermanentError(f"{self._where}: {self._shown(str(error))}") from None
        return self._answer(reply)

    def _answer(self, reply: Reply) -> Answer:
        if reply.status in _NOTHING and reply.status not in self.options.reject:
            return MISSING
        meant = fate(reply.status, self.options.reject)
        if meant is Fate.DONE:
            return self._values(reply)
        words = f"{self._where}: answers {told(reply, self._shown)}"
        if meant is Fate.REFUSED:
            return Answer(None, words)
        if meant is Fate.AGAIN:
            asked = retry_after(reply.retry_after)
            if asked:
                time.sleep(min(asked, self.options.longest_wait.total_seconds()))
            raise TransientError(words)
        raise PermanentError(
            f"{words}: are `url`, `auth` and `headers` right? If it is about single rows, write "
            f"`reject: [{reply.status}]`"
        )

    def _values(self, reply: Reply) -> Answer:
        if not reply.whole:
            return Answer(None, f"{self._where}: the answer is larger than `max_size`")
        arrays, reasons = self._read(pa.array([reply.body], pa.binary()))
        if reasons[0] is not None:
            return Answer(None, f"{self._where}: the answer does not fit the schema: {reasons[0]}")
        return Answer(tuple(array[0].as_py() for array in arrays))

    def target(self, key: Key) -> str:
        """Return path and query of the request for a key.

        Raises:
            ValueError: a value would make another path than the URL says.
        """
        values = dict(zip(self._names, map(text_of, key), strict=True))
        for name in PLACE.findall(self._path):
            if values[name] in ("", ".", ".."):
                raise ValueError(f"{name} is {values[name]!r}, which is no part of a path")

        def filled(text: str) -> str:
            return PLACE.sub(lambda found: quote(values[found[1]], safe=""), text)

        return filled(self._path) + self._mark + filled(self._query)


def text_of(value: Any) -> str:
    """Return a value as it stands in a URL: dates in ISO 8601, bytes in hex."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)
