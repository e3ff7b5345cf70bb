"""What numba works out again and again while it compiles, worked out once.

Most of the time in which a kernel is compiled is numba's own Python. It tries some thirty meanings
of each + and each x[i], at every place and several times there; compares all options of a function
to find that they are the same; tells of every call of LLVM; and makes entries for C of functions
that C never calls. None of that changes the code of a kernel. These are parts of numba that are not
public: where a version has others, its own way is taken, which only takes longer.
"""

from __future__ import annotations

import inspect
import operator
from contextlib import ExitStack, contextmanager

from llvmlite.binding import ffi
from numba.core import event
from numba.core.targetconfig import TargetConfig
from numba.core.types.functions import BaseFunction

_OPERATORS = {f for f in vars(operator).values() if inspect.isbuiltin(f)}
_PARAMETERS = ["self", "context", "args", "kws"]
_meanings = {}
_values = operator.attrgetter("_values")  # options that were set


@contextmanager
def shortcuts(target):
    """Within, ``target`` compiles this way; the caller holds the compiler's lock."""
    with ExitStack() as changes:
        for change in (_operators, _options, _events):
            changes.enter_context(change())
        if hasattr(target, "create_cfunc_wrapper"):
            changes.enter_context(_changed(target, "create_cfunc_wrapper", lambda *given: None))
        yield


@contextmanager
def _changed(place, name, value):
    own, before = name in vars(place), getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        if own:
            setattr(place, name, before)
        else:
            delattr(place, name)


@contextmanager
def _operators():
    """An operator means the same for the same types wherever it stands.

    Unless its meaning is a function of Python's that was compiled for it, with the options of the
    function around: numba knows those by another key than the operator itself.
    """
    plain = getattr(BaseFunction, "get_call_type", None)
    if plain is None or [*inspect.signature(plain).parameters] != _PARAMETERS:
        yield
        return

    def found(self, context, args, kws):
        key = (self, context, args)
        if kws or not isinstance(args, tuple) or self.typing_key not in _OPERATORS:
            return plain(self, context, args, kws)
        meaning = _meanings.get(key)
        if meaning is None:
            meaning = plain(self, context, args, kws)
            builtin = self._impl_keys.get(meaning.args) is self.typing_key
            if builtin and all(type_.is_precise() for type_ in args):
                _meanings[key] = meaning
        return meaning

    with _changed(BaseFunction, "get_call_type", found):
        yield


@contextmanager
def _options():
    """Options that were set alike are alike; where that is not so, all of them are compared."""
    compared = TargetConfig.__eq__
    hashes = {}

    def alike(self, other):
        return (type(self) is type(other) and _values(self) == _values(other)) or compared(
            self, other
        )

    def hashed(self):
        # numba's own hash is of the names alone
        kind = type(self)
        if kind not in hashes:
            hashes[kind] = hash(tuple(sorted(kind.options)))
        return hashes[kind]

    with ExitStack() as changes:
        if hasattr(TargetConfig(), "_values"):
            changes.enter_context(_changed(TargetConfig, "__eq__", alike))
            changes.enter_context(_changed(TargetConfig, "__hash__", hashed))
        yield


@contextmanager
def _events():
    """Calls of LLVM are told to nobody where nobody listens."""
    lock = getattr(ffi.lib, "_lock", None)
    if not hasattr(lock, "_cblist") or getattr(event, "_registered", {}).get("numba:llvm_lock"):
        yield
        return
    with _changed(lock, "_cblist", []):
        yield
