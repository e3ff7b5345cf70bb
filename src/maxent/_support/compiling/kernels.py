"""``njit`` for the kernels, with a cache on the disk that cannot do harm.

A file that is cut short, changed, or left over from other code is compiled again; where nothing can
be written, kernels are compiled at every start. Either is said in a warning that names the folder.
Code counts as other code when a kernel that it calls has changed, which numba does not look at: two
versions of one kernel in a process would be mixed up. Of processes that need a kernel at one time
one compiles it, and the others wait for it.

Compiling is what a first call takes its time for, so kernels are compiled for few types, once for
all constants, and without what nobody calls.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import time
import warnings
from collections import Counter
from contextlib import contextmanager, suppress
from functools import cache as remembered
from functools import partial
from itertools import count
from operator import attrgetter
from pathlib import Path
from types import FunctionType

import numba
import numpy as np
from numba import types
from numba.core import sigutils
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from maxent._support import locks
from maxent._support.compiling import switches
from maxent._support.compiling.linking import linking
from maxent._support.compiling.shortcuts import shortcuts
from maxent._support.threads import num_threads

_code = attrgetter("_code")  # the number by which numba knows a type
_DIGEST = hashlib.sha256().digest_size
_PATIENCE = 120.0  # seconds for another process to compile a kernel; one that stands still has none
_PAUSE = 0.02
_TINY = 20_000  # steps that are over before a kernel is loaded
_LITTLE = 300_000  # steps that Python makes in the time in which a kernel is compiled
_FEW, _MUCH = 100_000, 2_000_000
_CALL = 50  # steps that a call takes as long as
_AT_ONCE = 50  # steps that numpy makes while Python makes one


def njit(*, cache, helper=False, **options):
    """``numba.njit`` with this cache; a ``helper`` is called by other kernels alone.

    So is a function whose name begins with _. Helpers are a part of what calls them: they have no
    entry for Python and no file of their own.
    """

    def compiled(function):
        inner = helper or function.__name__.startswith("_")
        # nobody calls kernels from C
        kernel = numba.njit(no_cfunc_wrapper=True, no_cpython_wrapper=inner, **options)(function)
        if kernel is function:  # NUMBA_DISABLE_JIT leaves plain functions
            return kernel
        _one_version_for_all_constants(kernel)
        if inner:
            _keep_from_python(kernel)
        elif cache:
            try:
                kept = _Cache(function)
            except RuntimeError:
                _warn("no folder can be written to: kernels are compiled at every start")
            else:
                vars(kernel)["_cache"] = kept
                _compile_in_one_process(kernel, kept)
        return kernel

    return compiled


def exact(kernel, work, calls=20):
    """A kernel, or the Python function that it is made of where all it has to do is little.

    For kernels whose answers are the same to the last bit either way: sums, products, quotients and
    comparisons in float64 without ``fastmath``, and whole numbers. So it does not matter which one
    runs: the kernel if it is at hand, else Python as long as that takes less than compiling.
    ``work`` is the number of steps of the loops in a call; Python makes a million in a second or
    two, and a ``twin`` in numpy many at once. ``calls`` are those to be expected: the default is
    for what a solver does again and again.
    """
    plain = not hasattr(kernel, "py_func")  # NUMBA_DISABLE_JIT
    if plain or kernel.overloads or not switches.spare_small_problems:
        return kernel
    other = _twins.get(kernel)
    if other is not None:
        work //= _AT_ONCE
    steps = _interpreted_steps[kernel] = _interpreted_steps[kernel] + _CALL + work
    if max(steps, calls * work) > _LITTLE or (steps > _TINY and _stored(kernel)):
        return kernel
    return _uncompiled(kernel)


def spared(kernel, size, work):
    """Whether numpy is to serve ``size`` numbers in place of a kernel of nearly the same answers.

    They differ in the last digits. Not if the kernel is at hand, and until the ``work`` of all such
    calls, in millionths of a second, comes to what compiling takes: no process takes more than
    that longer than with kernels alone.
    """
    plain = not hasattr(kernel, "py_func")
    if plain or kernel.overloads or not switches.spare_small_problems or size > _FEW:
        return False
    num_threads()  # a setting that no kernel could use is refused here as well
    steps = _interpreted_steps[kernel] = _interpreted_steps[kernel] + work
    return steps <= _MUCH and not (steps > _TINY and _stored(kernel))


def twin(kernel):
    """Declare a function of numpy that gives what a kernel gives, to the last bit."""

    def declared(function):
        _twins[kernel] = function
        return function

    return declared


def _uncompiled(kernel):
    """What runs in place of a kernel."""
    other = _twins.get(kernel)

    def run(*arguments):
        if other is not None:
            with np.errstate(all="ignore"):
                return other(*arguments)
        # with numbers of fewer digits Python's sums have fewer too
        if any(getattr(a, "dtype", None) == np.float32 for a in arguments):
            return kernel(*arguments)
        with np.errstate(all="ignore"):  # kernels overflow without a word
            return _interpreted(kernel)(*arguments)

    return run


_interpreted_steps = Counter()
_twins = {}


@remembered
def _stored(kernel):
    """Whether the cache held the kernel, for any types, when it was first asked for."""
    cache = vars(kernel).get("_cache")
    return isinstance(cache, _Cache) and cache.is_stored()


@remembered
def _interpreted(kernel):
    """The function of a kernel with those that it calls, none of them compiled."""
    function = kernel.py_func
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        if hasattr(names.get(name), "py_func"):
            names[name] = _interpreted(names[name])
    return FunctionType(function.__code__, names)


def _one_version_for_all_constants(kernel):
    """Compile ``f(x, 3)`` in another kernel as ``f(x, n)``: numba would compile it for each number.

    Where the number matters, the optimiser puts it in when it inlines the call.
    """
    template = kernel.get_call_template

    def general(args, kws):
        return template(
            tuple(map(types.unliteral, args)), {k: types.unliteral(a) for k, a in kws.items()}
        )

    vars(kernel)["get_call_template"] = general


def _keep_from_python(kernel):
    """A helper has no entry for Python; without a word, a call of it would end the process."""

    def keep(result):
        kernel.overloads[tuple(result.signature.args)] = result

    def refuse(*args, **kws):
        raise TypeError(f"{kernel.py_func.__qualname__} can be called by kernels alone: a helper")

    vars(kernel).update(add_overload=keep, _compile_for_args=refuse)


def _compile_in_one_process(kernel, cache):
    """Before compiling, tell of it once and take the lock of the kernel's file."""
    compile_now = kernel.compile

    def compile_once(signature):
        # numba's own lock comes first: threads would wait for each other's files otherwise
        with global_compiler_lock:
            args, _ = sigutils.normalize_signature(signature)
            if (writable := tuple(map(_writable, args))) != tuple(args):
                entry = compile_once(writable)
                Dispatcher._insert(kernel, list(map(_code, args)), entry)
                kernel.overloads[tuple(args)] = kernel.overloads[writable]
                return entry
            ready = partial(cache.holds, signature, kernel.targetctx)
            if tuple(args) in kernel.overloads or ready():
                return compile_now(signature)
            _tell(cache.cache_path)
            target = kernel.targetctx
            with cache.locked(ready), linking(target.codegen()), shortcuts(target):
                return compile_now(signature)  # which looks into the cache again

    vars(kernel)["compile"] = compile_once


