"""The loader: plugins run from the very bytes that were hashed, in fresh modules, and register their kinds.

Loading runs code: it is done only for what a person names (on the command line or in Python), never for what stands in
a study file, a store, a packed file or a model folder.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from pydantic.errors import PydanticSchemaGenerationError

from headstart.errors import BadInput, first_line, nearest
from headstart.kinds import SORTS
from headstart.models.kind import DEFAULT
from headstart.plugins.cells import cell_identity
from headstart.plugins.identity import Closure, Module, Plugin, changed_files, files_identity, plugin_identity
from headstart.plugins.kinds import PluginEntry, check_kind, kind_tables, own_entries, way_out
from headstart.spec import Spec

_loaded: dict[str, Plugin] = {}  # by the name of the root module: what `sys.modules` holds now
_known: dict[str, Plugin] = {}  # by digest: all that this process has loaded
_serving: dict[str, tuple[Module, Plugin]] = {}  # by the name of the module
_running: list[Plugin] = []  # those that are being loaded, the innermost last
_together: list[str] = []  # names of those that one call of `load_plugins` has loaded


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves the modules of loaded plugins from the bytes that were hashed."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        del path, target
        if fullname not in _serving:
            _refuse_unseen(fullname)
            return None
        module, _ = _serving[fullname]
        if module.path is None:
            return importlib.util.spec_from_loader(fullname, None, is_package=True)
        folder = [str(module.path.parent)] if module.is_package else None
        return importlib.util.spec_from_file_location(
            fullname, module.path, loader=self, submodule_search_locations=folder
        )

    def exec_module(self, module: ModuleType) -> None:
        source, _ = _serving[module.__name__]
        exec(compile(source.source, str(source.path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102


_finder = _Finder()


def _refuse_unseen(name: str) -> None:
    """Raises: ImportError where code of a plugin imports a module of one's own that no import statement names."""
    frame: FrameType | None = sys._getframe(2)
    # Whoever imports for it (importlib, pkgutil, pydoc, ...) stands between.
    while frame is not None and frame.f_globals.get("__name__", "") not in _serving:
        frame = frame.f_back
    if frame is not None:
        plugin = _serving[importer := frame.f_globals["__name__"]][1]
        if plugin.top and Closure(plugin.top.parent, "import", {plugin.name.partition(".")[0]: plugin.top}).read(name):
            raise ImportError(
                f"{importer} imports {name} in a way that its text does not show, or from a folder known only "
                f"once it runs, so that it is not in the plugin's identity; write `import {name}` in {plugin.file}, "
                "and put the module beside it or its folder on PYTHONPATH"
            )


def load_plugin(source: str | os.PathLike[str], option: str = "--plugin", classes: Sequence[str] = ()) -> Plugin:
    """Run a file or a module from the bytes that are hashed, unless just these run already; it registers its kinds.

    classes: of the root module, those to be registered besides.
    Raises: BadInput where it cannot be had, fails when it is run, or registers what it may not.
    """
    return _loaded_from(plugin_identity(source, option), option, classes)


def _loaded_from(plugin: Plugin, option: str, classes: Sequence[str], afresh: bool = False) -> Plugin:
    running = _loaded.get(plugin.name, plugin)
    same = (running.digest, running.top) == (plugin.digest, plugin.top) and plugin.name in _loaded
    if same and _is_served(running) and not afresh:
        plugin = running
    else:
        _execute(plugin, option)
    own = vars(sys.modules[plugin.name])
    for name in classes:
        if name not in own:
            raise BadInput(f"{option}: {plugin.name}: {nearest(name, [k for k in own if isinstance(own[k], type)])}")
        _register_class(own[name], plugin, option)
    plugin = replace(plugin, classes=tuple(dict.fromkeys((*plugin.classes, *classes))))
    _loaded[plugin.name] = _known[plugin.digest] = plugin
    return plugin


def _is_served(plugin: Plugin) -> bool:
    """Whether imports meet its modules: a plugin that was loaded later may have helpers of the same names."""
    return all(m.name in _serving and _serving[m.name][0].source == m.source for m in plugin.modules)


