"""CBOR for Mainstem: the format `cbor` of `decode` and `encode`."""
