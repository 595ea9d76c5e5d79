"""Operators by keys and event time: totals of windows, ranks, order, and copies taken out."""
