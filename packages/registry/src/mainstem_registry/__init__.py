"""Schema registries, for authors of formats: schemas by what stands before a value, and the other way.

The options of a format are `FramedOptions`, those of writing `SubjectOptions`. Its decoder asks for the
headers that its `Framing` has, its reader puts what is in them before values (`framed`), cuts each value
behind its head, and asks `Schemas` for the head's schema; its writer asks for the head of its own.
"""

from __future__ import annotations

from mainstem_registry.files import schema_text
from mainstem_registry.framing import FRAMINGS, Framing, UnknownSchema, headers_of
from mainstem_registry.options import FramedOptions, RegistryOptions, SubjectOptions
from mainstem_registry.schemas import File, Schemas

__all__ = [
    "FRAMINGS",
    "File",
    "FramedOptions",
    "Framing",
    "RegistryOptions",
    "Schemas",
    "SubjectOptions",
    "UnknownSchema",
    "headers_of",
    "schema_text",
]
