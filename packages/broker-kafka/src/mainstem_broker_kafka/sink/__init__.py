"""The sink `kafka`: microbatches by Spark's writer, transactions by librdkafka's."""