def _writable(type_):
    """What a kernel is compiled for in place of an array that must not be changed.

    numba would compile it once more; kernels write to nothing but the arrays that we make for it.
    """
    if isinstance(type_, types.Array) and not type_.mutable:
        return type_.copy(readonly=False)
    return type_


def _tell(folder):
    listener, switches.before_compiling = switches.before_compiling, None
    if listener is not None:
        listener(folder)


class _Cache(FunctionCache):
    def __init__(self, function):
        super().__init__(function)
        stamp = _stamp(Path(function.__code__.co_filename))
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, stamp)

    def is_stored(self):
        """Whether there is a kernel of any types."""
        return bool(self._cache_file._load_index())

    def holds(self, signature, target):
        """Whether a kernel of these types is there."""
        target.refresh()
        return self._index_key(signature, target.codegen()) in self._cache_file

    @contextmanager
    def locked(self, done):
        """Hold the lock of this kernel, where there is one to be had before it is ``done``."""
        path = Path(self._cache_path) / f"{self._impl.filename_base}.lock"
        descriptor = None
        with suppress(OSError):  # a folder that cannot be written to: everyone compiles
            self._impl.locator.ensure_cache_path()
            descriptor = self._wait_for(path, done)
        try:
            yield
        finally:
            if descriptor is not None:
                locks.release(descriptor, path)

    def _wait_for(self, path, done):
        end = time.monotonic() + _PATIENCE
        while (descriptor := locks.acquired(path, lambda: None)) is None:
            if done() or time.monotonic() > end:
                return None
            time.sleep(_PAUSE)
        return descriptor

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn(f"{self._cache_path} cannot be written to ({error.strerror})")


