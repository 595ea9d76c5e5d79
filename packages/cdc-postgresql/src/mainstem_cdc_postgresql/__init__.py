"""Change data capture of PostgreSQL: tables and their log, through the ingress log."""
