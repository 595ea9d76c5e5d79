"""The source `kinesis`."""
