"""Results of forms, kept until the browser that was redirected asks for them: a reload sends nothing again."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from danube.model.limits.faces import WEB_RESULT_TTL_S, WEB_RESULTS_MAX

R = TypeVar("R")
FIELD = "_result"


@dataclass(slots=True)
class Results(Generic[R]):
    """The newest results, each for the person who sent the form."""

    _kept: OrderedDict[str, tuple[str, float, R]] = field(default_factory=OrderedDict)

    def keep(self, who: str, result: R, now_s: float) -> str:
        """Keep a result; answers its name."""
        name = secrets.token_urlsafe(12)
        self._kept[name] = (who, now_s + WEB_RESULT_TTL_S, result)
        while len(self._kept) > WEB_RESULTS_MAX:
            self._kept.popitem(last=False)
        return name

    def find(self, name: str, who: str, now_s: float, *, once: bool = False) -> R | None:
        """The result of this name; None where there is none for this person any more. With `once` it is gone then."""
        owner, until_s, result = self._kept.get(name, ("", 0.0, None))
        if result is None or owner != who or now_s >= until_s:
            return None
        if once:
            del self._kept[name]
        return result
