"""Runs as others see them: what is known of one now, as a table, a page, metrics, JSON lines."""
