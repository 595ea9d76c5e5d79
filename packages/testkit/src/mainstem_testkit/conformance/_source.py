"""What the suite of sources is told by an author, and how its tests read a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from mainstem import Inputs, Shape, Source, SourceCapabilities

from mainstem_testkit.conformance.reading import Reading
from mainstem_testkit.conformance.suite import Suite, not_given
from mainstem_testkit.processes import Resources

Row = Mapping[str, Any]


class SourcingSuite(Suite):
    """What an author says of a source, and the parts that its tests share."""

    kind: ClassVar[str] = "source"
    #: The output of the source that is read, for one that gives its rows by name.
    output: ClassVar[str] = ""

    def put(self, numbers: Sequence[int]) -> None:
        """Make an event of each number, in order; there may be none.

        Left out for a source that makes its own events.
        """
        raise NotImplementedError

    def number(self, row: Row) -> int:
        """Return the number that an event was made of; its `value` when left out."""
        return int(row["value"])

    def limited(self, rows: int) -> Mapping[str, Any] | None:
        """Return options by which a batch has at most so many rows; None if there are none such."""
        return None

    def parts(self, **changes: Any) -> dict[str, Any]:
        return {
            "sources": {"subject": {"use": self.use, "with": {**self.options(), **changes}}},
            "sinks": {
                "out": {
                    "use": "files",
                    "from": f"subject.{self.output}" if self.output else "subject",
                    "with": {"path": "./out", "format": "parquet"},
                }
            },
        }

    # -- reading ----------------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        """The shape of what is read."""
        source: Any = self.component
        if self.output:
            return source.outputs(Inputs())[self.output]  # type: ignore[no-any-return]
        return source.shape()  # type: ignore[no-any-return]

    @property
    def claims(self) -> SourceCapabilities:
        """What the source says of itself."""
        assert isinstance(self.component, Source)
        return self.component.capabilities

    @property
    def fed(self) -> bool:
        """Whether events are put in, and not made by the source."""
        return type(self).put is not SourcingSuite.put

    def reading(self, name: str = "reading", source: Any = None, **changes: Any) -> Reading:
        """Return a reading of the source on a checkpoint of that name."""
        return Reading(self.plan(**changes), self.place / name, source, bounded=self.fed)

    def read_to_end(self, reading: Reading, rows: int) -> None:
        """Read what there is; of a source that makes its own, until there are so many rows."""
        if self.fed:
            reading.to_end()
        else:
            with reading.running() as running:
                reading.wait(running, rows)

    def check(self, rows: Iterable[Row], put: Sequence[int] | None = None) -> None:
        """Hold what came out against what went in, as far as the source claims.

        Raises:
            AssertionError: numbers were lost or doubled, or were never put.
        """
        found = Counter(map(self.number, rows))
        expected = set(range(max(found, default=-1) + 1)) if put is None else set(put)
        assert found or not expected, "no row came out"
        strange = sorted(found.keys() - expected)
        assert not strange, f"never put: {_some(strange)}"
        lost = sorted(expected - found.keys())
        assert self.claims.lossy or not lost, f"lost: {_some(lost)}"
        doubled = sorted(number for number, count in found.items() if count > 1)
        assert self.claims.may_duplicate or not doubled, f"doubled: {_some(doubled)}"

    @staticmethod
    def _held() -> Resources:
        """Return what is held, but for what Java has yet to find out that nobody uses."""
        from pyspark.sql import SparkSession

        spark = SparkSession.getActiveSession()
        if spark is not None:
            spark._jvm.System.gc()  # type: ignore[union-attr]
        return Resources.now()

    def _feed(self, numbers: Sequence[int]) -> None:
        """Put numbers in; end the test if nobody can."""
        if not self.fed:
            not_given("put")
        self.put(numbers)

    def _offer(self, numbers: Sequence[int]) -> None:
        """Put numbers in if somebody can."""
        if self.fed:
            self.put(numbers)


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return shown + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")
