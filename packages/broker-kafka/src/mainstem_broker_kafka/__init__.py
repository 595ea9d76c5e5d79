"""Kafka for Mainstem: the source and the sink `kafka`."""
