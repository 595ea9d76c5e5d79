"""AMQP 1.0 for Mainstem: queues and topics of ActiveMQ, Artemis and others that JMS programs use."""
