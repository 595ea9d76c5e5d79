"""MessagePack for Mainstem: the format `msgpack` of `decode` and `encode`."""
