"""The contracts: what a plugin implements, and the types it speaks in. Nothing here needs Spark."""

# Whoever defines a component is held to all abilities that there are.
import mainstem.contracts.abilities  # noqa: F401
