"""Kinesis for Mainstem: the source and the sink `kinesis`."""
