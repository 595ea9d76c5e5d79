"""Change data capture of MySQL and MariaDB."""
