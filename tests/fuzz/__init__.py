"""Bad input: fuzzed payloads through `decode`, fuzzed documents through the planner.

`python -m fuzz` (with `tests` on Python's path; part of `make fuzz`). Nothing may crash, hang, or be unaccounted
for: rows in = rows out + rejected. Each part prints its seed.
"""
