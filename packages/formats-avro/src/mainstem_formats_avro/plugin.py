"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_formats() -> dict[str, str]:
    return {
        "avro": "mainstem_formats_avro.format:Avro",
        "debezium-avro": "mainstem_formats_avro.debezium:DebeziumAvro",
    }
