"""What Spark calls for each bucket that has rows in a batch, or is woken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from mainstem_keyed_state.calls import SparkStore, state_of
from mainstem_keyed_state.logic import Logic
from mainstem_keyed_state.outputs import packed_outputs
from mainstem_keyed_state.packing import unpacked
from mainstem_keyed_state.runner import Rows, Stepping

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )


class BucketProcessor(StatefulProcessor):
    """Runs a logic on the buckets of a task.

    Args:
        state: the name of the state variable.
        ports: the columns of each port's rows as they come, `KEY` among them, in the order of the
            ports' numbers.
        limits: the bytes of a page and of a portion; see `Stepping`.
    """

    def __init__(
        self, logic: Logic, state: str, ports: Mapping[str, pl.Schema], limits: tuple[int, int]
    ) -> None:
        self._logic = logic
        self._state_name = state
        self._ports = dict(ports)
        self._limits = limits

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = state_of(handle, self._state_name)
        self._stepping = Stepping(self._logic, *self._limits)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        ports = list(self._ports.items())
        found: dict[str, list[pl.DataFrame]] = {port: [] for port, _ in ports}
        for frame in rows:
            for number, payload in zip(frame["port"], frame["payload"], strict=True):
                port, columns = ports[number]
                found[port].append(unpacked(payload, columns))
        return self._take(found, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        # Spark removes the timer that it called for; another one with that time there is not.
        return self._take({}, timerValues, fired=expiredTimerInfo.getExpiryTimeInMs())

    def _take(
        self, rows: Rows, timers: TimerValues, fired: int | None = None
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        at = timers.getCurrentWatermarkInMs()
        watermark = at * 1000 if at > 0 else None
        for name, out in self._stepping.bucket(SparkStore(self._state), rows, watermark):
            for payload in packed_outputs(out):
                yield pd.DataFrame({"name": [name], "payload": [payload]})
        before, now = self._stepping.timer, self._stepping.next_timer
        if before != now:
            if before is not None and before != fired:
                self._handle.deleteTimer(before)
            if now is not None:
                self._handle.registerTimer(now)

    def close(self) -> None:
        """Nothing is held between the buckets of a task."""
