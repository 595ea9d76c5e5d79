"""ZeroMQ for Mainstem: the source and the sink `zeromq`."""
