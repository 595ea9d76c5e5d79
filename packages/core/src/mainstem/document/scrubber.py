"""What must not be printed, and what is shown in its place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from mainstem.errors import MainstemError

#: Shorter values are left alone: hiding `1` everywhere would make output unreadable.
SHORTEST_HIDDEN = 4


class Scrubber:
    """Learns secrets, and takes them out of what is told."""

    def __init__(self) -> None:
        self._hidden: dict[str, str] = {}

    def hide(self, value: str, reference: str = "***") -> None:
        """Remember that `value` must never be printed; `reference` is shown instead."""
        for form in {value, value.strip(), *value.split("\n")}:
            if len(form) >= SHORTEST_HIDDEN:
                for written in (form, *_escaped(form)):
                    self._hidden.setdefault(written, reference)

    def clean_all(self, value: Any) -> Any:
        """Return a value as JSON has it with every text in it cleaned, keys too."""
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, Mapping):
            return {self.clean_all(key): self.clean_all(held) for key, held in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean_all(each) for each in value]
        return value

    def clean_error(self, error: MainstemError) -> None:
        """Clean what an error says."""
        error.args = tuple(map(self.clean_all, error.args))

    def clean(self, text: str) -> str:
        """Return `text` with every hidden value replaced."""
        for value in sorted(self._hidden, key=len, reverse=True):
            text = text.replace(value, self._hidden[value])
        return text


def _escaped(text: str) -> Iterator[str]:
    """Yield how a text stands in JSON, in what Python shows of a value, and in a URL."""
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]
    yield quote(text, safe="", errors="surrogateescape")
    yield quote_plus(text, errors="surrogateescape")
