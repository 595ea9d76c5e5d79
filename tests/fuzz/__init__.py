"""Bad input: fuzzed payloads through `decode`, fuzzed documents through the planner, and random bytes into
every message source.

`python -m fuzz` (with `tests` on Python's path; part of `make fuzz`). Nothing may crash, hang, or be unaccounted
for: rows in = rows out + rejected. The seed is printed.
"""
