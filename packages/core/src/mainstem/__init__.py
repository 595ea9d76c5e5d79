"""Mainstem: streaming pipelines for PySpark, assembled from plugins.

What this module exports is the whole API of a plugin's author, and `Pipeline` for programs and
notebooks. Names are loaded when they are first used, so that importing `mainstem` costs nothing and
never imports pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainstem.attempts import Attempts as Attempts
    from mainstem.attempts import OnError as OnError
    from mainstem.attempts import on_error_option as on_error_option
    from mainstem.attempts import refusal as refusal
    from mainstem.attempts import row_as_json as row_as_json
    from mainstem.contracts.abilities import Advising as Advising
    from mainstem.contracts.abilities import AfterBatch as AfterBatch
    from mainstem.contracts.abilities import Branching as Branching
    from mainstem.contracts.abilities import Checked as Checked
    from mainstem.contracts.abilities import Expressions as Expressions
    from mainstem.contracts.abilities import Forgetful as Forgetful
    from mainstem.contracts.abilities import HelperProcess as HelperProcess
    from mainstem.contracts.abilities import IdentifiedWrites as IdentifiedWrites
    from mainstem.contracts.abilities import KeyedWrites as KeyedWrites
    from mainstem.contracts.abilities import Lag as Lag
    from mainstem.contracts.abilities import LoadedFirst as LoadedFirst
    from mainstem.contracts.abilities import Measurable as Measurable
    from mainstem.contracts.abilities import Prepared as Prepared
    from mainstem.contracts.abilities import Reached as Reached
    from mainstem.contracts.abilities import Recovering as Recovering
    from mainstem.contracts.abilities import Rewindable as Rewindable
    from mainstem.contracts.abilities import Staged as Staged
    from mainstem.contracts.abilities import StateFacts as StateFacts
    from mainstem.contracts.abilities import Stateful as Stateful
    from mainstem.contracts.abilities import Statement as Statement
    from mainstem.contracts.abilities import Supervised as Supervised
    from mainstem.contracts.abilities import Swappable as Swappable
    from mainstem.contracts.abilities import Transactional as Transactional
    from mainstem.contracts.abilities import Typed as Typed
    from mainstem.contracts.abilities import Verifiable as Verifiable
    from mainstem.contracts.capabilities import DeliveryCapabilities as DeliveryCapabilities
    from mainstem.contracts.capabilities import OperatorCapabilities as OperatorCapabilities
    from mainstem.contracts.capabilities import Shown as Shown
    from mainstem.contracts.capabilities import SinkCapabilities as SinkCapabilities
    from mainstem.contracts.capabilities import SourceCapabilities as SourceCapabilities
    from mainstem.contracts.capabilities import StateStoreCapabilities as StateStoreCapabilities
    from mainstem.contracts.columns import LOG_ORDER as LOG_ORDER
    from mainstem.contracts.columns import check_names as check_names
    from mainstem.contracts.columns import check_order as check_order
    from mainstem.contracts.columns import check_types as check_types
    from mainstem.contracts.columns import find_column as find_column
    from mainstem.contracts.components import Delivery as Delivery
    from mainstem.contracts.components import Needs as Needs
    from mainstem.contracts.components import Operator as Operator
    from mainstem.contracts.components import Sink as Sink
    from mainstem.contracts.components import Source as Source
    from mainstem.contracts.components import StateStore as StateStore
    from mainstem.contracts.contexts import Batch as Batch
    from mainstem.contracts.contexts import OperatorContext as OperatorContext
    from mainstem.contracts.contexts import Progress as Progress
    from mainstem.contracts.contexts import SourceContext as SourceContext
    from mainstem.contracts.ddl import Column as Column
    from mainstem.contracts.ddl import literal as literal
    from mainstem.contracts.ddl import quoted as quoted
    from mainstem.contracts.ddl import read_columns as read_columns
    from mainstem.contracts.guarantee import Level as Level
    from mainstem.contracts.guarantee import Promise as Promise
    from mainstem.contracts.log_source import Offset as Offset
    from mainstem.contracts.log_source import Planner as Planner
    from mainstem.contracts.log_source import Reading as Reading
    from mainstem.contracts.options import Duration as Duration
    from mainstem.contracts.options import LocalPath as LocalPath
    from mainstem.contracts.options import Options as Options
    from mainstem.contracts.options import PositiveDuration as PositiveDuration
    from mainstem.contracts.options import Schema as Schema
    from mainstem.contracts.options import Size as Size
    from mainstem.contracts.options import option as option
    from mainstem.contracts.options import read_duration as read_duration
    from mainstem.contracts.options import read_size as read_size
    from mainstem.contracts.options import write_duration as write_duration
    from mainstem.contracts.secrets import Hidden as Hidden
    from mainstem.contracts.secrets import Secret as Secret
    from mainstem.contracts.secrets import Unprinted as Unprinted
    from mainstem.contracts.secrets import secrets_in as secrets_in
    from mainstem.contracts.shapes import ANYTHING as ANYTHING
    from mainstem.contracts.shapes import CHANGE_TYPE as CHANGE_TYPE
    from mainstem.contracts.shapes import COMMIT_TIMESTAMP as COMMIT_TIMESTAMP
    from mainstem.contracts.shapes import COMMIT_VERSION as COMMIT_VERSION
    from mainstem.contracts.shapes import EVENTS as EVENTS
    from mainstem.contracts.shapes import LOST as LOST
    from mainstem.contracts.shapes import MESSAGE_COLUMNS as MESSAGE_COLUMNS
    from mainstem.contracts.shapes import MESSAGES as MESSAGES
    from mainstem.contracts.shapes import REJECTED as REJECTED
    from mainstem.contracts.shapes import Accepts as Accepts
    from mainstem.contracts.shapes import Changelog as Changelog
    from mainstem.contracts.shapes import Events as Events
    from mainstem.contracts.shapes import EventTime as EventTime
    from mainstem.contracts.shapes import Inputs as Inputs
    from mainstem.contracts.shapes import Shape as Shape
    from mainstem.contracts.shapes import messages as messages
    from mainstem.contracts.shapes import watermark_hint as watermark_hint
    from mainstem.contracts.tls import HostTLSOptions as HostTLSOptions
    from mainstem.contracts.tls import TLSOptions as TLSOptions
    from mainstem.crashpoints import failpoint as failpoint
    from mainstem.durable import DamagedError as DamagedError
    from mainstem.durable import made_folder as made_folder
    from mainstem.durable import open_private as open_private
    from mainstem.durable import private_folder as private_folder
    from mainstem.durable import read_whole as read_whole
    from mainstem.durable import sync_folder as sync_folder
    from mainstem.durable import write_whole as write_whole
    from mainstem.errors import DocumentError as DocumentError
    from mainstem.errors import ExternalError as ExternalError
    from mainstem.errors import FencedError as FencedError
    from mainstem.errors import MachineError as MachineError
    from mainstem.errors import MainstemError as MainstemError
    from mainstem.errors import OptionError as OptionError
    from mainstem.errors import PermanentError as PermanentError
    from mainstem.errors import PipelineError as PipelineError
    from mainstem.errors import PluginError as PluginError
    from mainstem.errors import Problem as Problem
    from mainstem.errors import RefusedRowError as RefusedRowError
    from mainstem.errors import TransientError as TransientError
    from mainstem.errors import nearest as nearest
    from mainstem.hookspecs import hookimpl as hookimpl
    from mainstem.patience import Patience as Patience
    from mainstem.patience import pause_after as pause_after
    from mainstem.patience import retry as retry
    from mainstem.pipeline import Pipeline as Pipeline
    from mainstem.pipeline import Running as Running
    from mainstem.relations import write_by_relation as write_by_relation
    from mainstem.tasks import Refused as Refused
    from mainstem.tasks import in_partitions as in_partitions
    from mainstem.tasks import micros_of as micros_of
    from mainstem.tasks import values_of as values_of
    from mainstem.tasks import write_by_tasks as write_by_tasks

_HOMES = {
    "mainstem.attempts": "Attempts OnError on_error_option refusal row_as_json",
    "mainstem.contracts.abilities": (
        "Advising AfterBatch Branching Expressions Forgetful HelperProcess IdentifiedWrites "
        "Checked KeyedWrites Lag LoadedFirst Measurable Prepared Reached Recovering Rewindable Staged "
        "Stateful StateFacts Statement Supervised Swappable Transactional Typed Verifiable"
    ),
    "mainstem.contracts.capabilities": (
        "DeliveryCapabilities OperatorCapabilities Shown SinkCapabilities SourceCapabilities "
        "StateStoreCapabilities"
    ),
    "mainstem.contracts.components": ("Delivery Needs Operator Sink Source StateStore"),
    "mainstem.contracts.contexts": "Batch OperatorContext Progress SourceContext",
    "mainstem.contracts.columns": "LOG_ORDER check_names check_order check_types find_column",
    "mainstem.contracts.ddl": "Column literal quoted read_columns",
    "mainstem.contracts.guarantee": "Level Promise",
    "mainstem.contracts.options": (
        "Duration LocalPath Options PositiveDuration Schema Size option read_duration "
        "read_size write_duration"
    ),
    "mainstem.contracts.log_source": "Offset Planner Reading",
    "mainstem.contracts.secrets": "Hidden Secret Unprinted secrets_in",
    "mainstem.contracts.shapes": (
        "ANYTHING CHANGE_TYPE COMMIT_TIMESTAMP COMMIT_VERSION EVENTS LOST MESSAGE_COLUMNS MESSAGES "
        "REJECTED Accepts Changelog Events EventTime Inputs Shape messages watermark_hint"
    ),
    "mainstem.contracts.tls": "HostTLSOptions TLSOptions",
    "mainstem.errors": (
        "DocumentError ExternalError FencedError MachineError MainstemError OptionError PermanentError "
        "PipelineError PluginError Problem RefusedRowError TransientError nearest"
    ),
    "mainstem.crashpoints": "failpoint",
    "mainstem.durable": (
        "DamagedError made_folder open_private private_folder read_whole sync_folder write_whole"
    ),
    "mainstem.hookspecs": "hookimpl",
    "mainstem.patience": "Patience pause_after retry",
    "mainstem.pipeline": "Pipeline Running",
    "mainstem.relations": "write_by_relation",
    "mainstem.tasks": "Refused in_partitions micros_of values_of write_by_tasks",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mainstem' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
