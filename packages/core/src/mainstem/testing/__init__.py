"""Tests of documents, rows in and rows that must come out, and a look at what a node gives."""
