"""Databases by SQL: how each product is reached, and what its errors mean. A library for plugins."""
