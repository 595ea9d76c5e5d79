"""The steps of the user's that bring events up, as tasks call them."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from mainstem import OptionError
from mainstem.functions import what_raised

from mainstem_operators_eventsourcing.app import App

Step = Callable[..., Any]


def steps_of(app: App) -> Mapping[tuple[str, int], Step]:
    """Return the steps of the user's class, by the type and the version that they begin at.

    Raises:
        OptionError: there are none, or what is there is none.
    """
    found = app.value("steps")
    if not isinstance(found, Mapping) or not found:
        raise OptionError(f"{app.name} has no dictionary `steps`", option="call")
    for key, step in found.items():
        good = isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str)
        if not good or not isinstance(key[1], int) or key[1] < 1 or not callable(step):
            message = f"{app.name}: {key!r} is not the place of a step, (type, version)"
            raise OptionError(
                message, option="call", hint='Such as ("OrderPlaced", 1): a function.'
            )
    for kind in {kind for kind, _ in found}:
        versions = sorted(version for name, version in found if name == kind)
        if versions != list(range(versions[0], versions[-1] + 1)):
            message = f"{app.name}: the steps of {kind} begin at {versions}: one is missing between"
            raise OptionError(message, option="call")
    return found


class Upcasting:
    """What Spark sends to its workers.

    Args:
        app: the user's class.
        steps: what it has.
    """

    def __init__(self, app: App, steps: Mapping[tuple[str, int], Step]) -> None:
        self._app, self._steps = app, dict(steps)
        self.__name__ = "upcast"

    def __call__(self, kinds: Any, versions: Any, payloads: Any) -> Any:
        import pyarrow as pa

        made: list[tuple[int | None, bytes | None, str | None]] = []
        for kind, version, payload in zip(
            kinds.to_pylist(), versions.to_pylist(), payloads.to_pylist(), strict=True
        ):
            begun = 1 if version is None else version
            if (kind, begun) not in self._steps:
                made.append((begun, payload, None))
                continue
            try:
                reached, brought = self._up(kind, begun, payload)
            except ValueError as error:
                made.append((begun, payload, str(error)))
            else:
                made.append((reached, brought, None))
        kind_of: Any = pa.struct(
            [("version", pa.int64()), ("payload", pa.binary()), ("reason", pa.string())]
        )
        return pa.array(made, kind_of)

    def _up(self, kind: str, version: int, payload: bytes | None) -> tuple[int, bytes]:
        """Return the newest version, and what an event says in it.

        Raises:
            ValueError: it says nothing that is an object, or a step fails.
        """
        try:
            said = None if payload is None else json.loads(payload, parse_float=_read)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise ValueError("its payload is no JSON object")
        while (step := self._steps.get((kind, version))) is not None:
            what = f"{self._app.name}: the step of {kind} from version {version}"
            try:
                said = step(said, **self._app.options)
            except Exception as error:
                raise ValueError(what_raised(what, error, self._app.folder)) from None
            if not isinstance(said, dict):
                raise ValueError(f"{what} gives {type(said).__name__}, and no dictionary")
            version += 1
        try:
            return version, _written(said).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{self._app.name}: what {kind} became is no JSON: {error}") from None


class _Number(float):
    """A number that a float does not hold: as a float, and as it is written."""

    text: str


def _read(text: str) -> float:
    """Return a number of JSON with a point or an exponent."""
    value = float(text)
    try:
        exact = Decimal(text) == Decimal(repr(value))
    except ArithmeticError:  # an exponent beyond all
        exact = False
    if exact:
        return value
    number = _Number(text)
    number.text = text
    return number


def _written(said: Mapping[str, Any]) -> str:
    """Return an object as JSON: numbers that no step has changed as they were written.

    Raises:
        TypeError, ValueError: it is none.
    """
    numbers: list[str] = []
    mark = f"{secrets.token_hex(8)}:"

    def held(value: Any) -> Any:
        if isinstance(value, _Number):
            numbers.append(value.text)
            return f"{mark}{len(numbers) - 1}"
        if isinstance(value, dict):
            return {key: held(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [held(each) for each in value]
        return value

    text = json.dumps(held(said), ensure_ascii=False, allow_nan=False)
    if not numbers:
        return text
    return re.sub(f'"{mark}([0-9]+)"', lambda found: numbers[int(found[1])], text)
