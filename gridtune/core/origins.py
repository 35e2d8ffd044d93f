"""Where code is from, and a checksum of the module that it is in."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from typing import Literal

from gridtune.core.own_modules import is_installed, locate
from gridtune.core.plugins import plugin_of
from gridtune.core.sources import Source, digest_of, import_closure, spec_source
from gridtune.registry import all_registries, is_ours

__all__ = ["Code", "Origin", "module_code", "origin_of"]

#: gridtune itself; a plug-in's file; an installed package that adds to gridtune; Python or another
#: distribution; and everything else: a script, a notebook, a module of the user's own.
Origin = Literal["ours", "plugin", "package", "foreign", "session"]

#: A word in quotes.
_LITERAL = re.compile(r"""["']([\w.\-]+)["']""")


@dataclass(frozen=True)
class Code:
    """A piece of code.

    Attributes
    ----------
    checksum
        Of its source and of all of the user's own that it needs.
    words
        The words that its source has in quotes: it may ask for something by its name.
    modules
        Modules of the session that it needs.
    """

    checksum: str
    words: frozenset[str]
    modules: frozenset[str] = frozenset()


def origin_of(module: str) -> Origin:
    """Return where a module that has been imported is from."""
    if is_ours(module):
        return "ours"
    if plugin_of(module) is not None:
        return "plugin"
    top = module.partition(".")[0]
    if any(
        point.module.partition(".")[0] == top
        for registry in all_registries()
        for point in registry.entry_points.values()
    ):
        return "package"
    return _origin_by_file(module)


@cache
def _origin_by_file(module: str) -> Origin:
    if module == "__main__":
        return "session"
    if not module or module.partition(".")[0] in sys.stdlib_module_names:
        return "foreign"
    file = getattr(sys.modules.get(module), "__file__", None)
    return "foreign" if file is not None and is_installed(file) else "session"


def module_code(module: str) -> Code:
    """Return the code of a module and of all that it imports of its own plug-in or package."""
    plugin = plugin_of(module)
    return _package_code(module) if plugin is None else _code(plugin.code_of(module))


@cache
def _package_code(module: str) -> Code:
    top = module.partition(".")[0]

    def source_of(name: str) -> Source | None:
        spec = locate(name) if name.partition(".")[0] == top else None
        return None if spec is None else spec_source(spec)

    return _code(import_closure([module], source_of, late=True, parents=True))


def _code(sources: dict[str, Source]) -> Code:
    words = (_LITERAL.findall(source.text) for source in sources.values())
    return Code(digest_of(sources), frozenset().union(*words))
