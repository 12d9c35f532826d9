"""The laws that an error may follow as the number of examples grows.

Appendix figure 'Scaling of the Pareto frontier', which fits a power law, an exponential, a factorial and an iterated
factorial. The first two also come with an asymptote, the error that no number of examples removes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from paredown.errors import check_known

Array = NDArray[np.float64]


def _log_factorial(x: Array) -> Array:
    return np.asarray(gammaln(x + 1))


def _iterated_factorial(x: Array) -> Array:
    """Log of the product 1! 2! ... x!, linear between whole numbers."""
    whole = np.floor(x).astype(int)
    part = x - whole
    steps = np.concatenate([[0.0], np.cumsum(gammaln(np.arange(1, whole.max() + 3) + 1))])
    return steps[whole] * (1 - part) + steps[whole + 1] * part


@dataclass(frozen=True)
class Law:
    """error = a exp(-h(n)) + c, where h is `rate * coordinate(n)` or, for the factorials, `drop(rate * n)`."""

    name: str  # what it is called
    family: str  # laws that differ by the asymptote only share a family; a verdict is about families
    formula: str  # for people
    names: tuple[str, ...]  # of the parameters: amplitude, rate and, where there is one, asymptote
    coordinate: Callable[[Array], Any] | None = None  # what log error is a straight line of, without an asymptote
    drop: Callable[[Array], Array] | None = None  # h of the product, where no such coordinate exists

    @property
    def asymptote(self) -> bool:
        return len(self.names) == 3

    def predict(self, size: Array, amplitude: Any, rate: Any, asymptote: Any) -> Array:
        """Errors at the sizes; everything broadcasts."""
        if self.coordinate is not None:
            drop = rate * self.coordinate(size)
        else:
            assert self.drop is not None
            drop = self.drop(rate * size)
        return amplitude * np.exp(-drop) + asymptote


LAWS = {
    law.name: law
    for law in (
        Law("power", "power", "a n^-nu", ("a", "nu"), coordinate=np.log),
        Law("power with asymptote", "power", "a n^-nu + c", ("a", "nu", "c"), coordinate=np.log),
        Law("exponential", "exponential", "a exp(-b n)", ("a", "b"), coordinate=np.asarray),
        Law("exponential with asymptote", "exponential", "a exp(-b n) + c", ("a", "b", "c"), coordinate=np.asarray),
        Law("factorial", "factorial", "a / Gamma(b n + 1)", ("a", "b"), drop=_log_factorial),
        Law("iterated factorial", "iterated factorial", "a / (1! 2! ... (b n)!)", ("a", "b"), drop=_iterated_factorial),
    )
}


def find_law(name: str) -> Law:
    """The law of a name; an unknown one raises with the list."""
    check_known("law", name, LAWS)
    return LAWS[name]
