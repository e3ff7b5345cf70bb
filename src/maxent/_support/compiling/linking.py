"""Machine code for functions that Python calls, and for no others.

numba makes code of every function that it compiles, a helper of a kernel as well, and optimises it
there and again as a part of everything that calls it: in a kernel of several layers that is half of
the time. Here a function is linked into those that call it as it is, and optimised with the kernel
that Python calls. These are methods of numba that are not public: where a version has others, its
own way is taken, which only takes longer.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager

from numba.core.codegen import JITCodeLibrary
from numba.core.environment import lookup_environment

_METHODS = ("_optimize_final_module", "_finalize_final_module", "_ensure_finalized", "finalize")
_KNOWN = all(hasattr(JITCodeLibrary, name) for name in _METHODS)
_ENVIRONMENT = "_ZN08NumbaEnv"  # how numba names the globals that point to objects of Python


@contextmanager
def linking(codegen):
    """Within, libraries of ``codegen`` are made this way; the caller holds the compiler's lock."""
    if not (_KNOWN and hasattr(codegen, "_library_class")):
        yield
        return
    collects, outer = gc.isenabled(), "_library_class" in vars(codegen)
    gc.disable()  # a compiler makes many objects and little garbage: a tenth of the time
    vars(codegen)["_library_class"] = _Linked
    try:
        yield
    finally:
        if not outer:
            del vars(codegen)["_library_class"]  # the class has numba's own
        if collects:
            gc.enable()


class _Linked(JITCodeLibrary):
    _has_code = _links = False

    def finalize(self):
        """Link what the library calls; the rest of what numba does here waits."""
        self._links = True
        try:
            super().finalize()
        finally:
            self._links = False

    def _optimize_final_module(self):
        if not self._links:
            super()._optimize_final_module()

    def _finalize_final_module(self):
        if self._links:
            self._finalized = True
        else:  # code is being made, or loaded from the cache
            self._has_code = True
            super()._finalize_final_module()

    def get_pointer_to_function(self, name):
        """The address of an entry, for which code is made; 0 where there is none."""
        self._ensure_finalized()
        if not self._has_code:
            if not self._defines(name):
                return 0
            self._make_code()
        return super().get_pointer_to_function(name)

    def _defines(self, name):
        try:
            return not self._final_module.get_function(name).is_declaration
        except NameError:
            return False

    def _make_code(self):
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()
        for variable in self._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT) and not variable.is_declaration:
                environment = lookup_environment(variable.name)
                if environment is not None:
                    self._codegen.set_env(variable.name, environment)

    @property
    def codegen(self):
        """What sets the environment; without code there is nothing to be set."""
        return self._codegen if self._has_code else self

    def set_env(self, name, environment):
        """Nothing yet."""
