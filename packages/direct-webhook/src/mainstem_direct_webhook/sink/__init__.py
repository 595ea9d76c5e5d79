"""The sink: a client that signs, retries, and says what was refused."""
