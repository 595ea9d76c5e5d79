"""Tests of documents: rows in, batch by batch, and the rows that must come out."""
