"""Avro for Mainstem: the format `avro` of `decode` and `encode`."""
