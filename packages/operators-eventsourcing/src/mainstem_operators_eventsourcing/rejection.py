"""What a user's `decide` raises. Nothing is imported here, for the user's own tests."""

from __future__ import annotations


class Rejected(Exception):  # noqa: N818
    """A command that must not be done; the words are its reason."""
