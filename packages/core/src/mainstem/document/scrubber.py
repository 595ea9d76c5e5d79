"""What must not be printed, and what is shown in its place."""

from __future__ import annotations

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
                self._hidden.setdefault(form, reference)

    def clean(self, text: str) -> str:
        """Return `text` with every hidden value replaced."""
        for value in sorted(self._hidden, key=len, reverse=True):
            text = text.replace(value, self._hidden[value])
        return text
