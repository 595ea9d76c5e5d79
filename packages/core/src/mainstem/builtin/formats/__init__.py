"""The formats that the core brings."""