class _Files(IndexDataCacheFile):
    """Every file ends with a digest; data say which kernel, types and source they were made for."""

    def __init__(self, *place):
        super().__init__(*place)
        self._version += " sealed"  # an index of another kind is passed over without a word

    def __contains__(self, key):
        return key in self._load_index()

    def save(self, key, data):
        # the data first: whoever finds them in the index finds them whole. Of two processes that
        # write at a time without a lock, one may have the index and the other the data
        index = self._load_index()
        taken = set(index.values())
        names = (self._data_name(number) for number in count(1))
        name = index.get(key) or next(name for name in names if name not in taken)
        self._save_data(name, (key, self._source_stamp, data))
        self._save_index(index | {key: name})

    def load(self, key):
        try:
            stored = super().load(key)
            if stored is None:
                return None
            stored_key, stamp, data = stored
            _check((stored_key, stamp) == (key, self._source_stamp))
        except Exception:  # whatever unpickling says of bytes that are not its own
            self._discard()
            return None
        return data

    def _load_index(self):
        try:
            with suppress(FileNotFoundError), open(self._index_path, "rb") as file:
                if pickle.load(file) == self._version:
                    _unsealed(file.read())
            return super()._load_index()
        except Exception:
            self._discard()
            return {}

    def _load_data(self, name):
        return pickle.loads(_unsealed(Path(self._data_path(name)).read_bytes()))

    def _dump(self, obj):
        data = super()._dump(obj)
        return data + hashlib.sha256(data).digest()

    def _discard(self):
        _warn(f"a damaged file in {self._cache_path} is replaced")
        with suppress(OSError):
            Path(self._index_path).unlink()


_ROOT = Path(__file__).parents[2]
_IMPORTED = re.compile(
    r"^from maxent\.((?:[\w.]+\.)?kernels\.\w+|_support\.compiling\.\w+) import", re.MULTILINE
)


def _stamp(path):
    """A digest of a file of kernels and of all that it imports from."""
    texts, waiting = {}, [path]
    while waiting:
        file = waiting.pop()
        if file in texts:
            continue
        texts[file] = b""
        with suppress(OSError):  # no sources were installed: numba has found them wanting before
            texts[file] = _text(file, file.stat().st_mtime_ns)
        names = _IMPORTED.findall(texts[file].decode())
        waiting += [(_ROOT / name.replace(".", "/")).with_suffix(".py") for name in names]
    digest = hashlib.sha256()
    for file in sorted(texts):
        digest.update(file.name.encode() + b"\0" + texts[file] + b"\0")
    return digest.hexdigest()


@remembered
def _text(file, changed):
    return file.read_bytes()


def _unsealed(stored):
    data, digest = stored[:-_DIGEST], stored[-_DIGEST:]
    _check(hashlib.sha256(data).digest() == digest)
    return data


def _check(right):
    if not right:
        raise ValueError("not what was written")


def _warn(what):
    warnings.warn(
        f"kernel cache: {what}; set NUMBA_CACHE_DIR to keep compiled kernels elsewhere",
        stacklevel=3,
    )
