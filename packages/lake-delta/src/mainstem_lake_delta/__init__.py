"""Delta tables for Mainstem."""
