"""Finds installed plugins and gives their components: the only module that touches `PluginManager`.

Listing reads metadata only. A plugin's module is imported when one of its words is asked for, so a
broken plugin breaks neither the listing nor a pipeline that does not use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import distribution, version
from types import ModuleType
from typing import Any, cast

import pluggy

from mainstem import hookspecs
from mainstem.catalogue import install_line
from mainstem.contracts.components import Component, Delivery, Operator, Sink, Source, StateStore
from mainstem.contracts.formats import Format
from mainstem.discovery import GROUPS, Word, installed_words
from mainstem.errors import PluginError, article, nearest
from mainstem.observation.observers import Observer

#: The base of each kind's components.
BASES: Mapping[str, type[Component]] = {
    "source": Source,
    "operator": Operator,
    "sink": Sink,
    "state store": StateStore,
    "delivery": Delivery,
    "format": Format,
    "observer": Observer,
}


class Registry:
    """The words at hand, and the components behind them.

    Args:
        words: what is installed; read from the environment when left out.
    """

    def __init__(self, words: Iterable[Word] | None = None) -> None:
        self.words = sorted(installed_words() if words is None else words)
        self._modules: dict[Word, ModuleType] = {}
        self._components: dict[tuple[str, str], type[Component]] = {}

    @cached_property
    def _manager(self) -> pluggy.PluginManager:
        manager = pluggy.PluginManager("mainstem")
        manager.add_hookspecs(hookspecs)
        return manager

    def named(self, kind: str) -> list[str]:
        """Return the words of a kind, without repetition."""
        return sorted({word.name for word in self.words if word.kind == kind})

    def packages(self, distribution: str) -> set[str]:
        """Return the names of the top packages that a distribution's words are in."""
        own = (word.module for word in self.words if word.distribution == distribution)
        return {module.partition(":")[0].partition(".")[0] for module in own}

    def find(self, kind: str, use: str) -> Word:
        """Return the one word that `use` (`word` or `distribution:word`) means.

        Raises:
            PluginError: nobody brings it, or several do.
        """
        wanted, _, name = use.rpartition(":")
        found = [
            word
            for word in self.words
            if word.kind == kind and word.name == name and wanted in ("", word.distribution)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            names = " and ".join(f"{w.distribution} {w.version}" for w in found)
            choices = " or ".join(f"`use: {w.distribution}:{name}`" for w in found)
            raise PluginError(f"{kind} {name!r} is brought by {names}. Write {choices}.")
        line = install_line(kind, name)
        if wanted or line is None:
            hint = nearest(name, self.named(kind))
            installed = ", ".join(self.named(kind)) or "none"
            others = sorted({w.kind for w in self.words if w.name == name and w.kind != kind})
            also = f" ({name!r} is {article(others[0])})" if others else ""
            raise PluginError(
                f"no installed distribution{f' {wanted!r}' if wanted else ''} brings {article(kind)} "
                f"{name!r}{also}. {hint or f'Installed are: {installed}.'}"
            )
        raise PluginError(f"{kind} {name!r} is not installed. Install it: {line}")

    def component(self, kind: str, use: str) -> type[Component]:
        """Return the class behind a word, importing its plugin.

        Raises:
            PluginError: the word is missing or ambiguous, or its plugin does not work here.
        """
        word = self.find(kind, use)
        known = self._components.get((kind, word.distribution + ":" + word.name))
        if known is not None:
            return known
        module = self._import(word)
        brought = self._brought(kind, module, word)
        if word.name not in brought:
            raise PluginError(
                f"{word.distribution} {word.version} announces {kind} {word.name!r}, but its module "
                f"{word.module!r} returns no such word from its hook "
                f"{GROUPS[kind].replace('.', '_')}; this is a bug of that plugin."
            )
        component = brought[word.name]
        if isinstance(component, str):
            component = _placed(component, word)
        base = BASES[kind]
        if not (isinstance(component, type) and issubclass(component, base)):
            raise PluginError(
                f"{word.distribution} {word.version}: what it gives as {kind} {word.name!r} is not "
                f"a subclass of mainstem.{base.__name__}; this is a bug of that plugin."
            )
        self._components[kind, word.distribution + ":" + word.name] = component
        return component

    def _import(self, word: Word) -> ModuleType:
        if word in self._modules:
            return self._modules[word]
        check_core_version(word)
        try:
            module = import_module(word.module.partition(":")[0])
        except Exception as error:
            raise _not_imported(word, error) from error
        if not self._manager.is_registered(module):
            self._manager.register(module, name=f"{word.distribution}/{module.__name__}")
            try:
                self._manager.check_pending()
            except pluggy.PluginValidationError as error:
                self._manager.unregister(module)
                raise PluginError(
                    f"{word.distribution} {word.version} implements a hook that this core does not "
                    f"have: {error}. Upgrade mainstem, or install a version made for {_core()}."
                ) from error
        self._modules[word] = module
        return module

    def _brought(self, kind: str, module: ModuleType, word: Word) -> Mapping[str, Any]:
        caller = getattr(self._manager.hook, GROUPS[kind].replace(".", "_"))
        brought: dict[str, Any] = {}
        for implementation in caller.get_hookimpls():
            if implementation.plugin is module:
                try:
                    brought.update(implementation.function())
                except Exception as error:
                    raise PluginError(
                        f"{word.distribution} {word.version} fails when asked for its {kind} words: "
                        f"{type(error).__name__}: {error}"
                    ) from error
        return brought


def _placed(place: str, word: Word) -> Any:
    """Return what stands at a place, `package.module:Class`.

    Raises:
        PluginError: nothing does, or its module can't be imported.
    """
    module, _, name = place.partition(":")
    try:
        if not name:
            raise ValueError(f"{place!r} is no `package.module:Class`")
        return getattr(import_module(module), name)
    except Exception as error:
        raise _not_imported(word, error) from error


def _not_imported(word: Word, error: Exception) -> PluginError:
    return PluginError(
        f"{word.distribution} {word.version} can't be imported for {word.kind} "
        f"{word.name!r}: {type(error).__name__}: {error}. "
        f"Reinstall it: pip install --force-reinstall {word.distribution}"
    )


def _core() -> str:
    return f"mainstem {version('mainstem')}"


def check_core_version(word: Word) -> None:
    """Look whether the distribution of a word fits this core.

    Raises:
        PluginError: it asks for another version; says which.
    """
    from packaging.requirements import Requirement

    if word.distribution == "mainstem":
        return
    try:
        requires = cast("list[str]", distribution(word.distribution).requires or [])
    except ModuleNotFoundError:  # words given by hand, in tests
        return
    for text in requires:
        if not text.lower().startswith("mainstem"):
            continue
        requirement = Requirement(text)
        if requirement.name.lower() == "mainstem" and not requirement.extras:
            core = version("mainstem")
            if not requirement.specifier.contains(core, prereleases=True):
                raise PluginError(
                    f"{word.distribution} {word.version} is made for mainstem"
                    f"{requirement.specifier}, but mainstem {core} is installed. Upgrade both: "
                    f"pip install --upgrade mainstem {word.distribution}"
                )
