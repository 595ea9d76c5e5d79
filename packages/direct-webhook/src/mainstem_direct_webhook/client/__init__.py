"""HTTP requests: how endpoints are reached, and what their answers mean."""
