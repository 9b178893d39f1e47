"""Charts of a balance: what a broker shows, and pictures that no name breaks out of."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from danube.admin.charts.balance import balance_chart, judged, judged_number, plan_chart
from danube.admin.charts.balance_svg import balance_svg, plan_svg
from danube.admin.charts.chart import scale_of
from danube.admin.operations.cluster.balance import BalanceResult, balance_result
from danube.admin.operations.cluster.balance_views import figures_view, plan_of
from danube.model.calls.balance import BalanceFigures, BrokerPlaceState, RebalancePreview
from tests.faces.memory_gateway import HOSTILE
from tests.faces.skewed import skewed_balance, skewed_preview

SVG = "{http://www.w3.org/2000/svg}"


def shown() -> BalanceResult:
    return balance_result(skewed_balance())


def test_each_broker_shows_score_resources_and_cause() -> None:
    busy, *_, silent = balance_chart(shown()).brokers
    assert (busy.status, busy.tone, busy.topics) == ("overloaded", "warning", "5 topics")
    assert [bar.label for bar in busy.resources] == ["CPU", "Memory", "Disk", "Network", "Messages"]
    assert [bar.text for bar in busy.resources] == ["88 %", "25 %", "19 %", "27 %", "27.2k/s"]
    assert busy.cause == "CPU 88 %, of which /default/clicks 35 %"
    assert silent.status == "not known"
    assert "48 s old" in silent.cause


def test_load_that_is_not_known_is_never_drawn_as_zero() -> None:
    silent = balance_chart(shown()).brokers[-1]
    assert {bar.share for bar in (silent.score, *silent.resources)} == {None}
    assert {bar.text for bar in (silent.score, *silent.resources)} == {"-"}


@pytest.mark.parametrize(
    ("cv", "band", "tone"),
    [
        (0.1, "well balanced", "ok"),
        (0.25, "balanced", "ok"),
        (0.35, "imbalanced", "warning"),
        (0.9, "severely imbalanced", "error"),
    ],
)
def test_the_band_of_an_imbalance_gives_its_tone(cv: float, band: str, tone: str) -> None:
    assert judged(figures_view(BalanceFigures(cv=cv, band=band))) == judged_number(cv)
    assert judged_number(cv).tone == tone


def test_a_band_of_another_version_is_shown_without_a_tone() -> None:
    assert judged(figures_view(BalanceFigures(cv=0.5, band="wobbly"))).text == "0.50 wobbly"


def test_an_axis_ends_at_the_next_round_number() -> None:
    scales = [scale_of(scores) for scores in ([], [0.0], [0.8], [1.2], [4.0], [12.0], [40.0], [88.0], [240.0])]
    assert scales == [100, 100, 1, 2.5, 5, 25, 50, 100, 250]


def test_before_and_after_of_a_plan_share_one_scale() -> None:
    preview = skewed_preview()
    chart = plan_chart(plan_of(preview))
    first = chart.brokers[0]
    assert (first.before.text, first.after.text, first.topics) == ("88", "33", "5 → 3 topics")
    assert first.before.share == preview.brokers[0].score_before / chart.scale
    assert first.after.share == preview.brokers[0].score_after / chart.scale


def test_pictures_are_well_formed_and_say_in_words_what_they_show() -> None:
    for svg, words in (
        (balance_svg(balance_chart(shown())), "0.98 severely imbalanced"),
        (plan_svg(plan_chart(plan_of(skewed_preview()))), "0.07 well balanced"),
    ):
        root = ET.fromstring(svg)
        assert words in (root.findtext(f"{SVG}title") or "")
        assert root.get("role") == "img"


def test_no_name_breaks_out_of_a_picture() -> None:
    balance = skewed_balance()
    brokers = tuple(replace(each, broker_id=HOSTILE, cause=HOSTILE, note=HOSTILE) for each in balance.brokers)
    root = ET.fromstring(balance_svg(balance_chart(balance_result(replace(balance, brokers=brokers)))))
    assert {each.tag for each in root.iter()} <= {f"{SVG}{name}" for name in ("svg", "title", "text", "rect", "line")}
    assert "\x1b" not in "".join(root.itertext())


def test_absurd_numbers_and_no_brokers_are_drawn_all_the_same() -> None:
    balance = skewed_balance()
    absurd = tuple(replace(each, score=float("inf"), messages_in_per_s=float("nan")) for each in balance.brokers)
    missing = tuple(replace(each, state=BrokerPlaceState.MISSING) for each in balance.brokers)
    for brokers in ((), absurd, missing):
        result = balance_result(replace(balance, brokers=brokers))
        ET.fromstring(balance_svg(balance_chart(result)))
    none = BalanceFigures()
    empty = RebalancePreview(
        verdict="alone", summary="", strategy="fair", target_cv=0.2, made_ms=0, before=none, after=none
    )
    ET.fromstring(plan_svg(plan_chart(plan_of(empty))))