def load_plugins(sources: Iterable[str | os.PathLike[str]], option: str = "--plugin") -> tuple[Plugin, ...]:
    """Load several that are used together. FILE.py:Class and module:Class register a class that does not do so itself.

    What was loaded before is looked at again, too: in a notebook, an edit counts from the next study on.
    Raises: BadInput, besides what `load_plugin` raises, where two of them have a module or a kind of one name, or one
    registers nothing.
    """
    plugins: list[Plugin] = []
    _look_again()
    try:
        for item in [sources] if isinstance(sources, (str, os.PathLike)) else sources:
            if not isinstance(item, (str, os.PathLike)):
                raise BadInput(f"{option}: {item!r} is no name; give the path of a file or the name of a module")
            module, colon, name = os.fspath(item).rpartition(":")
            plugin = load_plugin(module, option, (name,)) if colon else load_plugin(item, option)
            _check_beside(plugin, plugins, option)
            plugins.append(plugin)
            _together.append(plugin.name)
    finally:
        _together.clear()
    return tuple(plugins)


def _look_again() -> None:
    """Load what has changed since it was loaded. What is gone or broken stays: a stage that uses it says so."""
    for plugin in list(_loaded.values()):
        with contextlib.suppress(BadInput):
            now = current_identity(plugin)
            if plugin.top is None:
                plugin.objects[0].source_digest = now.digest
                _loaded[now.name] = _known[now.digest] = now
            elif now.digest != plugin.digest:
                _loaded_from(now, "plugin", plugin.classes)


def _check_beside(plugin: Plugin, others: Iterable[Plugin], option: str) -> None:
    if not any(entry.plugin == plugin.name for _, _, entry in own_entries()):
        raise BadInput(
            f'{option}: {plugin.file} registers nothing; end it with headstart.register_mixer("my_name", MySpec), '
            "register_task, register_model, register_objective, register_optimizer or register_schedule"
        )
    sources = {module.name: module.source for other in others for module in other.modules}
    for module in plugin.modules:
        if sources.get(module.name, module.source) != module.source:
            raise BadInput(f"{option}: two plugins have a module {module.name!r}; give one of them another name")


def load_class(text: str, option: str, sort: str = "") -> str:
    """Register `module:Class` (or `FILE.py:Class`), of this sort (`mixer`, `task`, ...) where one is named; its kind.

    Raises: BadInput as `load_plugin` does, and where the class is of another sort.
    """
    module, _, name = text.rpartition(":")
    if not (module and name):
        raise BadInput(f"{option}: {text!r} is not of the form module:Class (for example my_{sort or 'task'}:MySpec)")
    plugin = load_plugin(module, option, (name,))
    cls = getattr(sys.modules[plugin.name], name)
    if sort and not issubclass(cls, base := kind_tables()[sort][1]):
        raise BadInput(f"{option}: {text} is not a subclass of {base.__name__}; {way_out(sort)}")
    return str(cls.model_fields["kind"].get_default())


def current_identity(plugin: Plugin) -> Plugin:
    """The same plugin as its files, or its cell, are now. Raises: BadInput as `plugin_identity` does."""
    return files_identity(plugin.name, plugin.top) if plugin.top else cell_identity(plugin.objects[0], "plugin")


def ready_plugin(plugin: Plugin, afresh: bool = False) -> Plugin:
    """See that what runs under this plugin's name is the plugin, and that its files, or its cell, are still it.

    afresh: load it again, whatever a notebook has set in its modules since.
    Raises: BadInput where they have another digest, or are gone.
    """
    way = "give the command again" if plugin.top is not None else "run its cell and this one again"
    try:
        now = current_identity(plugin)
    except BadInput as error:
        raise BadInput(f"{plugin.file} has changed since this run began ({error}); {way}") from None
    if now.digest != plugin.digest:
        raise BadInput(f"{changed_files(plugin, now)} changed since this run began; {way}")
    return plugin if plugin.top is None else _loaded_from(now, "--plugin", plugin.classes, afresh)


def load_copy(folder: Path, name: str, digest: str, classes: Sequence[str] = ()) -> Plugin:
    """Load a plugin, whose root is the module `name`, from a copy of its `sources` in a folder.

    Raises: BadInput, before any of it is run, where the copy has another digest.
    """
    head = name.partition(".")[0]
    top = folder / head if (folder / head).is_dir() else folder / f"{head}.py"
    plugin = files_identity(name, top)
    if plugin.digest != digest:
        text = f"its copy on another machine has the digest {plugin.digest}, not {digest}; keep its imports beside it"
        raise BadInput(f"--plugin: {plugin.file}: {text}")
    return _loaded_from(plugin, "--plugin", classes)


