"""Formulas of docstrings: written as one would type them, `sum_j w_j^2 <= 1`, typeset on pages."""

from __future__ import annotations

import re
from string import ascii_letters

FORMULA = re.compile(r"`([^`]+)`")  # outside of ``literals`` and roles

_GREEK = (
    "alpha beta gamma delta epsilon eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi "
    "omega Gamma Delta Theta Lambda Pi Sigma Phi Psi Omega"
)
_FUNCTIONS = "log ln exp max min sup sum prod tanh cosh det arg"
_NAMES = {
    **{name: f"\\{name}" for name in f"{_GREEK} {_FUNCTIONS}".split()},
    "lam": r"\lambda",
    "argmax": r"\operatorname{argmax}",
    "argmin": r"\operatorname{argmin}",
    "integral": r"\int",
    "in": r"\in",
    "inf": r"\infty",
}
_SIGNS = {
    "<=": r"\leq ",
    ">=": r"\geq ",
    "!=": r"\neq ",
    "->": r"\to ",
    "<-": r"\leftarrow ",
    "...": r"\ldots ",
    "||": r"\|",
    "{": r"\{",
    "}": r"\}",
    "~": r"\sim ",
    ".": r"\cdot ",
    "%": r"\%",
}
_SPACED = {"|": r"\mid ", "||": r"\,\|\,", "*": r"\cdot ", "(x)": r"\otimes "}
_NORMS = ("l1", "l2")
_CLOSING = {"(": (")", "]"), "[": ("]", ")"), "{": ("}",)}  # intervals may be half open
_TOKEN = re.compile(
    r"\s+"
    r"|\d+(?:\.\d+|(?:,\d{3})+)?"
    r"|[A-Za-z]+\d*"
    r"|<=|>=|!=|->|<-(?= )|\.\.\.|\(x\)|\|\|"
    r"|[-+*/=<>|(){}\[\],.:;^_'~!%]"
)


class FormulaError(ValueError):
    """A sign or a bracket that the translation does not know."""


def to_tex(formula: str) -> str:
    """The TeX of a formula in the plain notation of docstrings.

    Names of Greek letters and functions, ``_`` and ``^`` with one name, number or bracket, ``V*``
    for a conjugate, ``w_hat``, ``pi~``, ``sqrt(x)``, ``<w, f>``, ``||w||``, ``<=``, ``{...}``;
    other words stand upright.
    """
    return _Reader(formula).read_to(("",))[0]


class _Reader:
    """The tokens of one formula, and how many of them have been read."""

    def __init__(self, formula: str) -> None:
        self.formula = " ".join(formula.split())
        self.tokens = _TOKEN.findall(self.formula)
        self.read = 0
        if "".join(self.tokens) != self.formula:
            unknown = sorted(set(self.formula) - set("".join(self.tokens)))
            raise self._error(f"no sign {' '.join(unknown)}")

    def _error(self, what: str) -> FormulaError:
        return FormulaError(f"{what} in the formula `{self.formula}`")

    def _peek(self, ahead: int = 0) -> str:
        place = self.read + ahead
        return self.tokens[place] if 0 <= place < len(self.tokens) else ""

    def _take(self) -> str:
        self.read += 1
        return self.tokens[self.read - 1]

    def read_to(self, ends: tuple[str, ...]) -> tuple[str, str]:
        """All up to a closing bracket or to the end, and which it was."""
        parts = []
        while (following := self._peek()) not in ends:
            if not following or following in (")", "]", "}"):
                raise self._error(f"{following or 'the end'} where {ends[0] or 'none'} belongs")
            parts.append(self._bracket() if following in _CLOSING else self._one())
        self.read += 1
        return "".join(parts).strip(), following

    def _one(self) -> str:
        """The next token, with what belongs to it."""
        token = self._take()
        if token.isspace():
            return " "
        if token[0].isdigit():
            return self._number(token)
        if token[0].isalpha():
            return self._name(token)
        if token in "^_":
            return f"{token}{{{self._script(token)}}}"
        space_before, space_after = self._peek(-2).isspace(), self._peek().isspace()
        if token in _SPACED and space_before and space_after:
            return _SPACED[token]
        if token == "*":  # of a conjugate or an optimum, V* and w*
            return "^{*}"
        if token == "<" and not space_after:
            return r"\langle "
        if token == ">" and not space_before:
            return r"\rangle "
        return _SIGNS.get(token, token)

    def _bracket(self) -> str:
        begin = self._take()
        inside, end = self.read_to(_CLOSING[begin])
        return f"{_SIGNS.get(begin, begin)}{inside}{_SIGNS.get(end, end)}"

    def _inside(self) -> str:
        """What a bracket holds, where TeX groups it without one."""
        return self.read_to(_CLOSING[self._take()])[0]

    def _number(self, token: str) -> str:
        alone = self._peek(-2) not in ("/", ")", "]", "^", "_")
        if alone and self._peek() == "/" and self._peek(1).isdigit():
            self._take()
            return rf"\frac{{{token}}}{{{self._take()}}}"
        return token.replace(",", "{,}")

    def _name(self, token: str) -> str:
        letters = token.rstrip("0123456789")
        if token == "sqrt":
            return rf"\sqrt{{{self._operand()}}}"
        if letters == "inf" and self._peek() == "_":  # of a function, not infinity
            tex = r"\inf"
        elif letters in _NAMES:
            tex = _NAMES[letters]
        else:
            tex = (
                self._word(letters) if len(letters) > 1 else r"\ell" if token in _NORMS else letters
            )
        if self._peek() == "~":
            self._take()
            tex = rf"\tilde{{{tex}}}"
        elif self._peek() == "_" and self._peek(1) == "hat":
            self.read += 2
            tex = rf"\hat{{{tex}}}"
        if token != letters:
            tex += f"_{{{self._number_below(token[len(letters) :])}}}"
        return f"{tex} " if tex.startswith("\\") and tex[-1].isalpha() else tex

    def _number_below(self, digits: str) -> str:
        """The 1 of l1, and with it the j of l1_j."""
        if self._peek() != "_":
            return digits
        self._take()
        return f"{digits},{self._script('_')}"

    def _word(self, letters: str) -> str:
        """An upright word, with the spaces beside it that mathematics would leave out."""
        before, after = self._peek(-3), self._peek(1)
        known = after in _NAMES or after in ascii_letters  # another word adds its own
        left = self._peek(-2).isspace() and (before[-1:].isalnum() or before in (")", "]"))
        right = self._peek().isspace() and known
        return rf"\,\mathrm{{{letters}}}\,"[0 if left else 2 : None if right else -2]

    def _script(self, sign: str) -> str:
        """What stands above or below: one name or number with its sign, or a bracket."""
        token = self._peek()
        if token == "{" or (token == "(" and sign == "^"):
            return self._inside()
        if token == "(":
            return self._bracket()
        if token in ("-", "+", "*"):
            self._take()
            return token + (self._one().strip() if self._peek()[:1].isalnum() else "")
        if not token[:1].isalnum():
            raise self._error(f"nothing behind {sign}")
        return self._one().strip()

    def _operand(self) -> str:
        """What a root is of: a bracket, or one name or number with its script."""
        if self._peek().isspace():
            self._take()
        if self._peek() == "(":
            return self._inside()
        tex = self._one()
        while self._peek() in ("^", "_"):
            tex += self._one()
        return tex.strip()
