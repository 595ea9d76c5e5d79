"""A source over the zoo's log, and what can be wrong with it."""

from __future__ import annotations

import subprocess
import threading

from mainstem import (
    Lag,
    Measurable,
    Options,
    Source,
    SourceCapabilities,
    messages,
    option,
)

from zoo.log_server import ask


class LogOptions(Options):
    """Options of the log."""

    port: int = option(gt=0, description="The server's port.")
    most: int = option(1000, gt=0, description="The most rows in one batch.")
    fault: str = option("", description="What is wrong with it.")


class Careless(LogOptions):
    """Options that take all."""

    model_config = {"extra": "allow"}


class Log(Source, Measurable):
    """Reads the log: sound if no fault is asked for."""

    options: LogOptions
    capabilities = SourceCapabilities(ordered=True)

    def shape(self):
        return messages()

    def load(self, ctx):
        from zoo.log_reader import LogDataSource

        ctx.spark.dataSource.register(LogDataSource)
        if self.options.fault == "leaks a thread":
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        if self.options.fault == "leaks a process":
            subprocess.Popen(["sleep", "600"])
        options = self.options.model_dump()
        return ctx.read_stream("zoo_log", folder=str(ctx.folder()), **options)

    def end(self, home):
        return {"0": str(ask(self.options.port, {"end": True}))}

    def lag(self, reached):
        read = reached.offset["next"] if reached.offset else 0
        behind = (
            0
            if self.options.fault == "lies about its lag"
            else int(self.end(reached.home)["0"]) - read
        )
        return [Lag("0", behind, None)]


class LogOfAnything(Log):
    """Takes any option."""

    options: Careless


SOURCES = {"zoo_log": Log, "zoo_log_of_anything": LogOfAnything}
