"""Saving and loading: one strict JSON file, written atomically, that executes nothing when read.

    {"format": "maxent", "version": 3, "maxent_version": "...", "digest": "sha256:...",
     "model": ...}

The digest is that of all else in the file, and does not depend on how the JSON is laid out. A
model is written as the arguments that make it again. Every JSON object inside ``model`` is one of
these, and everything else is a plain JSON value:

==============================================  ============================================
``{"class": name, "state": {...}}``             an instance of a registered class
``{"array": base64, "dtype", "shape"}``         little-endian numbers in C order; ``"layout":
                                                "F"`` where columns were contiguous in memory
``{"csc": [data, indices, indptr], "shape"}``   a scipy-sparse matrix
``{"scalar": base64, "dtype"}``                 a numpy scalar
``{"float": "nan" | "inf" | "-inf"}``           what JSON has no number for
``{"enum": [class, name]}``                     a member of a registered enumeration
``{"tuple": [...]}``, ``{"dict": [[k, v]]}``    containers that JSON does not know
==============================================  ============================================
"""

from __future__ import annotations

import base64
import dataclasses
import importlib
import inspect
import json
import math
import os
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from sys import modules
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

import maxent
from maxent._support import digest
from maxent._support.limits import IN_MEMORY, check_cells
from maxent._version import __version__

CONVERTED = {"converted": True}  # metadata of a field that takes more than its annotation says
LATER = {"later": True}  # of one that older files lack: there it has its default
FORMAT, VERSION = "maxent", 3  # 1 held every attribute of an estimator, 2 no digest; both are read
_COMPLETE = 3  # from this version on every field is written

State = Mapping[str, Any]
Class = TypeVar("Class", bound=type)


class _Entry(NamedTuple):
    cls: type
    get: Callable[[Any], State]
    make: Callable[[State], Any]


_REGISTRY: dict[str, _Entry] = {}
_ENUMS: dict[str, type[Enum]] = {}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model (an entropy, a Problem, a Solution, an estimator ...) to one JSON file.

    The file is replaced at the very end: whatever goes wrong, it is the old file or the new one.

    Parameters
    ----------
    model : object
        What to write.
    path : path
        The file.

    Examples
    --------
    >>> import tempfile, os.path
    >>> from maxent import Box, load
    >>> path = os.path.join(tempfile.mkdtemp(), "box.json")
    >>> save(Box([0.1, 0.2]), path)
    >>> load(path)
    Box(beta=array([0.1, 0.2]))
    """
    header = {"format": FORMAT, "version": VERSION, "maxent_version": __version__}
    content = {"model": _encode(model)}
    document = header | {digest.FIELD: digest.digest_of(header | content)} | content
    write_atomically(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())


def load(path: str | os.PathLike[str]) -> Any:
    """Read what :func:`save` wrote. Only registered classes are made; nothing is executed.

    A file whose content was changed since is refused by its digest. One without a digest, such as
    a file that was edited by hand, is read: then no field of it may be missing.

    Parameters
    ----------
    path : path
        The file.
    """
    try:
        document = json.loads(
            Path(path).read_bytes(), parse_constant=_refuse_constant, object_pairs_hook=_unique
        )
        _check_header(document)
        as_written = _check_digest(document)
        return _decode(document["model"], document["version"] >= _COMPLETE and not as_written)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"cannot load {os.fspath(path)!r}: it is not JSON, or cut short ({error}); give a file "
            "written by maxent.save"
        ) from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"cannot load {os.fspath(path)!r}: {reason}") from error


def as_text(model: Any) -> str:
    """What :func:`save` writes of a model, on one line."""
    return json.dumps(_encode(model), allow_nan=False)


def of_text(text: str) -> Any:
    """The model that :func:`as_text` wrote."""
    return _decode(json.loads(text))


def register(
    cls: Class,
    *,
    get: Callable[[Any], State] | None = None,
    make: Callable[[State], Any] | None = None,
) -> Class:
    """Let instances of a class be saved and loaded by the name of the class; a decorator.

    What is written is the first of these that there is: ``get(instance)``,
    ``instance.__getmodel__()``, the fields of a dataclass that its constructor takes. It is read by
    ``make(state)``, by ``__setmodel__(state)`` on an instance made without a constructor, or by the
    constructor. A class that cannot be saved says why in its attribute ``__unsaved__``, a string.

    Parameters
    ----------
    cls : type
        The class.
    get : callable, default None
        From an instance to what is written.
    make : callable, default None
        From what was written to an instance.
    """
    if issubclass(cls, Enum):
        _ENUMS[cls.__name__] = cls
        return cls
    known = _REGISTRY.get(cls.__name__)
    if known is not None and known.cls.__module__ != cls.__module__:
        raise ValueError(
            f"a class named {cls.__name__!r} is registered already, {known.cls!r}; rename yours"
        )
    whole = get is None and not hasattr(cls, "__getmodel__")  # all fields are written
    _REGISTRY[cls.__name__] = _Entry(cls, get or _writer(cls), make or _reader(cls, whole))
    return cls


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace a file in one step: a temporary file beside it, flushed to disk, then renamed."""
    target = os.path.realpath(path)  # through a link, so that the link itself stays
    if os.path.isdir(target):
        raise IsADirectoryError(f"{os.fspath(path)!r} is a folder; give the name of a file")
    if not os.path.isdir(os.path.dirname(target)):
        raise FileNotFoundError(
            f"cannot write {os.fspath(path)!r}: there is no folder {os.path.dirname(target)!r}; "
            "create it first"
        )
    temporary = f"{target}.{secrets.token_hex(4)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
    except BaseException:  # also Ctrl-C
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(os.path.dirname(target))


