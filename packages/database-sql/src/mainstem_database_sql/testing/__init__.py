"""Test servers: PostgreSQL and MariaDB."""
