"""Schema registries, for authors of formats: schemas by what stands before a value, and the other way.

The options of a format are `FramedOptions`, those of writing `SubjectOptions`. Its reader cuts each value
behind the head that its `Framing` has, and asks `Schemas` for the head's schema; its writer asks for the
head of its own.
"""

from __future__ import annotations

from mainstem_registry.files import schema_text
from mainstem_registry.framing import FRAMINGS, Framing, UnknownSchema
from mainstem_registry.options import FramedOptions, RegistryOptions, SubjectOptions
from mainstem_registry.schemas import Schemas

__all__ = [
    "FRAMINGS",
    "FramedOptions",
    "Framing",
    "RegistryOptions",
    "Schemas",
    "SubjectOptions",
    "UnknownSchema",
    "schema_text",
]
