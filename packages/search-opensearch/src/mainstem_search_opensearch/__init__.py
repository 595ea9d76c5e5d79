"""OpenSearch for Mainstem."""
