"""Relays: logs that take the rows of a stream from one query of a pipeline to others."""
