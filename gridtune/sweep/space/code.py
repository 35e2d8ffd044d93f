"""The code of users on its way to the workers, and the check that they run the same code as the driver.

The files that a search space names travel as they are, with the modules of the user's own that they import.
Code that is registered in a notebook, a script or a module of the user's own travels by value. Installed
packages are expected on every machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gridtune.core.system import System, get_system
from gridtune.core.user_code.checksums import UserCode, always_used, with_named, words_of
from gridtune.core.user_code.plugins import Plugin, load_plugins, loaded_plugin, plugin_of
from gridtune.errors import SweepError
from gridtune.registry import all_registries
from gridtune.sweep.space.schema import SearchSpace


@dataclass(frozen=True)
class SentCode:
    """The code of users that a sweep needs, as workers get it.

    Attributes
    ----------
    system
        Name of the system.
    version
        Its version here.
    plugins
        Files, with the modules that they import.
    modules
        Modules of installed packages that register something when they are imported.
    pickled
        What is registered in this session, by value; empty if there is nothing.
    used
        Labels of what every cell runs to their checksums; None where it comes by value.
    checksum
        Checksum of all of it.
    """

    system: str
    version: str
    plugins: tuple[Plugin, ...] = ()
    modules: tuple[str, ...] = ()
    pickled: bytes = b""
    used: Mapping[str, str | None] = field(default_factory=dict)
    checksum: str = ""

    def load(self) -> System:
        """Register everything in this process, and return the system.

        Raises
        ------
        GridtuneError
            If something cannot be loaded, or this process runs other code than the one that sent it.
        """
        load_plugins(self.plugins)
        for module in self.modules:
            importlib.import_module(module)
        if self.pickled:
            import cloudpickle  # type: ignore[import-untyped]  # noqa: PLC0415

            for kind, name, item in cloudpickle.loads(self.pickled):
                # Unpickling the item has imported the module of its registry.
                (registry,) = (registry for registry in all_registries() if registry.kind == kind)
                registry.put(name, item)
        system = get_system(self.system)
        self._check(system)
        return system

    def _check(self, system: System) -> None:
        here = {used.label: used for used in always_used(system)}
        differing = [f"{label} is missing" for label in self.used.keys() - here.keys()]
        differing += [f"{label} is only there" for label in here.keys() - self.used.keys()]
        for label in here.keys() & self.used.keys():
            if self.used[label] is not None and here[label].content.checksum != self.used[label]:
                differing.append(f"{label} is another")
        if system.version != self.version:
            differing.append(f"the system is of version {system.version}, not {self.version}")
        if differing:
            raise SweepError(
                f"the worker runs other code than the driver: {'; '.join(sorted(differing))}",
                hint="install the same packages on every machine, and start Python again after an edit",
            )


class SweepCode:
    """The code of users that the cells of a search space need.

    Parameters
    ----------
    space
        The search space; its plug-ins are loaded.
    system
        What it searches.
    """

    def __init__(self, space: SearchSpace, system: System) -> None:
        self._system = system
        self._always = always_used(system)
        # Every word that a parameter of the space's cells may have.
        defaults = [
            parameter.get_default(call_default_factory=True, validated_data={})
            for parameter in system.Parameters.model_fields.values()
        ]
        dimensions = [dimension.model_dump(mode="json") for dimension in space.dimensions.values()]
        stated = [space.fixed, space.workloads, space.baseline, dimensions, defaults]
        self._used = with_named(self._always, words_of(stated))
        named = (loaded_plugin((space.base or Path.cwd()) / path) for path in space.plugins)
        used = (plugin_of(code.definition.module) for code in self._used)
        self._plugins = {plugin.path: plugin for plugin in (*named, *used) if plugin is not None}

    @cached_property
    def checksum(self) -> str:
        """Checksum of all of it."""
        parts = [plugin.checksum for plugin in self._plugins.values()]
        parts += [f"{code.label} {code.content.checksum}" for code in self._used]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def from_outside(self) -> bool:
        """True if some of it is from a file or a package: this program did not define it itself."""
        return bool(self._plugins) or not all(code.in_session for code in self._used)

    @cached_property
    def sent(self) -> SentCode:
        """Files that workers get.

        Raises
        ------
        SweepError
            If something is defined in this session and cannot be sent.
        """
        live = [code for code in self._used if code.in_session]
        rest = {code.definition.module for code in self._used if code not in live}
        installed = {module for module in rest if plugin_of(module) is None}
        return SentCode(
            system=self._system.name,
            version=self._system.version,
            plugins=tuple(self._plugins.values()),
            modules=tuple(sorted(installed)),
            pickled=_pickled(live),
            used={code.label: None if code in live else code.content.checksum for code in self._always},
            checksum=self.checksum,
        )


def _pickled(code: list[UserCode]) -> bytes:
    """Return what is registered in this session, as bytes that hold its source by value."""
    if not code:
        return b""
    import cloudpickle  # noqa: PLC0415

    # What these modules define is pickled by value: a worker may not have them.
    names = {module for one in code for module in one.content.modules} & sys.modules.keys()
    names -= {"__main__", *cloudpickle.list_registry_pickle_by_value()}
    items = [(one.registry.kind, one.name, one.registry[one.name]) for one in code]
    with contextlib.ExitStack() as registered:
        for name in sorted(names):
            cloudpickle.register_pickle_by_value(sys.modules[name])
            registered.callback(cloudpickle.unregister_pickle_by_value, sys.modules[name])
        for one, item in zip(code, items, strict=True):
            try:
                cloudpickle.dumps(item)
            except Exception as fault:
                place = one.definition.file or "this session"
                raise SweepError(
                    f"the {one.label} is defined in {place} and cannot be sent to the workers: {fault}",
                    hint="put it into a file of its own and name the file under `plugins`",
                ) from fault
        return bytes(cloudpickle.dumps(items))
