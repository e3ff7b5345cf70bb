"""Options made from the fields of dataclasses, so that names, defaults and help stand once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from maxent.species.fitting.options import GROUPS, Option, options_of


class Fields:
    """The fields of a dataclass as options: those named, or all that can be asked for.

    It marks a parameter, as in ``settings: Annotated[Callable[..., Settings], Fields(Settings)]``:
    the command gets a function that makes the dataclass from what was typed. ``changes`` replace
    parts of an option, by field, where a command needs other words.
    """

    def __init__(self, cls: type, *names: str, **changes: Mapping[str, Any]) -> None:
        known = options_of(cls)
        self.cls = cls
        self.options = {
            name: replace(known[name], **changes.get(name, {})) for name in names or known
        }

    def parameters(self) -> list[inspect.Parameter]:
        """One for each option, as typer reads them."""
        kinds = get_type_hints(self.cls)
        defaults = {f.name: f.default for f in fields(self.cls)}
        return [
            _parameter(name, asked, kinds[name], defaults[name])
            for name, asked in self.options.items()
        ]

    def maker(self, typed: Mapping[str, Any]) -> Callable[..., Any]:
        """A function that makes the dataclass: from what was typed and what it is given besides."""

        def make(*values: Any, **others: Any) -> Any:
            try:
                return self.cls(*values, **self._read(typed), **others)
            except ValueError as error:  # what it refuses is wrong usage
                name, _, rest = str(error).partition(" ")
                flag = self.options.get(name, Option("")).flag(name)
                raise typer.BadParameter(f"{flag} {rest}") from None

        return make

    def _read(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        """Values of fields; what was not given is left to its default."""
        values: dict[str, Any] = {}
        for name, asked in self.options.items():
            value = typed[_variable(name, asked)]
            if value is not None:
                value = tuple(value) if isinstance(value, list) else value
                values[name] = value if asked.read is None else asked.read(value)
        return values


def with_fields(command: Callable[..., None]) -> Callable[..., None]:
    """Let a parameter that is marked with :class:`Fields` stand for the options of its fields."""
    marked: dict[str, Fields] = {}
    parameters: list[inspect.Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        mark = next((part for part in get_args(hint)[1:] if isinstance(part, Fields)), None)
        if mark is None:
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=hint, kind=keyword))
        else:
            marked[parameter.name] = mark
            parameters += mark.parameters()

    parameters.sort(key=lambda parameter: GROUPS.index(_group(parameter)))

    @functools.wraps(command)
    def run(**typed: Any) -> None:
        makers = {name: mark.maker(typed) for name, mark in marked.items()}
        own = {name: value for name, value in typed.items() if name in hints}
        command(**own, **makers)

    expanded: Any = run
    expanded.asked = {
        _variable(name, asked): asked
        for mark in marked.values()
        for name, asked in mark.options.items()
    }
    expanded.__signature__ = inspect.Signature(parameters)
    expanded.__annotations__ = {p.name: p.annotation for p in parameters}
    return expanded


def asked_of(command: Callable[..., None]) -> dict[str, Option]:
    """What :func:`with_fields` made options of, by the names under which typer hands them over."""
    asked: dict[str, Option] = vars(command)["asked"]
    return asked


def given(context: typer.Context, name: str) -> bool:
    """Whether an option of the running command was typed, not left to its default."""
    source: Any = context.get_parameter_source(name)  # typer may bring a click of its own
    return source is not None and source.name == "COMMANDLINE"


def _parameter(name: str, asked: Option, kind: Any, default: Any) -> inspect.Parameter:
    flags = asked.flags
    if any(get_origin(part) is tuple for part in (kind, *get_args(kind))):  # it may be repeated
        kind, default = list[str] | None, None
    elif asked.read is not None:
        kind, default = str, str(default)
    elif kind is bool and not default and not flags:
        flags = (asked.flag(name),)  # without a --no-...
    shown = typer.Option(
        *flags, help=asked.help, rich_help_panel=asked.group, min=asked.least, max=asked.most
    )
    return inspect.Parameter(
        _variable(name, asked),
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, shown],
    )


def _group(parameter: inspect.Parameter) -> str | None:
    """The heading of an option, which typer keeps beside its type."""
    if parameter.annotation is typer.Context:
        return None
    group: str | None = get_args(parameter.annotation)[1].rich_help_panel
    return group


def _variable(name: str, asked: Option) -> str:
    """The name under which typer hands the option over."""
    return asked.flag(name).removeprefix("--").replace("-", "_")