def _sync_directory(directory: str) -> None:
    """Make the rename itself durable, where the system can."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# -- writing -------------------------------------------------------------------------------------


def _encode(x: Any) -> Any:
    if isinstance(x, np.generic):  # first: some numpy scalars are Python ones as well
        return {"scalar": _base64(_portable(np.asarray(x))), "dtype": _dtype_name(x.dtype)}
    if x is None or isinstance(x, bool | int | str):
        return x
    if isinstance(x, float):
        return x if math.isfinite(x) else {"float": str(x)}
    if type(x) is list:
        return [_encode(item) for item in x]
    if type(x) is tuple:
        return {"tuple": [_encode(item) for item in x]}
    if type(x) is dict:
        return {"dict": [[_encode(key), _encode(value)] for key, value in x.items()]}
    if type(x) is np.ndarray:
        return _encode_array(x)
    if hasattr(x, "tocsc"):  # scipy is imported where a matrix of it is met
        from scipy import sparse

        columns = sparse.csc_array(x)
        parts = [_encode_array(part) for part in (columns.data, columns.indices, columns.indptr)]
        return {"csc": parts, "shape": [int(n) for n in columns.shape]}
    if isinstance(x, Enum) and _ENUMS.get(type(x).__name__) is type(x):
        return {"enum": [type(x).__name__, x.name]}
    entry = _REGISTRY.get(type(x).__name__)
    if entry is None or entry.cls is not type(x):
        raise TypeError(_why_not(x))
    return {
        "class": type(x).__name__,
        "state": {name: _encode(value) for name, value in entry.get(x).items()},
    }


def _why_not(x: Any) -> str:
    name = f"{type(x).__module__}.{type(x).__qualname__}"
    reason = getattr(type(x), "__unsaved__", None)
    if reason is not None:
        return f"{name} cannot be saved: {reason}"
    if callable(x) and not isinstance(x, type):
        return f"{name} cannot be saved: a model file holds numbers, never code"
    return (
        f"objects of type {name} cannot be saved; where the class is yours, make it known with "
        "maxent.io.register"
    )


def _encode_array(x: np.ndarray[Any, Any]) -> dict[str, Any]:
    tagged = {"array": _base64(_portable(x)), "dtype": _dtype_name(x.dtype), "shape": list(x.shape)}
    # the order in memory decides the order of sums in BLAS, hence the last bits of a fit
    if x.ndim > 1 and x.flags.f_contiguous and not x.flags.c_contiguous:
        tagged["layout"] = "F"
    return tagged


def _portable(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array in C order and little-endian."""
    return np.ascontiguousarray(x, dtype=np.dtype(_dtype_name(x.dtype)))


