"""The sink `amqp`."""
