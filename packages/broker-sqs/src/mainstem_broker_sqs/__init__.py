"""Amazon SQS for Mainstem: queues as a source and as a sink."""