def _base64(x: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(x.tobytes()).decode("ascii")


_DTYPES = re.compile(r"[<|]([iu][1248]|f[248]|c8|c16|b1|[US][1-9][0-9]{0,8})")


def _dtype_name(dtype: np.dtype[Any]) -> str:
    name = dtype.newbyteorder("<").str
    if not _DTYPES.fullmatch(name):
        raise TypeError(
            f"arrays of dtype {dtype} cannot be saved; convert them to numbers, booleans or "
            "fixed-width strings first"
        )
    return name


# -- reading -------------------------------------------------------------------------------------


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it contains {name}, which is not JSON; write the file with maxent.save")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of the file, in which no name may stand twice: readers differ on which counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"found the name {twice!r} twice in one object; leave one of them")
    return found


def _check_digest(document: dict[str, Any]) -> bool:
    """Whether the document is shown to be as it was written; False where it has no digest."""
    if digest.FIELD not in document:
        return False
    if document[digest.FIELD] != digest.digest_of(document):
        raise ValueError(
            "its content does not match its digest: something in it was changed or damaged after "
            "it was written; save or copy it again, or, if you changed it on purpose, delete its "
            f'"{digest.FIELD}"'
        )
    return True


def _check_header(document: Any) -> None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        given = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise ValueError(
            f'found format {given!r}, expected a JSON object with "format": "{FORMAT}"; '
            "give a file written by maxent.save"
        )
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"found version {version!r}, expected an integer from 1 to {VERSION}")
    if version > VERSION:
        raise ValueError(
            f"found version {version}, written by maxent {document.get('maxent_version')!r}; this "
            f"is maxent {__version__}, which reads versions up to {VERSION}; upgrade with "
            "pip install -U maxent"
        )
    if "model" not in document:
        raise ValueError('found no "model"; the file is incomplete, save it again')


def _decode(x: Any, complete: bool = False) -> Any:
    """The value behind its JSON; ``complete`` asks for every field of every instance."""
    if isinstance(x, list):
        return [_decode(item, complete) for item in x]
    if not isinstance(x, dict):
        return x
    for tag, (names, reader) in _READERS.items():
        if tag in x:
            if not names - {"layout"} <= x.keys() <= names:
                raise _broken(f"{tag} with {sorted(x)}", f"exactly {sorted(names)}")
            return reader(x, complete)
    raise _broken(f"an object with {sorted(x)[:5]}", f"one of {', '.join(_READERS)}")


def _broken(found: str, expected: str) -> ValueError:
    return ValueError(f"found {found}, expected {expected}; the file is damaged, save it again")


def _list(x: Any, what: str, length: int | None = None) -> list[Any]:
    if not isinstance(x, list) or (length is not None and len(x) != length):
        count = "" if length is None else f" of {length} entries"
        raise _broken(f"{x!r:.60} in {what}", f"a list{count}")
    return x


def _decode_class(x: State, complete: bool) -> Any:
    name, state = str(x["class"]), x["state"]
    if name not in _REGISTRY:
        _import(name)
    entry = _REGISTRY.get(name)
    if entry is None:
        raise ValueError(
            f"found the class {name!r}, which this maxent {__version__} does not know; upgrade "
            "maxent, or register the class with maxent.io.register before loading"
        )
    if not isinstance(state, dict):
        raise _broken(f"{type(state).__name__} as the state of {name}", "an object")
    decoded = {key: _decode(value, complete) for key, value in state.items()}
    try:
        made = entry.make(decoded)
        missing = sorted(entry.get(made).keys() - state.keys()) if complete else []
    except Exception as error:  # a constructor may fail in any way on a wrong state
        reason = f"there is no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"the file describes an invalid {name}: {reason}") from error
    if missing:
        raise ValueError(
            f"the file describes an invalid {name}: {missing} missing; in a file without a digest "
            "nothing may be left out: add it, or save the model again"
        )
    return made


