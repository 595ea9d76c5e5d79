"""The source `amqp`."""
