"""The sink `zeromq`."""
