"""Forecasts of one series: a season is followed, gaps are no zeros, and a trend says when a limit is reached."""

import numpy as np

from spark_analytics.jobs.series import filled, forecast, holt_winters, mase, seasonal_naive, trend_of

HOURS = np.arange(24 * 14)
DAILY = 100 + 50 * np.sin(2 * np.pi * HOURS / 24)


def test_seasonal_naive_repeats_the_last_season() -> None:
    assert seasonal_naive(np.array([1.0, 2.0, 3.0, 4.0]), 2, 5).tolist() == [3.0, 4.0, 3.0, 4.0, 3.0]
    assert seasonal_naive(np.array([7.0]), 24, 2).tolist() == [7.0, 7.0]


def test_holt_winters_follows_season_and_trend() -> None:
    series = DAILY + 0.5 * HOURS
    ahead = 100 + 50 * np.sin(2 * np.pi * np.arange(336, 360) / 24) + 0.5 * np.arange(336, 360)
    assert np.abs(holt_winters(series, 24, 24) - ahead).mean() < 6
    assert np.abs(seasonal_naive(series, 24, 24) - ahead).mean() > 11


def test_the_better_model_is_chosen_and_its_interval_holds_the_truth() -> None:
    chance = np.random.default_rng(1)
    series = DAILY + 0.3 * HOURS + chance.normal(0, 4, len(HOURS))
    found = forecast(series[:-24], 24, 24)
    assert found.model == "Holt-Winters"
    assert found.mase is not None
    assert found.mase_seasonal_naive is not None
    assert found.mase < found.mase_seasonal_naive
    assert np.mean((found.low <= series[-24:]) & (series[-24:] <= found.high)) > 0.7


def test_short_constant_and_missing_series_give_a_forecast_without_made_up_errors() -> None:
    found = forecast(np.array([5.0, np.nan, 5.0]), 24, 3)
    assert (found.values.tolist(), found.mase) == ([5.0, 5.0, 5.0], None)
    assert forecast(np.array([2.0]), 24, 2).values.tolist() == [2.0, 2.0]
    assert filled(np.array([np.nan, 1.0, np.nan, 3.0])).tolist() == [1.0, 1.0, 2.0, 3.0]
    assert mase(np.array([]), np.array([]), np.array([1.0]), 1) is None


def test_a_trend_says_when_a_limit_is_reached_with_an_interval() -> None:
    trend = trend_of([0, 1, 2, 3], [0.1, 0.2, 0.3, 0.4])
    assert trend is not None
    assert [round(days or 0.0, 6) for days in trend.days_to(0.8)] == [4.0, 4.0, 4.0]
    flat = trend_of([0, 1, 2], [0.5, 0.5, 0.5])
    assert flat is not None
    assert flat.days_to(0.8)[0] is None
    assert trend_of([0, 1], [0.1, 0.2]) is None
