"""Event sourcing: commands become events, and events become state."""

from __future__ import annotations

from mainstem_operators_eventsourcing.rejection import Rejected as Rejected

__all__ = ["Rejected"]
