"""UDP: datagrams through the ingress log."""
