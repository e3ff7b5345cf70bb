import inspect

import pytest

import maxent as mx
from catalogue import (
    ABSTRACT,
    DOMAINS,
    ENTROPIES,
    ESTIMATORS,
    FAMILIES,
    FEATURES,
    MADE_BY_SOLVING,
    MAPS,
    OTHERS,
    PATHS,
    POTENTIALS,
    SOLVERS,
    SPLITTERS,
)


def test_every_public_class_is_in_the_catalogue():
    listed = [*(e for e, _ in ENTROPIES), *POTENTIALS, *(d for d, _ in DOMAINS)]
    listed += [*SOLVERS, *MAPS, *FEATURES, *ESTIMATORS, *FAMILIES, *SPLITTERS, *OTHERS, *PATHS]
    names = {type(x).__name__ for x in listed}
    public = {n for n in mx.__all__ if inspect.isclass(getattr(mx, n))}
    assert public - names - ABSTRACT - MADE_BY_SOLVING == set()


@pytest.mark.parametrize("room", ["domains", "entropies", "potentials", "solvers", "structured"])
def test_every_class_of_a_room_is_public(room):
    module = getattr(mx, room)
    classes = {n for n in module.__all__ if inspect.isclass(getattr(module, n))}
    assert classes <= set(mx.__all__)


def test_every_public_name_has_a_docstring_and_an_example():
    for name in mx.__all__:
        thing = getattr(mx, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, name
            concrete = name not in ABSTRACT | MADE_BY_SOLVING and not issubclass(
                thing if inspect.isclass(thing) else object, mx.Solver
            )
            if concrete and name not in {"Youngized", "load", "save"}:
                assert ">>>" in thing.__doc__, f"{name} has no example"


def test_structured_domains_are_public_twice():
    import maxent.structured as structured

    for name in ("Chain", "Permutahedron", "Simplex", "KSubset"):
        assert getattr(structured, name) is getattr(mx, name)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'Sparsemax'"):
        _ = mx.Sparsemax
