"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_formats() -> dict[str, str]:
    return {
        "protobuf": "mainstem_formats_protobuf.format:Protobuf",
        "debezium-protobuf": "mainstem_formats_protobuf.debezium:DebeziumProtobuf",
    }
