"""The document: YAML text to a checked model, every value with its line."""
