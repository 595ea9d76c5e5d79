"""What an author of a receiver writes: connect, take messages, acknowledge them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mainstem_ingress.messages import Message

if TYPE_CHECKING:
    from mainstem_ingress.log import Log


class Receiver(ABC):
    """Takes messages from one external system, for one folder of segments.

    All methods are called in one thread of a process of its own. A `TransientError`, or any exception
    but `PermanentError`, from one of them means that the connection is no longer good: `close` is
    called, then `connect` again, with growing pauses between. Messages that were taken and not
    acknowledged by then are forgotten, for the external system gives them again; where it does not, set
    `gives_again`, and say in the source's capabilities that it is lossy.

    Args:
        options: the options of the source.
        number: which of the source's receivers this is, from 0.
        node: the source's name in the document.
    """

    #: Whether messages that were taken and not acknowledged come again when the connection has broken.
    #: Where they do not, they are stored, and never acknowledged.
    gives_again: bool = True
    #: The log that this stores in, set before `connect`; None outside a receiver's process.
    log: Log | None = None

    def __init__(self, options: Any, number: int, node: str) -> None:
        self.options = options
        self.number = number
        self.node = node

    @abstractmethod
    def connect(self, cursor: str | None) -> None:
        """Connect, so that messages come.

        Args:
            cursor: that of the last message that was stored, or the last that `cursor` gave and was
                stored, for an external system that goes on from there.

        Raises:
            TransientError: the external system is away; it is retried.
            PermanentError: retrying would not help.
        """

    @abstractmethod
    def take(self, seconds: float) -> Iterable[Message]:
        """Return the messages that have come, waiting for the first for so long at most.

        Called again and again, also with nothing to wait for, so connections are kept alive here.
        """

    @abstractmethod
    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages, which are stored for good, in the order in which they were taken."""

    def close(self) -> None:  # noqa: B027
        """End the connection. Called once for each `connect`, also for one that failed."""

    def held(self) -> bool:
        """Return whether no more messages come before those at hand are acknowledged.

        They are stored at once then: waiting for more would be in vain.
        """
        return False

    def pause(self) -> None:  # noqa: B027
        """Let no more messages come: the log has no room. Those in flight are taken as before."""

    def resume(self) -> None:  # noqa: B027
        """Let messages come again."""

    def cursor(self) -> str | None:
        """Return where the external system goes on after all that `take` has returned so far.

        For an external system whose place is more than that of one message, such as many partitions. It
        is stored in the same segment as those messages, and their own cursors are not looked at. It is
        also stored, for good, when it has changed and there is nothing to store: let it change seldom
        then, for each time costs a wait for the disk.
        """
        return None

    def complete(self) -> bool:
        """Whether what `take` has returned so far ends where something ends that belongs together.

        Such as a transaction. It is stored with the messages, or with the cursor; a source that says
        `together` is then read in batches that end in such places alone.
        """
        return True

    def stored_cursors(self) -> Mapping[int, str]:
        """Return what each receiver of the log has stored for good as its cursor, by its number.

        A receiver that has stored none yet is left out. For receivers that have to know how far the
        others are.
        """
        return {} if self.log is None else self.log.cursors()

    def caught_up(self) -> bool | None:
        """Return whether `take` has returned all that was at the external system when this process began.

        A bounded run begins to read when that is so and stored; None, where nobody can tell, leaves
        it to `waiting`.
        """
        return None

    def waiting(self) -> int | None:
        """Return how many messages were waiting at the external system when `connect` returned.

        A bounded run begins to read when so many are stored, or when none comes for a while; None,
        where nobody can tell, leaves it at that. Where nothing ever waits, return 0.
        """
        return None

    def gauges(self) -> dict[str, float]:
        """Return numbers worth watching over time, by names with their unit: `log_behind_bytes`."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Return what is worth showing beside the counts, such as which server this is connected to.

        `doing`, some words, stands beside the receiver in the live table.
        """
        return {}
