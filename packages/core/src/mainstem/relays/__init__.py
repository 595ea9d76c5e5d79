"""Relays: the rows of a stream on their way from one query of a pipeline to others."""
