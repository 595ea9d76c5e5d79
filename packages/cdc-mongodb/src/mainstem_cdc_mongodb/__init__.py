"""Change data capture of MongoDB."""
