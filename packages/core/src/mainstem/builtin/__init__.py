"""The components that come with the core. They use the same API as any plugin."""
