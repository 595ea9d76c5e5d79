"""The operator `http_lookup`: rows ask an HTTP service."""
