"""NATS for Mainstem: JetStream streams, work queues and buckets, and core NATS."""
