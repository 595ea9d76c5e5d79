"""Iceberg tables for Mainstem."""