def _execute(plugin: Plugin, option: str) -> None:
    """Run the modules afresh. Raises: BadInput in words; nothing of the plugin stays then."""
    from headstart.models.seeding import torch_settings

    _forget(plugin.name)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    for module in plugin.modules:
        sys.modules.pop(module.name, None)
        _serving[module.name] = (module, plugin)
    _running.append(plugin)
    before = torch_settings()
    try:
        importlib.import_module(plugin.name)
        if changed := [name for name, value in torch_settings().items() if value != before[name]]:
            raise BadInput(
                f"{option}: {plugin.file} changes {changed[0]} when it is loaded, so that other kinds would give other "
                "numbers under their old identity; make a kind of your own that does so in its own code"
            )
    except (Exception, SystemExit) as error:
        at = place_of(error) or f"{plugin.file}: "
        _forget(plugin.name)
        if isinstance(error, BadInput):
            raise (error if plugin.file in str(error) else BadInput(f"{at}{error}")) from None
        if isinstance(error, ImportError):
            way = "; run from its folder or install it" if isinstance(error, ModuleNotFoundError) else ""
            raise BadInput(f"{option}: {plugin.file} cannot be imported: {error}{way}") from None
        if isinstance(error, SystemExit):
            raise BadInput(f"{option}: {at}ends the process; let a plugin register its kinds and do no more") from None
        if isinstance(error, PydanticSchemaGenerationError):
            what = first_line(error).partition(" for ")[2].partition(". ")[0]
            raise BadInput(
                f"{option}: {at}a field of this class is of the type {what}; give fields that a study file can hold "
                "(numbers, text, true or false, lists of these) and make the rest in build or load"
            ) from None
        raise BadInput(f"{option}: {at}{type(error).__name__}: {error}") from None
    finally:
        _running.pop()


def place_of(error: BaseException) -> str:
    """`my_net.py, line 18: ` where code of a plugin raised an error, or called what did; empty where none did."""
    files = {str(module.path): module.file for module, _ in _serving.values()}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    return f"{files[frames[-1].filename]}, line {frames[-1].lineno}: " if frames else ""


def _forget(name: str) -> None:
    """Take the kinds and the modules of the plugin of this name out of the process."""
    _loaded.pop(name, None)
    for sort, kind, entry in own_entries():
        if entry.plugin == name:
            del kind_tables()[sort][0][kind]
    for module, plugin in list(_serving.values()):
        if plugin.name == name:
            del _serving[module.name]
            sys.modules.pop(module.name, None)


def own_kinds(plugins: Iterable[Plugin], sort: str) -> list[str]:
    """Kinds of this sort (`mixer`, `task`, ...) that the plugins have registered."""
    names = {plugin.name for plugin in plugins}
    entries = own_entries() if names else []  # the tables import torch
    return [kind for own, kind, entry in entries if own == sort and entry.plugin in names]


