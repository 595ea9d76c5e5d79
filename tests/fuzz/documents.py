"""Documents for the planner, made of right ones by changing their tree or their text."""

from __future__ import annotations

import copy
import random
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from mainstem.errors import MainstemError
from mainstem.plan.build import make_plan
from ruamel.yaml import YAML

#: Longer than this for one document counts as hanging, in seconds.
_LONG = 20
#: What stands where something else belongs.
ODD: Sequence[Any] = (
    None, True, 0, -1, 1e400, "", " ", "null", "${env:NOT_THERE}", "${env:", "${file:/nowhere}", [], {}, [[]],
    {"": ""}, {"use": "files"}, "a.b.c", "a" * 10_000, "\0", "é\u202e", 2**70, "1 fortnight", "-5 seconds",
    {"every": {"every": {}}}, ["a", "a"], "select", "SELECT 1; DROP TABLE x", "`", "n NOT A TYPE",
)  # fmt: skip


def right_documents(root: Path) -> list[Any]:
    """Return the examples' documents as trees."""
    yaml = YAML(typ="safe", pure=True)
    files = [*root.glob("examples/*/*.yaml"), *root.glob("examples/*/*/*.yaml")]
    found = [yaml.load(file.read_text()) for file in sorted(files)]
    return [tree for tree in found if isinstance(tree, dict) and "sources" in tree]


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container of a tree with each of its keys."""
    items = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for key, value in list(items):
        yield tree, key
        yield from places(value)


def changed(tree: Any, others: Sequence[Any], chance: random.Random) -> Any:
    """Return a tree with one to five changes."""
    tree = copy.deepcopy(tree)
    for _ in range(chance.choice([1, 1, 1, 2, 3, 5])):
        there = list(places(tree))
        if not there:
            return tree
        holder, key = chance.choice(there)
        what = chance.randrange(6)
        if what == 0:
            del holder[key]
        elif what == 1:
            holder[key] = copy.deepcopy(chance.choice(ODD))
        elif what == 2:  # a branch of another document, or of this one
            other, from_ = chance.choice(list(places(chance.choice([tree, *others]))))
            holder[key] = copy.deepcopy(other[from_])
        elif what == 3 and isinstance(holder, dict):
            holder[chance.choice(["use", "from", "with", "x", 1, None, f"{key}2"])] = holder.pop(
                key
            )
        elif what == 4 and isinstance(holder[key], str) and holder[key]:
            text = holder[key]
            at = chance.randrange(len(text))
            holder[key] = text[:at] + chance.choice("'\"`${}()[],.:\n\0;é ") + text[at + 1 :]
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(chance.choice(ODD)))
    return tree


def as_text(tree: Any, chance: random.Random) -> str:
    """Return a tree as YAML, sometimes with its text broken too."""
    out = StringIO()
    YAML(typ="safe", pure=True).dump(tree, out)
    text = out.getvalue()
    if chance.random() < 0.3:
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice(["\t", ":", "- ", "&a ", "*a", "{", "!x ", "\u0007", "? ", "|\n"]) + text[at + chance.randrange(3) :]  # fmt: skip
    return text


def plan(count: int, seed: int, root: Path, folder: Path) -> str:
    """Plan so many documents; return what came of them.

    Raises:
        AssertionError: one ended in anything but a plan or an error of the document, or hung.
    """
    chance = random.Random(seed)
    right = right_documents(root)
    assert right, "there are no examples"
    file = folder / "fuzzed.yaml"
    came: Counter[str] = Counter()

    def hangs(*_: object) -> None:
        raise TimeoutError(f"no end after {_LONG} s")

    signal.signal(signal.SIGALRM, hangs)
    for number in range(count):
        text = as_text(changed(chance.choice(right), right, chance), chance)
        file.write_text(text, errors="surrogatepass")
        signal.alarm(_LONG)
        try:
            make_plan(file)
            came["planned"] += 1
        except MainstemError as error:
            came["refused" if str(error).strip() else "refused without a word"] += 1
        except BaseException as error:
            kept = Path(f"fuzzed-{seed}-{number}.yaml").absolute()
            kept.write_text(text, errors="surrogatepass")
            raise AssertionError(f"document {number} of seed {seed} ({kept}): {error!r}") from error
        finally:
            signal.alarm(0)
    assert not came["refused without a word"], f"seed {seed}: {came}"
    return f"{count:,} documents: {came['planned']:,} planned, {came['refused']:,} refused"
