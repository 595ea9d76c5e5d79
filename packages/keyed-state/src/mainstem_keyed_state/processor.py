"""What Spark calls for each bucket that has rows in a batch, or is woken.

Before the first batch of a run Spark starts a Python process to be told the state variables, and waits
for it. That process needs neither Polars nor the logic, whose modules take most of a second to import, so
they travel packed and nothing here imports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from mainstem_keyed_state.calls import SparkStore, state_of

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

    from mainstem_keyed_state.buckets import Buckets


class BucketProcessor(StatefulProcessor):
    """Runs a logic on the buckets of a task.

    Args:
        buckets: does the work.
        state: the name of the state variable.
    """

    def __init__(self, buckets: Buckets, state: str) -> None:
        pickled: Any = cloudpickle  # which has no types
        self._packed: bytes = pickled.dumps(buckets)
        self._state_name = state
        self._unpacked: Buckets | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = state_of(handle, self._state_name)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        packed = (pair for f in rows for pair in zip(f["port"], f["payload"], strict=True))
        return self._take(packed, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        # Spark removes the timer that it called for; another one with that time there is not.
        return self._take((), timerValues, fired=expiredTimerInfo.getExpiryTimeInMs())

    def _take(
        self, packed: Iterable[tuple[int, bytes]], timers: TimerValues, fired: int | None = None
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        if self._unpacked is None:
            self._unpacked = cloudpickle.loads(self._packed)
        buckets: Buckets = self._unpacked
        at = timers.getCurrentWatermarkInMs()
        watermark = at * 1000 if at > 0 else None
        for payload in buckets.take(SparkStore(self._state), packed, watermark):
            yield pd.DataFrame({"payload": [payload]})
        before, now = buckets.timers
        if before != now:
            if before is not None and before != fired:
                self._handle.deleteTimer(before)
            if now is not None:
                self._handle.registerTimer(now)

    def close(self) -> None:
        """Nothing is held between the buckets of a task."""
