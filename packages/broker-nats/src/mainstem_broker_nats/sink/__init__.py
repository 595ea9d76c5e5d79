"""Sinks: messages into a JetStream stream, each acknowledged, and into core NATS."""
