"""Protocol Buffers for Mainstem: the format `protobuf` of `decode` and `encode`."""
