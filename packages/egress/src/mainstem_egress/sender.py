"""What an author of a sender writes: connect, send, what the answers mean, close."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa
    from mainstem.sinks import Refused


class Fate(Enum):
    """What an answer means for a message."""

    #: The external system has it.
    ACCEPTED = "accepted"
    #: The external system can't take it for now: it is sent again.
    RETRY = "retry"
    #: It will never be taken: the row comes out of the sink's `rejected`, with the reason.
    REFUSED = "refused"


class Answer(NamedTuple):
    """What became of the messages from `first` to `last` that have no answer yet.

    Attributes:
        first, last: numbers that `send` was called with; the same for one message.
        reason: why not, in words without secrets; shown to people.
    """

    first: int
    last: int
    fate: Fate = Fate.ACCEPTED
    reason: str = ""


class Sendable(Protocol):
    """What a message to send has, next to what its sender makes of it.

    Attributes:
        lane: messages of one lane keep their order, unless the options say `order: none`; None for one
            that has no order.
        size: in bytes, as far as it counts towards `in_flight_bytes`.
        identity: the row's `_id`.
        payload: what `rejected` holds of the row if it is refused; its value.
    """

    @property
    def lane(self) -> Hashable: ...
    @property
    def size(self) -> int: ...
    @property
    def identity(self) -> bytes | None: ...
    @property
    def payload(self) -> bytes | None: ...


class OutMessage(NamedTuple):
    """A message to send, as it is ready-made; see `Sendable`. `content` is the author's own."""

    content: Any
    lane: Hashable
    size: int
    identity: bytes | None
    payload: bytes | None


class MessageFault(Exception):  # noqa: N818
    """The connection ended because of one of the messages in flight, and nobody says which. Says why.

    They are sent again one by one; the one that is alone when it happens again is refused.
    """


class Sender(ABC):
    """Sends messages over one connection.

    All methods are called in one thread of a task. `mainstem.PermanentError` and `mainstem.FencedError`
    from one of them fail the batch. `MessageFault`, `mainstem.TransientError` or any other exception
    means that the connection is no longer good: `close` is called, then `connect` with growing pauses
    between, and what has no answer is sent again. So a message can arrive twice, never less than once.

    Args:
        options: of the sink.
        name: the sink's, `mainstem PIPELINE SINK`; what the external system may show as the client's.

    Attributes:
        in_flight: the messages that have no answer yet, by number; those too that are to be sent again.
            With `order: key` also accepted ones, as long as one before them has no answer. Kept by the
            dispatcher.
    """

    #: Whether an order needs that a message of a lane waits until the one before it is settled: the
    #: external system keeps no order of what is in flight, or drops copies of what it has.
    one_of_a_lane: ClassVar[bool] = False

    def __init__(self, options: Any, name: str) -> None:
        self.options = options
        self.name = name
        self.in_flight: Mapping[int, Any] = {}

    @abstractmethod
    def messages(self, batch: pa.RecordBatch, refused: Refused) -> Iterator[Sendable]:
        """Yield a message for each row of a batch; a row that makes none is noted as refused.

        Called without a connection too.
        """

    @abstractmethod
    def connect(self) -> None:
        """Connect, and see that what messages are sent to is there.

        Raises:
            TransientError: the external system can't be reached now; it is retried.
            PermanentError: no retry would help.
        """

    @abstractmethod
    def send(self, number: int, message: Any) -> None:
        """Send a message, or keep it for `answers` to send.

        Args:
            number: how many were sent since `connect`, from 1: for `Answer`.
            message: what `messages` gave.

        Raises:
            RefusedRowError: it can never be taken; no answer is expected, and the next message has its
                number.
        """

    @abstractmethod
    def answers(self, seconds: float) -> Iterable[Answer]:
        """Send what was kept, and return the answers that came.

        Args:
            seconds: how long to wait for the first at most; 0 between messages, so that connections are
                kept alive here.
        """

    def close(self) -> None:  # noqa: B027
        """End the connection. Called once for each `connect`, also for one that failed."""

    def blocked(self) -> str:
        """Return why the external system takes nothing for now (back-pressure); empty while it does.

        Meanwhile silence is no reason to connect anew; `give_up` counts.
        """
        return ""

    def place(self) -> str:
        """Return where messages are sent, without secrets, for errors."""
        return ""
