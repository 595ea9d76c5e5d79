"""What the suite of receivers is told by an author, and how its tests reach a receiver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mainstem import Source, SourceCapabilities
from mainstem.contracts.secrets import secrets_in

from mainstem_testkit.conformance import _receiver
from mainstem_testkit.conformance._receiver import (
    Taker,
    TakingProcess,
    difference,
    stored,
)
from mainstem_testkit.conformance.suite import Suite, not_claimed
from mainstem_testkit.pipelines import wait_for

#: How long what a receiver held may take to go, in seconds.
SETTLING = 10.0


class ReceivingSuite(Suite):
    """What an author says of a receiver, and the parts that its tests share."""

    kind: ClassVar[str] = "source"
    #: The output of the source whose rows are put, for one that gives rows by name. A message then has
    #: its name and the row as `extra`.
    output: ClassVar[str] = ""
    #: Texts, beside the component's secret options, that no error may show.
    secrets: ClassVar[Sequence[str]] = ()

    def put(self, numbers: Sequence[int]) -> None:
        """Make a message of each number, in order; there may be none."""
        raise NotImplementedError

    def number(self, message: Any) -> int:
        """Return the number that a message was made of; its `value` when left out."""
        return int(message.value)

    def left(self) -> int | None:
        """Return how many messages the external system still holds for the receiver.

        None when nobody can tell, or when it keeps messages that were acknowledged.
        """
        return None

    def permanent(self) -> Mapping[str, Mapping[str, Any]]:
        """Return changed options that no retry mends, by what is wrong: a password, a missing queue."""
        return {}

    def parts(self, **changes: Any) -> dict[str, Any]:
        read = f"subject.{self.output}" if self.output else "subject"
        return {
            "sources": {"subject": {"use": self.use, "with": {**self.options(), **changes}}},
            "sinks": {"out": {"use": "console", "from": read}},
        }

    # -- the receiver -------------------------------------------------------------------------

    @pytest.fixture(autouse=True)
    def _in_its_place(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:  # no Java
        assert self.use, f"{type(self).__name__} does not say which word is tested: `use`"
        if self.server_fixture:
            self.server = request.getfixturevalue(self.server_fixture)
        self._move(tmp_path / "place")

    @property
    def claims(self) -> SourceCapabilities:
        """What the source says of itself."""
        assert isinstance(self.component, Source)
        return self.component.capabilities

    def source(self, **changes: Any) -> Any:
        """Return the source, with changed options, as a document makes it."""
        from mainstem_ingress import IngressSource

        found = self.plan(**changes).nodes["subject"].component
        assert isinstance(found, IngressSource), f"{self.use} is no IngressSource"
        return found

    def taker(self, **changes: Any) -> Taker:
        """Return a new receiver to be called; `changes` are to the source's options."""
        source = self.source(**changes)
        return Taker(source.receiver()(source.options, 0, "subject"), self.quiet)

    def check(self, messages: Iterable[Any], expected: Sequence[int], *, once: bool = True) -> None:
        """Hold what came against what was put.

        Args:
            once: whether a number that came twice is wrong.

        Raises:
            AssertionError: numbers were lost or doubled, or were never put.
        """
        found = list(map(self.number, messages))
        wrong = difference(found if once else sorted(set(found)), expected)
        assert not wrong, wrong

    def nothing_left(self) -> None:
        """Wait until the external system holds nothing more, if anybody can tell.

        Raises:
            AssertionError: it still holds messages.
        """
        if self.left() is None:
            return
        try:
            wait_for(lambda: not self.left(), SETTLING)
        except AssertionError:
            raise AssertionError(
                f"{self.left()} messages are left at the external system"
            ) from None

    # -- parts of tests -------------------------------------------------------------------------

    @property
    def _folder(self) -> Path:
        """The log's folder."""
        home: Path = self.source().log(self.place / "node").folder
        return home

    def _process(self, *, env: Mapping[str, str] | None = None, **changes: Any) -> TakingProcess:
        (self.place / "node").mkdir(exist_ok=True)
        (process, *_) = self.source(**changes).processes("subject", self.place / "node")
        return TakingProcess(process, **(env or {}))

    def _stored(self) -> set[int]:
        return {self.number(message) for message in stored(self._folder)}

    def _has_more_than(self, count: int) -> Callable[[], bool]:
        return lambda: len(stored(self._folder)) > count

    def _not_lossy(self) -> None:
        if self.claims.lossy:
            not_claimed("every message comes")

    def _known(self, messages: Sequence[Any], taker: Taker) -> bool:
        """Whether the log can tell by ids or cursors that messages came before."""
        own = taker.call("cursor") is not None
        return own or all(message.id or message.cursor for message in messages)

    def _fails(self, taker: Taker) -> Exception:
        """Connect and take with options that are wrong, until that raises.

        Raises:
            AssertionError: nothing raises.
        """
        try:
            taker.connect()
            taker.take_rest()
        except AssertionError:
            raise
        except Exception as error:
            return error
        raise AssertionError("wrong options, and neither `connect` nor `take` raises")

    def _breaks(self, taker: Taker, *, connect: bool = False) -> Exception:
        """Take from a server that is gone, until that raises.

        Raises:
            AssertionError: it does not raise, or hangs.
        """
        until = time.monotonic() + _receiver.PATIENCE
        try:
            if connect:
                taker.connect()
            while time.monotonic() < until:
                taker.take()
        except AssertionError:
            raise
        except Exception as error:
            return error
        raise AssertionError("the server is gone, and `take` does not raise")

    def _no_secret(self, text: str, source: Any) -> None:
        for secret in [*self.secrets, *secrets_in(source.options)]:
            assert secret not in text, "the words of an error hold a secret"
