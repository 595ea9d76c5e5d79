"""The source: an HTTP server that answers when a message is on disk."""
