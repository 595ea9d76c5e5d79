"""Operator `python`: a function of the user's own, from frames to a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem import Inputs, OptionError, option
from mainstem.builtin.declared import Declared, DeclaredOptions
from mainstem.functions import (
    FunctionName,
    FunctionOptions,
    first_on_path,
    load_function,
    what_raised,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class PythonOptions(FunctionOptions, DeclaredOptions):
    """Options of `python`."""

    call: FunctionName = option(
        description="The function, as `module:function`. It takes a DataFrame (with several "
        "`tables`, one keyword argument for each) and returns one. It is called several times, "
        "builds a plan and looks at no data; no state, as with `sql`.",
        example="prices:in_euros",
    )


class PythonCall(Declared):
    """Calls a Python function, DataFrame in and DataFrame out; for steps that keep no state."""

    options: PythonOptions
    at = "call"

    def __init__(self, options: PythonOptions) -> None:
        super().__init__(options)
        for name in options.options:
            if name in options.tables:
                raise OptionError(f"{name!r} is a table already", option="options")

    def compute(self, tables: Inputs[DataFrame]) -> DataFrame:
        from pyspark.sql import DataFrame

        options = self.options
        with first_on_path(options.folder):
            function = load_function(options.call, options.folder)
            try:
                if len(tables) == 1:
                    frame = function(tables.only, **options.options)
                else:
                    frame = function(**tables, **options.options)
            except Exception as error:
                raise OptionError(
                    what_raised(options.call, error, options.folder), option="call"
                ) from error
        if not isinstance(frame, DataFrame):
            kind = type(frame).__name__
            raise OptionError(f"{options.call} returned {kind}, not a DataFrame", option="call")
        return frame
