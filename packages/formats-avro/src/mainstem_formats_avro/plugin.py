"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Format, hookimpl

from mainstem_formats_avro.debezium import DebeziumAvro
from mainstem_formats_avro.format import Avro


@hookimpl
def mainstem_formats() -> dict[str, type[Format]]:
    return {"avro": Avro, "debezium-avro": DebeziumAvro}
