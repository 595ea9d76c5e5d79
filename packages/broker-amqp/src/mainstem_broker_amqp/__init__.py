"""RabbitMQ for Mainstem: the source and the sink `amqp`."""
