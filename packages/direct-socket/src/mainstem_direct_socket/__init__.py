"""Bytes that come and go by sockets and pipes, cut into messages."""
