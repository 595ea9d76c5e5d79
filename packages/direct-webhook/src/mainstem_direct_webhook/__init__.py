"""Webhooks for Mainstem: the source and the sink `webhook`."""
