"""Formats: how values are written as bytes, and read again, exactly or not at all.

Readers work on Arrow arrays in Spark's tasks and know no Spark. Each takes an array of values and gives
an array for each column, with the reason for each value that does not fit.
"""
