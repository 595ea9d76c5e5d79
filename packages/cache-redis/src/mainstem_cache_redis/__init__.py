"""Redis for Mainstem."""