def _import(name: str) -> None:
    """Import the module of a public name, which registers its classes."""
    for package in (maxent, maxent.species, importlib.import_module("maxent.tagging")):
        if name in package.__all__:
            getattr(package, name)


def _dtype(name: Any) -> np.dtype[Any]:
    if not isinstance(name, str) or not _DTYPES.fullmatch(name):
        raise _broken(f"dtype {name!r}", "a plain little-endian one such as '<f8'")
    return np.dtype(name)


def _numbers(text: Any, dtype: np.dtype[Any], shape: list[Any]) -> np.ndarray[Any, Any]:
    if not all(type(n) is int and n >= 0 for n in shape):
        raise _broken(f"shape {shape!r:.60}", "non-negative integers")
    try:
        data = base64.b64decode(text, validate=True)
    except (TypeError, ValueError) as error:
        raise _broken("an array that is no base64", "base64 text") from error
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise _broken(
            f"an array of {len(data)} bytes", f"{expected} for shape {shape} of {dtype.str}"
        )
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _decode_array(x: State, complete: bool) -> np.ndarray[Any, Any]:
    array = _numbers(x["array"], _dtype(x["dtype"]), _list(x["shape"], "a shape"))
    layout = x.get("layout", "C")
    if layout not in ("C", "F"):
        raise _broken(f"layout {layout!r}", "'C' or 'F'")
    return np.asfortranarray(array) if layout == "F" else array


def _decode_scalar(x: State, complete: bool) -> Any:
    return _numbers(x["scalar"], _dtype(x["dtype"]), [])[()]


def _decode_sparse(x: State, complete: bool) -> Any:
    from scipy import sparse

    data, indices, indptr = (_decode(part, complete) for part in _list(x["csc"], "csc", 3))
    shape = tuple(_list(x["shape"], "a shape", 2))
    try:
        check_cells(max(shape), "a row or column of a sparse matrix", IN_MEMORY)
        matrix = sparse.csc_array((data, indices, indptr), shape=shape)
        matrix.check_format(full_check=True)  # indices out of range would read foreign memory
    except Exception as error:
        raise _broken(f"an invalid sparse matrix ({error})", "CSC parts") from error
    return matrix


def _decode_float(x: State, complete: bool) -> float:
    if x["float"] not in ("nan", "inf", "-inf"):
        raise _broken(f"float {x['float']!r}", "'nan', 'inf' or '-inf'")
    return float(x["float"])


def _decode_enum(x: State, complete: bool) -> Enum:
    name, member = (str(part) for part in _list(x["enum"], "enum", 2))
    if name not in _ENUMS:
        _import(name)
    kind = _ENUMS.get(name)
    if kind is None or member not in kind.__members__:
        raise _broken(f"the enumeration member {name!r}.{member!r}", f"one of {sorted(_ENUMS)}")
    return kind[member]


def _decode_dict(x: State, complete: bool) -> dict[Any, Any]:
    pairs = [_list(pair, "dict", 2) for pair in _list(x["dict"], "dict")]
    try:
        found = {_decode(key, complete): _decode(value, complete) for key, value in pairs}
    except TypeError as error:
        raise _broken(f"a dictionary key that cannot be one ({error})", "plain keys") from error
    if len(found) < len(pairs):
        raise _broken("a dictionary with a key that stands there twice", "each key once")
    return found


