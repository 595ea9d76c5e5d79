"""What `mainstem plugins` prints."""

from __future__ import annotations

from collections import Counter

from mainstem.discovery import installed_words


def rows() -> list[dict[str, str | bool]]:
    """Return every installed word, from metadata alone; whether several bring it is a conflict."""
    words = installed_words()
    times = Counter((word.kind, word.name) for word in words)
    return [
        {
            "kind": word.kind,
            "word": word.name,
            "distribution": word.distribution,
            "version": word.version,
            "conflict": times[word.kind, word.name] > 1 and word.kind != "command",
        }
        for word in words
    ]


def listing() -> str:
    """Return the same as a table."""
    table = [
        (row["kind"], row["word"], f"{row['distribution']} {row['version']}",
         "in conflict" if row["conflict"] else "")
        for row in rows()
    ]  # fmt: skip
    cells = [[str(cell) for cell in row] for row in table]
    widths = [max((len(row[i]) for row in cells), default=0) for i in range(3)]
    return "".join(
        "  ".join(text.ljust(width) for text, width in zip(row, [*widths, 0], strict=True)).rstrip()
        + "\n"
        for row in cells
    )
