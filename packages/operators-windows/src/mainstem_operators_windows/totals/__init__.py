"""Totals: SQL with aggregate functions, and how state by key computes them."""