def _decode_tuple(x: State, complete: bool) -> tuple[Any, ...]:
    return tuple(_decode(item, complete) for item in _list(x["tuple"], "tuple"))


_READERS: dict[str, tuple[set[str], Callable[[State, bool], Any]]] = {
    "class": ({"class", "state"}, _decode_class),
    "array": ({"array", "dtype", "shape", "layout"}, _decode_array),
    "scalar": ({"scalar", "dtype"}, _decode_scalar),
    "csc": ({"csc", "shape"}, _decode_sparse),
    "float": ({"float"}, _decode_float),
    "enum": ({"enum"}, _decode_enum),
    "tuple": ({"tuple"}, _decode_tuple),
    "dict": ({"dict"}, _decode_dict),
}


# -- classes -------------------------------------------------------------------------------------


def _writer(cls: type) -> Callable[[Any], State]:
    """What instances of a class are written as."""
    if hasattr(cls, "__getmodel__"):
        return lambda instance: instance.__getmodel__()
    if not dataclasses.is_dataclass(cls):
        raise TypeError(
            f"{cls.__name__} is no dataclass: give it __getmodel__ and __setmodel__, or call "
            "register with get and make"
        )
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    return lambda instance: {name: getattr(instance, name) for name in names}


def _reader(cls: type, whole: bool) -> Callable[[State], Any]:
    """How instances of a class are made from what was written, ``whole`` or as it says itself."""
    return _revive(cls) if hasattr(cls, "__setmodel__") else _construct(cls, whole)


def _revive(cls: type) -> Callable[[State], Any]:
    def revive(state: State) -> Any:
        instance: Any = object.__new__(cls)
        instance.__setmodel__(state)
        return instance

    return revive


def _construct(cls: type, whole: bool) -> Callable[[State], Any]:
    arguments = inspect.signature(cls).parameters
    own = getattr(cls, "__dataclass_fields__", {})
    written = dataclasses.fields(cls) if whole else ()
    needed = [field.name for field in written if field.init and field.metadata != LATER]

    @cache  # when a file is read: modules that import one another are whole by then
    def hints() -> dict[str, Any]:
        # a field of a base class is annotated with names of that class's module
        names = {
            k: v for c in reversed(cls.__mro__) for k, v in vars(modules[c.__module__]).items()
        }
        known = get_type_hints(inspect.getattr_static(cls, "__init__"), localns=names)
        return {n: t for n, t in known.items() if n not in own or own[n].metadata != CONVERTED}

    def construct(state: State) -> Any:
        unknown = state.keys() - arguments.keys()
        if unknown:
            raise ValueError(f"unknown arguments {sorted(unknown)}, expected {sorted(arguments)}")
        lacking = [name for name in needed if name not in state]
        if lacking:
            raise ValueError(f"{lacking} missing, expected {sorted(arguments)}")
        for name, value in state.items():
            hint = hints().get(name, Any)
            if not _is_of(value, hint):
                said = hint.__name__ if isinstance(hint, type) else str(hint)
                raise TypeError(f"{name} must be of type {said}, got {value!r:.60}")
        return cls(**state)

    return construct


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a value is what an argument is annotated with; True where that is not known here."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(_is_of(value, part) for part in parts)
    if kind in (float, int):
        numbers = Real if kind is float else Integral
        return isinstance(value, numbers) and not isinstance(value, bool)
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is tuple and len(parts) == 2 and parts[1] is ...:
        return isinstance(value, tuple) and all(_is_of(item, parts[0]) for item in value)
    if kind is list:
        return isinstance(value, list) and all(_is_of(v, part) for v in value for part in parts)
    if kind is dict:
        of_key, of_item = parts or (Any, Any)
        return isinstance(value, dict) and all(
            _is_of(key, of_key) and _is_of(item, of_item) for key, item in value.items()
        )
    plain = kind in (str, np.ndarray, NoneType)
    if plain or (isinstance(kind, type) and kind.__module__.startswith("maxent")):
        return isinstance(value, kind)
    return True
