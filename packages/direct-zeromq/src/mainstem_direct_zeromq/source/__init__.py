"""The source `zeromq`."""
