"""Apache Pulsar for Mainstem: topics as logs and as queues, and a sink that sends to them."""
