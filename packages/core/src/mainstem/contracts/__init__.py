"""The contracts: what a plugin implements, and the types it speaks in. Nothing here needs Spark."""
