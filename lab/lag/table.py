"""Table of situations by rules: what each found, missed, and said for nothing, in Markdown. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from danube.model.lag.records import observations_of
from danube.model.lag.rules import in_order
from danube.model.lag.verdict import LagRule, LagStatus, LagVerdict
from lab.lag.course import Played
from lab.lag.judge import Look, Score, score_of
from lab.lag.rivals import RIVALS, samples_of
from lab.lag.truth import Phase

KNOWN_S = 20.0
_SAYS = {False: LagStatus.OK, True: LagStatus.WARN}


def table_of(played: Mapping[str, Played]) -> str:
    """A row for each situation, and the totals; what is judged is alarm or none, of our verdicts the cause, too."""
    scores = {name: _scores(one) for name, one in played.items()}
    rules = ["ours", *RIVALS]
    rows = [["situation", "truth at its end", *rules], ["---"] * (2 + len(rules))]
    for name, one in played.items():
        rows.append([name, _truth(one), *(_cell(scores[name][rule]) for rule in rules)])
    found = {rule: [each[rule] for each in scores.values()] for rule in rules}
    totals = {"precision": _precision, "recall": _recall, "longest delay": _delay, "flaps": _flaps}
    rows += [[f"**{title}**", "", *(f"**{of(found[rule])}**" for rule in rules)] for title, of in totals.items()]
    named = sum(not score_of(one.job, one.situation.truth).wrong for one in played.values())
    rows.append(["**status and cause right**", "", f"**{named} of {len(played)}**", *("" for _ in RIVALS)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _scores(played: Played) -> dict[str, Score]:
    phases = _of_alarms(played.situation.truth)
    scores = {"ours": score_of([_said(look, is_alarm=look.is_alarm) for look in played.job], phases)}
    (observations,) = observations_of(played.telemetry, played.began_ms + 10**9)[0].values()
    ordered = in_order(observations)
    known = [(look, samples_of(ordered, played.began_ms + round(look.at_s * 1_000))) for look in played.job]
    for name, rule in RIVALS.items():
        said = [_said(look, is_alarm=bool(samples) and rule(samples) is not LagStatus.OK) for look, samples in known]
        scores[name] = score_of(said, phases)
    return scores


def _said(look: Look, *, is_alarm: bool) -> Look:
    return Look(look.at_s, LagVerdict(status=_SAYS[is_alarm], rule=LagRule.LAG_FELL), look.observed_s)


def _of_alarms(phases: Sequence[Phase]) -> list[Phase]:
    """The same of alarms alone: one kind of trouble after another is one trouble."""
    found: list[Phase] = []
    if phases[0].is_trouble:  # the first look is too early to know
        found.append(Phase(begins_s=0.0, statuses=frozenset({LagStatus.OK})))
        late = replace(phases[0], begins_s=KNOWN_S, evidence_s=max(0.0, phases[0].evidence_s - KNOWN_S))
        phases = [late, *phases[1:]]
    for each in phases:
        if not found or found[-1].is_trouble != each.is_trouble:
            statuses = frozenset({_SAYS[each.is_trouble]})
            found.append(Phase(begins_s=each.begins_s, statuses=statuses, evidence_s=each.evidence_s))
    return found


def _truth(played: Played) -> str:
    last = played.situation.truth[-1]
    causes = " or ".join(sorted(each for each in last.causes if each is not None))
    return f"{'trouble' if last.is_trouble else 'well'}{f': {causes}' if last.is_trouble else ''}"


def _cell(score: Score) -> str:
    """Delay beyond the evidence, or how many looks it missed; false alarms; changes beyond those of the truth."""
    false, missed = score.alarms - score.right_alarms, score.troubled - score.found
    parts = []
    if score.troubled:
        told = "missed" if not score.found else f"{score.delay_s:g} s" if score.delay_s is not None else "found"
        parts.append(told if missed in {0, score.troubled} else f"{told}, {missed} of {score.troubled} missed")
    elif not false:
        parts.append("quiet")
    parts += [f"{count} {word}" for count, word in ((false, "false"), (score.flaps, "flaps")) if count]
    return ", ".join(parts)


def _precision(scores: Sequence[Score]) -> str:
    alarms = sum(each.alarms for each in scores)
    return f"{sum(each.right_alarms for each in scores) / max(1, alarms):.3f}"


def _recall(scores: Sequence[Score]) -> str:
    return f"{sum(each.found for each in scores) / max(1, sum(each.troubled for each in scores)):.3f}"


def _delay(scores: Sequence[Score]) -> str:
    return f"{max(each.delay_s or 0.0 for each in scores if each.found):g} s"


def _flaps(scores: Sequence[Score]) -> str:
    return str(sum(each.flaps for each in scores))
