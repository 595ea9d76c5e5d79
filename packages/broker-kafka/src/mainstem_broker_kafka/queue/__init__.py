"""The source `kafka_queue`: a share group of Kafka, whose messages are acknowledged one by one."""
