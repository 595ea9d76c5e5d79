"""The standard tests of sources on the ingress log: what they show, other sources on it need not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from ingress_far import Far, messages
from mainstem_testkit import SourceSuite


@pytest.mark.usefixtures("far_plugin")
class TestIngress(SourceSuite):
    """A queue with acknowledgements, which gives ids."""

    use = "far_queue"
    stands_for = "ingress"

    def prepare(self) -> None:
        self._end()
        self._far = Far()
        self._far.up()

    @pytest.fixture(autouse=True)
    def _ended(self) -> Iterator[None]:
        yield
        self._end()

    def _end(self) -> None:
        if hasattr(self, "_far"):
            self._far.down()

    def options(self) -> Mapping[str, Any]:
        return {"port": self._far.port, "keep": "1 day"}

    def put(self, numbers: Sequence[int]) -> None:
        self._far.put(messages(*numbers, ids=True))

    def limited(self, rows: int) -> Mapping[str, Any] | None:
        return {"max_rows": rows, "segment_rows": 1, "at_once": 1}
