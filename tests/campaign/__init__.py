"""The crash campaign: paths from every source to every sink, broken on purpose, and counted.

`python -m campaign --rounds N` (with `tests` on Python's path; `make crash ROUNDS=N`). A round takes some
paths of the list in `paths`, runs them as one document in a process of its own while random events come in
and random things break, drains, and holds what came out against what was sent.
"""
