"""Rows ask an external system, each once, for authors of operators that look something up.

An author writes a `Lookup` (connect, ask about some keys, close), its options, and a `LookupOperator`
that names both.
"""

from __future__ import annotations

from mainstem_lookup.lookup import MISSING, Answer, Key, Lookup
from mainstem_lookup.operator import LookupOperator
from mainstem_lookup.options import LookupOptions

__all__ = ["MISSING", "Answer", "Key", "Lookup", "LookupOperator", "LookupOptions"]