def load_networks(sources: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Load files or modules of a person's own, as `load_plugins`; the kinds of whole models that they have registered
    and that are trained."""
    return own_networks(load_plugins(sources, "plugins"))


def own_networks(plugins: Iterable[Plugin]) -> tuple[str, ...]:
    """Kinds of whole models that the plugins have registered and that are trained."""
    models = SORTS["model"].entries if (kinds := own_kinds(plugins, "model")) else {}
    return tuple(kind for kind in kinds if getattr(models[kind].load(), "way", "") == "trained")


def _register_class(cls: Any, plugin: Plugin, option: str) -> None:
    """Enter a class in the table that its base says, under its own kind."""
    for sort, (_, base) in kind_tables().items():
        if isinstance(cls, type) and issubclass(cls, base):
            return _enter(sort, cls.model_fields["kind"].get_default(), cls, plugin, option)
    name = getattr(cls, "__name__", cls)
    bases = " or ".join(base.__name__ for _, base in kind_tables().values())
    raise BadInput(f"{option}: {name} is not a subclass of {bases}; derive it from one of them, as in the guides")


def register(sort: str, name: str, cls: type[Any]) -> None:
    """Enter a class under a kind's name; called by a plugin while it is loaded, or in a notebook.

    Raises: BadInput for a name that is taken, a class of another base or kind, or one whose source cannot be had.
    """
    option = f"register_{sort}"
    if not isinstance(cls, type):
        raise BadInput(f"{option}: {cls!r} is not a class; {way_out(sort)}")
    if _running:
        plugin = _running[-1]
        if cls.__module__ not in {module.name for module in plugin.modules}:
            raise BadInput(
                f"{option}: {cls.__qualname__} is defined in {cls.__module__}, which is not part of {plugin.file}; "
                "derive a class of your own from it there"
            )
        _enter(sort, name, cls, plugin, option)
    elif cls.__module__ == "__main__":
        plugin = cell_identity(cls, option)
        _enter(sort, name, cls, plugin, option)
        _loaded[plugin.name] = _known[plugin.digest] = plugin
    else:
        # Imported by Python, from what its caches hold: the module is loaded again, from the bytes that are hashed.
        file = getattr(sys.modules.get(cls.__module__), "__file__", None) or cls.__module__
        load_plugin(Path(file), option, (cls.__qualname__,))


def _enter(sort: str, name: str, cls: type[Any], plugin: Plugin, option: str) -> None:
    table = check_kind(sort, name, cls, option)
    line = table.get(name)
    if line is not None and not isinstance(line, PluginEntry):
        raise BadInput(f"{option}: {plugin.file}: {name!r} is a {sort} of headstart's own; give yours another name")
    path = f"{cls.__module__}:{cls.__qualname__}"
    if line is not None and line.plugin in _together and line.plugin != plugin.name:
        raise BadInput(f"{option}: {name!r} is registered by {line.path} and by {path}; give one of them another name")
    if line is not None and line.plugin != plugin.name:
        _forget(line.plugin)
    cls.source_digest = plugin.digest
    table[name] = PluginEntry(path, (cls.__doc__ or "").strip().partition("\n")[0], "a plugin", {}, cls, plugin.name)


def plugins_of(value: Any) -> tuple[Plugin, ...]:
    """Plugins whose classes a spec holds, also in its parents: each once."""
    out: dict[str, Plugin] = {}
    waiting = [value] if _known else []
    while waiting:
        item = waiting.pop()
        if isinstance(item, Spec):
            out |= {item.source_digest: _known[item.source_digest]} if item.source_digest in _known else {}
            waiting += [getattr(item, name) for name in type(item).model_fields]
        elif isinstance(item, (list, tuple, Mapping)):
            waiting += item.values() if isinstance(item, Mapping) else item
    return tuple(out.values())


def require_plugins(needed: Mapping[str, str], option: str, document: Any = None) -> tuple[Plugin, ...]:
    """The plugins that a study, a stage or a model needs (name -> digest), of those that are loaded; none is imported.

    document: what needs them, whose kinds a loaded plugin of another name may have registered.
    Raises: BadInput saying which plugin is missing, or whose code differs, and how it is named.
    """
    digests, text = {plugin.digest: plugin for plugin in _loaded.values()}, json.dumps(document, default=str)
    entries = own_entries() if _loaded else []  # the tables import torch
    others = [_loaded[entry.plugin] for _, kind, entry in entries if f'"kind": "{kind}"' in text]
    for name, digest in needed.items():
        other = _loaded.get(name) or next((p for p in others if p.digest not in needed.values()), None)
        if digest not in digests:
            why = f'and not loaded; name its file with --plugin {name}.py, or plugins=["{name}.py"] in Python'
            if other is not None:
                why = f"and {other.file} that is loaded has the digest {other.digest}: its code differs; name the "
                why += "file as it was with --plugin or plugins=[...]"
            raise BadInput(f"{option}: the plugin {name} (digest {digest}) is needed {why}")
    return tuple(digests[digest] for digest in needed.values())


def kinds_allowed(needed: Mapping[str, str], option: str, document: Any = None) -> dict[str, list[str]]:
    """`model` and `mixer` -> the kinds of networks that a file from elsewhere may name: those that come with headstart,
    and those of the plugins that it needs (name -> digest), which are loaded as they were.

    Raises: BadInput as `require_plugins`.
    """
    plugins = require_plugins(needed, option, document)
    mixers = [kind for kind, line in SORTS["mixer"].entries.items() if line.path.startswith("headstart.")]
    return {
        "model": [DEFAULT, *own_kinds(plugins, "model")],
        "mixer": [*mixers, *own_kinds(plugins, "mixer")],
    }
