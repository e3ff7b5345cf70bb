"""Fields of a dataclass that a command asks for: help, flags and limits stand beside the default.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Walk:
...     pace: str = option("slow", "How fast.", choices=("slow", "brisk"))
...     def __post_init__(self):
...         check_options(self)
>>> options_of(Walk)["pace"].help
'How fast.'
>>> Walk("backwards")
Traceback (most recent call last):
ValueError: pace must be one of slow, brisk, got 'backwards'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

DATA, BACKGROUND, MODEL = "Records and layers", "Background and bias", "Model"
CHECKS, OUTPUT = "Evaluation", "Output"
ALWAYS, FOR_MAPS, NEVER = "always", "for maps", "never"  # when it has an effect with --swd
GROUPS = (None, DATA, BACKGROUND, MODEL, CHECKS, OUTPUT)  # in the order of help


@dataclass(frozen=True)
class Option:
    """How a field is asked for.

    Attributes
    ----------
    help : str
        One line.
    group : str or None
        The heading it stands under, None for no heading.
    flags : tuple of str
        The long one and the short one, where they are not made from the field's name.
    choices : tuple
        The values that are allowed.
    least : float or None
        The smallest one.
    most : float or None
        The largest value that can be typed.
    read : callable or None
        Makes a value from what was typed, where that is not the value itself.
    write : callable or None
        The words that are typed for a value, where they are not the value itself.
    with_swd : str
        When it has an effect on tables with data: ALWAYS, FOR_MAPS or NEVER.
    """

    help: str
    group: str | None = None
    flags: tuple[str, ...] = ()
    choices: tuple[Any, ...] = ()
    least: float | None = None
    most: float | None = None
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Iterable[str]] | None = None
    with_swd: str = NEVER

    def flag(self, name: str) -> str:
        """The long one, of the field of this name."""
        return self.flags[0] if self.flags else "--" + name.replace("_", "-")


def option(default: Any, help: str, group: str | None = None, *flags: str, **limits: Any) -> Any:
    """A field with a default that a command asks for; ``limits`` as in :class:`Option`."""
    return field(default=default, metadata={"option": Option(help, group, flags, **limits)})


def options_of(cls: type) -> dict[str, Option]:
    """The options of a dataclass, by field; other fields have none."""
    return {f.name: f.metadata["option"] for f in fields(cls) if "option" in f.metadata}


def check_options(instance: Any) -> None:
    """Refuse a value that is not among the choices of its field, or too small."""
    for name, asked in options_of(type(instance)).items():
        value = getattr(instance, name)
        if asked.choices and value not in asked.choices:
            words = ", ".join(str(choice) for choice in asked.choices if choice is not None)
            raise ValueError(f"{name} must be one of {words}, got {value!r}")
        if asked.least is not None and value < asked.least:
            raise ValueError(f"{name} must be at least {asked.least}, got {value!r}")


BLOCK_SIZES = ("layers", "residuals")


def check_block_size(size: str | None) -> None:
    """Refuse a size of blocks that is neither a distance nor a way to find one."""
    if size is None or size in BLOCK_SIZES:
        return
    try:
        km = float(size)
    except ValueError:
        km = 0.0
    if not 0 < km <= 20_000:
        raise ValueError(f"block_size must be km up to 20000, layers or residuals, got {size!r}")


def typed(instance: Any) -> list[str]:
    """The options that say the same on the command line; defaults are left out.

    >>> @dataclass(frozen=True)
    ... class Walk:
    ...     pace: str = option("slow", "How fast.")
    ...     dogs: tuple[str, ...] = option((), "With whom.", None, "--dog", "-d")
    ...     rain: bool = option(True, "Also in the rain.")
    >>> typed(Walk(dogs=("Rex", "Bo"), rain=False))
    ['-d', 'Rex', '-d', 'Bo', '--no-rain']
    """
    words: list[str] = []
    defaults = {f.name: f.default for f in fields(instance)}
    for name, asked in options_of(type(instance)).items():
        value = getattr(instance, name)
        if value == defaults[name]:
            continue
        flag = asked.flags[-1] if asked.flags else asked.flag(name)
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
            continue
        if asked.write is not None:
            shown = list(asked.write(value))
        else:
            shown = [_word(part) for part in (value if isinstance(value, tuple) else (value,))]
        words += [word for text in shown for word in (flag, text)]
    return words


def _word(value: Any) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)
