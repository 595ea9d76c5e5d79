"""The sink `kinesis`."""
