"""What can go wrong with a log."""

from __future__ import annotations

from mainstem import PipelineError


class LogError(PipelineError):
    """A log can't be read as it was written: a segment is gone, damaged, or of another version."""
