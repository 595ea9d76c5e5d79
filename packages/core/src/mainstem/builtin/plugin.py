"""Wires the built-in words to their classes."""

from __future__ import annotations

from mainstem.builtin.changelog import ToChangelog
from mainstem.builtin.console import Console
from mainstem.builtin.decode import Decode
from mainstem.builtin.encode import Encode
from mainstem.builtin.events import ToEvents
from mainstem.builtin.files_sink import FilesSink
from mainstem.builtin.files_source import Files
from mainstem.builtin.formats.csv import Csv
from mainstem.builtin.formats.debezium_json import DebeziumJson
from mainstem.builtin.formats.fixed import Fixed
from mainstem.builtin.formats.json import Json
from mainstem.builtin.formats.logfmt import Logfmt
from mainstem.builtin.formats.mysql_changes import CanalJson, MaxwellJson
from mainstem.builtin.formats.raw import Raw
from mainstem.builtin.formats.syslog import Syslog
from mainstem.builtin.formats.tables import ArrowIPC, Parquet
from mainstem.builtin.formats.xml import Xml
from mainstem.builtin.microbatch import Microbatch
from mainstem.builtin.python_call import PythonCall
from mainstem.builtin.rate import Rate
from mainstem.builtin.redrive import Redrive
from mainstem.builtin.select import Select
from mainstem.builtin.spark_format import SparkSink, SparkSource
from mainstem.builtin.sql import Sql
from mainstem.builtin.state_stores import Memory, RocksDB
from mainstem.builtin.union import Union
from mainstem.contracts.components import Delivery, Operator, Sink, Source, StateStore
from mainstem.contracts.formats import Format
from mainstem.hookspecs import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"files": Files, "rate": Rate, "redrive": Redrive, "spark": SparkSource}


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    return {
        "changelog": ToChangelog,
        "decode": Decode,
        "encode": Encode,
        "events": ToEvents,
        "python": PythonCall,
        "select": Select,
        "sql": Sql,
        "union": Union,
    }


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"console": Console, "files": FilesSink, "spark": SparkSink}


@hookimpl
def mainstem_state_stores() -> dict[str, type[StateStore]]:
    return {"memory": Memory, "rocksdb": RocksDB}


@hookimpl
def mainstem_delivery() -> dict[str, type[Delivery]]:
    return {"microbatch": Microbatch}


@hookimpl
def mainstem_formats() -> dict[str, type[Format]]:
    return {
        "csv": Csv,
        "debezium-json": DebeziumJson,
        "maxwell-json": MaxwellJson,
        "canal-json": CanalJson,
        "fixed": Fixed,
        "json": Json,
        "logfmt": Logfmt,
        "parquet": Parquet,
        "arrow": ArrowIPC,
        "raw": Raw,
        "syslog": Syslog,
        "xml": Xml,
    }
