"""The plan: document and registry to a graph with shapes, queries and guarantees. No Spark here."""
