"""What an author of a lookup writes: connect, ask, close."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from mainstem.columns import Column

#: The values of a row's key columns, none of them null, as Arrow gives them to Python.
Key = tuple[Any, ...]


class Answer(NamedTuple):
    """What an external system says of a key.

    Attributes:
        values: one for each column of the answer, as Arrow takes them for its type; None if there is
            nothing for the key, or if it is refused.
        refusal: why nothing can ever be said of this key, in words without secrets; empty if it can.
    """

    values: Sequence[Any] | None
    refusal: str = ""


#: There is nothing for the key.
MISSING = Answer(None)


class Lookup(ABC):
    """Asks an external system over one connection; one thread uses it at a time.

    Args:
        options: of the operator.
        keys: the key columns, as the row has them.
        columns: those of an answer, in the types of Spark's.
    """

    def __init__(self, options: Any, keys: Sequence[Column], columns: Sequence[Column]) -> None:
        self.options = options
        self.keys = tuple(keys)
        self.columns = tuple(columns)

    @property
    def most(self) -> int:
        """How many keys `ask` takes at a time."""
        return 1

    def connect(self) -> None:  # noqa: B027
        """Connect, if there is something to connect to before it is asked.

        Raises:
            TransientError: it can't be reached now; it is retried.
            PermanentError: no retry would help.
        """

    @abstractmethod
    def ask(self, keys: Sequence[Key]) -> Sequence[Answer]:
        """Return an answer for each key, in order.

        Raises:
            TransientError: there was none; `close` is called, and it is asked again after a pause.
            PermanentError: there never will be one, for any key; the batch fails.
        """

    def close(self) -> None:  # noqa: B027
        """End the connection. Called once for each `connect`, also for one that failed."""
