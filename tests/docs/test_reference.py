"""References are generated from the code: settings, metrics, and the index of all pages."""

import pytest

from scripts.generate_reference import DOCS, exposition_of_a_new_broker, index_page, metrics_page, settings_page

_ADVICE = "run python -m scripts.generate_reference, and look at the difference"


def test_every_setting_is_in_the_reference() -> None:
    assert (DOCS / "settings.md").read_text() == settings_page(), _ADVICE


def test_every_page_is_in_the_index() -> None:
    assert (DOCS / "README.md").read_text() == index_page(), _ADVICE


@pytest.mark.cluster
def test_every_metric_is_in_the_reference() -> None:
    assert (DOCS / "metrics.md").read_text() == metrics_page(exposition_of_a_new_broker()), _ADVICE
