"""Google Pub/Sub for Mainstem."""
