"""The sources: streams as logs and as work queues, buckets as changelogs, core NATS."""
