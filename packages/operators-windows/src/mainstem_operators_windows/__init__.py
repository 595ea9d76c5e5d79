"""Aggregation by keys and event-time windows, on Spark's own stateful operators."""
