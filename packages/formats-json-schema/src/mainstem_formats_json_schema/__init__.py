"""JSON Schema for Mainstem: the format `json-schema` of `decode`."""
