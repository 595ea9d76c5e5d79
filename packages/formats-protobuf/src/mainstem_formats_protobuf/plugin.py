"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Format, hookimpl

from mainstem_formats_protobuf.debezium import DebeziumProtobuf
from mainstem_formats_protobuf.format import Protobuf


@hookimpl
def mainstem_formats() -> dict[str, type[Format]]:
    return {"protobuf": Protobuf, "debezium-protobuf": DebeziumProtobuf}
