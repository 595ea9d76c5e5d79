"""Wires the built-in words to their classes, by their places: a document imports what it uses."""

from __future__ import annotations

from mainstem.hookspecs import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {
        "files": "mainstem.builtin.files_source:Files",
        "rate": "mainstem.builtin.rate:Rate",
        "redrive": "mainstem.builtin.redrive:Redrive",
        "spark": "mainstem.builtin.spark_format:SparkSource",
    }


@hookimpl
def mainstem_operators() -> dict[str, str]:
    return {
        "changelog": "mainstem.builtin.changelog:ToChangelog",
        "decode": "mainstem.builtin.decode:Decode",
        "encode": "mainstem.builtin.encode:Encode",
        "events": "mainstem.builtin.events:ToEvents",
        "python": "mainstem.builtin.python_call:PythonCall",
        "select": "mainstem.builtin.select:Select",
        "sql": "mainstem.builtin.sql:Sql",
        "union": "mainstem.builtin.union:Union",
    }


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {
        "console": "mainstem.builtin.console:Console",
        "files": "mainstem.builtin.files_sink:FilesSink",
        "spark": "mainstem.builtin.spark_format:SparkSink",
    }


@hookimpl
def mainstem_state_stores() -> dict[str, str]:
    return {
        "memory": "mainstem.builtin.state_stores:Memory",
        "rocksdb": "mainstem.builtin.state_stores:RocksDB",
    }


@hookimpl
def mainstem_delivery() -> dict[str, str]:
    return {"microbatch": "mainstem.builtin.microbatch:Microbatch"}


@hookimpl
def mainstem_formats() -> dict[str, str]:
    return {
        "csv": "mainstem.builtin.formats.csv:Csv",
        "debezium-json": "mainstem.builtin.formats.debezium_json:DebeziumJson",
        "maxwell-json": "mainstem.builtin.formats.mysql_changes:MaxwellJson",
        "canal-json": "mainstem.builtin.formats.mysql_changes:CanalJson",
        "fixed": "mainstem.builtin.formats.fixed:Fixed",
        "json": "mainstem.builtin.formats.json:Json",
        "logfmt": "mainstem.builtin.formats.logfmt:Logfmt",
        "parquet": "mainstem.builtin.formats.tables:Parquet",
        "arrow": "mainstem.builtin.formats.tables:ArrowIPC",
        "raw": "mainstem.builtin.formats.raw:Raw",
        "syslog": "mainstem.builtin.formats.syslog:Syslog",
        "xml": "mainstem.builtin.formats.xml:Xml",
    }
