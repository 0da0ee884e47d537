# SPDX-License-Identifier: MIT
"""Tells when a framework has been imported, and changes nothing about how it is.

A finder at the head of sys.meta_path looks at names only. For a watched one it asks the other finders as importlib would, and
puts a function before `exec_module` of the loader that they gave, which takes itself away again when it runs: the module has
the loader, the spec and the file that it would have. What is then done with the module is in `_kedge_<framework>.py`, which is
not read before; all that goes wrong in it stays there.
"""
import sys

# The modules that are waited for, and who is told.
WATCHED = {"torch": "_kedge_torch", "paddle": "_kedge_paddle"}


class Finder:
    """Finds nothing by itself. `watched`: module name -> function(module), called once, after the module has run."""

    def __init__(self, watched):
        self.watched = watched
        self.asking = set()

    def find_spec(self, name, path=None, target=None):
        if name not in self.watched or name in self.asking:
            return None
        self.asking.add(name)
        try:
            return self.prepared(self.spec_of(name, path, target))
        except Exception:  # importlib asks the others itself, and they say it again
            return None
        finally:
            self.asking.discard(name)

    def spec_of(self, name, path, target):
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                return spec
        return None

    def prepared(self, spec):
        if spec is None or spec.loader is None:
            return spec
        loader = spec.loader
        execute = loader.exec_module

        def exec_module(module):
            del loader.exec_module
            execute(module)
            if module.__name__ == spec.name:
                self.tell(spec.name, module)

        loader.exec_module = exec_module
        return spec

    def tell(self, name, module):
        told = self.watched.pop(name, None)
        try:
            if told:
                told(module)
            if not self.watched:
                sys.meta_path.remove(self)
        except Exception:
            pass


def part(here, name):
    """A module of this folder, which is on no path any more."""
    from importlib.util import module_from_spec, spec_from_file_location

    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, here + "/" + name + ".py")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def watch(here):
    """Once, from sitecustomize."""

    def teller(told):
        return lambda module: part(here, told).imported(module, finder, part(here, "_kedge_story"))

    finder = Finder({name: teller(told) for name, told in WATCHED.items()})
    sys.meta_path.insert(0, finder)
