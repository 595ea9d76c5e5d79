"""What of a session has come: each number once, as a message or as a part of a gap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Missing(NamedTuple):
    """Numbers from one to before another that did not come."""

    first: int
    end: int


class Numbers:
    """The messages of one session, put in order.

    Args:
        next: the number that is expected.
    """

    def __init__(self, next: int) -> None:  # noqa: A002
        #: The number of the first message that was not given yet.
        self.next = next
        #: By number, messages that came before others that are missing.
        self._held: dict[int, bytes] = {}
        #: The number after the highest that is known to exist.
        self.known = next

    @property
    def held(self) -> int:
        """How many messages wait for others."""
        return len(self._held)

    def see(self, first: int, messages: Sequence[bytes]) -> Sequence[bytes]:
        """Take messages, the first of which has a number; return those that are next now, in order.

        The first that is returned has the number that was `next` before.
        """
        end = first + len(messages)
        self.known = max(self.known, end)
        if end <= self.next:
            return ()
        if first <= self.next and not self._held:  # as nearly always
            found = messages if first == self.next else messages[self.next - first :]
            self.next = end
            return found
        self.hold(first, messages)
        return self.ready()

    def hold(self, first: int, messages: Sequence[bytes]) -> None:
        """Keep messages, the first of which has a number."""
        self.known = max(self.known, first + len(messages))
        for number, message in enumerate(messages, first):
            if number >= self.next:
                self._held.setdefault(number, message)

    @property
    def incomplete(self) -> bool:
        """Whether something is missing."""
        return self.next < self.known

    def ready(self) -> list[bytes]:
        """Return the messages that are next now, in order, and keep them no more."""
        found: list[bytes] = []
        while (message := self._held.pop(self.next, None)) is not None:
            found.append(message)
            self.next += 1
        return found

    def missing(self) -> Iterator[Missing]:
        """Yield what is missing among the numbers that are known to exist, in order."""
        at = self.next
        for number in sorted(self._held):
            if number > at:
                yield Missing(at, number)
            at = number + 1
        if at < self.known:
            yield Missing(at, self.known)

    def give_up(self) -> tuple[Missing, list[bytes]]:
        """Let what is missing next be missing; return it, and the messages that are next after it."""
        gap = next(self.missing())
        self.next = gap.end
        return gap, self.ready()
