"""What can go wrong with a log or a receiver, by what is to be done."""

from __future__ import annotations

from mainstem import PipelineError


class Unmendable(Exception):  # noqa: N818
    """Raised by a receiver: no retry mends this (wrong credentials, no such queue). Ends the run.

    The message is shown to the user; it holds no secrets.
    """


class Unreachable(Exception):  # noqa: N818
    """Raised by a receiver: the far side is away. It is waited for, and the reason is shown."""


class LogError(PipelineError):
    """A log can't be read as it was written: a segment is gone, damaged, or of another version."""
