"""AWS for plugins of Mainstem: what a document says of a connection, clients, and what failures mean."""
