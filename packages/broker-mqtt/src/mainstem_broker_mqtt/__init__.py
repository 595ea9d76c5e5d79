"""MQTT: a persistent session as a log, and messages published."""
