"""Components for tests of the kit: a sound one of each kind, and broken ones beside it."""
