"""The scores of a backtest as a table, in Markdown."""

from collections.abc import Iterable, Sequence

from danube.model.errors import InvalidRequestError
from spark_analytics.incidents.backtest import RULES, Score, all_kinds, backtest, totals
from spark_analytics.incidents.kinds import INCIDENTS


def backtest_table(kinds: Sequence[str] | None, seeds: Iterable[int]) -> str:
    """Precision and recall of each rule, by kind and over all. Raises InvalidRequestError for an unknown kind."""
    wanted = list(kinds or all_kinds())
    if unknown := [kind for kind in wanted if kind not in all_kinds()]:
        raise InvalidRequestError(f"there is no kind {unknown[0]!r}: there are {', '.join(all_kinds())}")
    scores = backtest(wanted, seeds)
    head = ["kind", *RULES, "cause named by ours"]
    rows = [[kind, *(_cell(kind, scores[rule, kind]) for rule in RULES), _named(kind, scores)] for kind in wanted]
    found = totals(scores)
    rows += [
        [f"**{title}**", *(f"**{getattr(found[rule], title):.3f}**" for rule in RULES), ""]
        for title in ("precision", "recall")
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def _cell(kind: str, score: Score) -> str:
    """Of incidents, how many were found; of other courses, how many false alerts there were."""
    if kind in INCIDENTS:
        false = f", {score.false} false" if score.false else ""
        return f"{score.found} of {score.found + score.missed}{false}"
    return f"{score.false} false"


def _named(kind: str, scores: dict[tuple[str, str], Score]) -> str:
    score = scores["ours", kind]
    return f"{score.named} of {score.found + score.missed}" if kind in INCIDENTS else ""
