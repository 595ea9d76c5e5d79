"""What `mainstem plugins` prints."""

from __future__ import annotations

from collections import Counter

from mainstem.discovery import installed_words


def listing() -> str:
    """Return a table of every installed word, from metadata alone."""
    words = installed_words()
    times = Counter((word.kind, word.name) for word in words)
    rows = [
        (word.kind, word.name, f"{word.distribution} {word.version}",
         "in conflict" if times[word.kind, word.name] > 1 and word.kind != "command" else "")
        for word in words
    ]  # fmt: skip
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    return "".join(
        "  ".join(text.ljust(width) for text, width in zip(row, [*widths, 0], strict=True)).rstrip()
        + "\n"
        for row in rows
    )
