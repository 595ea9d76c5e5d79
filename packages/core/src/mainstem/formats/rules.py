"""How texts are written, where a document says so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """How texts are written, where a document says so.

    Attributes:
        decimal: what stands before the fraction of a number.
        thousands: what may stand between groups of three digits; nothing may where it is empty.
        unit: what a number counts that stands for a time: `s`, `ms`, `us` or `ns`; where it is None,
            none may.
    """

    decimal: str = "."
    thousands: str = ""
    unit: str | None = None
