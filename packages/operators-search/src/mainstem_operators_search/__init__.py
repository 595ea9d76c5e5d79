"""Search on streams: stored queries, and documents that find those they match."""
