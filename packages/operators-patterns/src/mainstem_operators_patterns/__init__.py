"""Patterns of events: the operator `match`."""
