"""Files of connectors: the original's as they are, ours, and what is wrong with one in a sentence."""

from pathlib import Path

import pytest

from danube.connect.config.file import parse, read_files
from danube.connect.connector import plan
from danube.connect.connectors.catalogue import ENTRIES, example
from danube.model.errors import SettingsError

ORIGINALS = Path(__file__).parents[2] / "golden/original_connectors"
ROOT = 'danube_service_url = "http://127.0.0.1:6650"\nconnector_name = "mine"\n'
ROUTE = '[[null.routes]]\nfrom = "/default/orders"\n'


@pytest.mark.parametrize("name", ["sink-deltalake", "sink-qdrant", "sink-surrealdb", "source-mqtt", "source-webhook"])
def test_the_files_that_the_original_publishes_are_read_as_they_are(name: str) -> None:
    (config,) = read_files([ORIGINALS / f"{name}.toml"], {})
    assert config.processing.metrics_port == 9_090
    assert config.section["routes"]


def test_the_webhook_file_that_the_original_publishes_is_one_that_runs() -> None:
    (config,) = read_files([ORIGINALS / "source-webhook.toml"], {})
    assert [route.to for route in plan(config).routes] == [route["to"] for route in config.section["routes"]]


def test_intervals_of_the_original_webhook_file_are_its_backoff() -> None:
    (config,) = read_files([ORIGINALS / "source-webhook.toml"], {})
    assert (config.retry.max_retries, config.retry.backoff.first_s, config.retry.backoff.longest_s) == (5, 1.0, 60.0)


def test_the_environment_replaces_address_and_name() -> None:
    (config,) = parse(ROOT + ROUTE, "f", {"DANUBE_SERVICE_URL": "http://other:1", "CONNECTOR_NAME": "theirs"})
    assert (config.service_url, config.name) == ("http://other:1", "theirs")


def test_a_file_of_several_shares_what_its_root_says() -> None:
    text = (
        ROOT.replace('connector_name = "mine"\n', "[retry]\nmax_retries = 7\n")
        + '[[connectors]]\nconnector_name = "a"\n[[connectors.null.routes]]\nfrom = "/default/orders"\n'
        + '[[connectors]]\nconnector_name = "b"\nretry = { retry_backoff_ms = 5 }\n'
        + '[[connectors.null.routes]]\nfrom = "/default/orders"\n'
    )
    first, second = parse(text, "f", {"CONNECTOR_NAME": "ignored"})
    assert (first.name, first.retry.max_retries, first.retry.retry_backoff_ms) == ("a", 7, 1_000)
    assert (second.name, second.retry.max_retries, second.retry.retry_backoff_ms) == ("b", 7, 5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (ROOT + "[retri]\n" + ROUTE, "f: there is no key 'retri': did you mean 'retry'?"),
        (ROOT + "[retry]\nmax_retrys = 1\n" + ROUTE, "there is no key 'retry.max_retrys': did you mean 'max_retries'?"),
        (ROOT + '[[null.routes]]\nform = "/default/a"\n', "f, [null]: routes.0.from is missing"),
        (ROOT + ROUTE + 'subscripton = "x"\n', "'routes.0.subscripton': did you mean 'subscription'?"),
        (ROOT + '[[null.routes]]\nfrom = "orders"\n', "routes.0.from: topic 'orders' has an invalid format"),
        (ROOT + ROUTE + 'dead_letter_topic = "/default/orders"\n', "is the topic that is read"),
        (ROOT + ROUTE + 'subscription_type = "Mine"\n', "use Exclusive, Failover or Shared"),
        (ROOT + ROUTE + "[connector]\n", "a file has one connector, and [connector] and [null] are two"),
        (ROOT, "no section names one"),
        (ROOT + "[null]\n", "f, [null]: routes is missing"),
        (ROUTE, "danube_service_url is missing"),
        (ROOT.replace("http://127.0.0.1:6650", "127.0.0.1") + ROUTE, "danube_service_url"),
        (ROOT + ROUTE + ROUTE, "two routes read /default/orders by one subscription"),
        (ROOT + '[connector]\nname = "nowhere:f"\n[[connector.routes]]\nfrom = "/a/b"\n', "cannot import nowhere"),
        (
            ROOT + '[connector]\nname = "json:dumps"\n[[connector.routes]]\nfrom = "/a/b"\n',
            "json:dumps is no connector",
        ),
        (ROOT + '[connector]\nname = "json:dump_"\n[[connector.routes]]\nfrom = "/a/b"\n', "json has no dump_"),
        (ROOT + "= 1", "f is not valid TOML"),
        (ROOT + "[auth]\n" + ROUTE, "[auth] does not belong to [null]"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        plan(*parse(text, "f", {}))
    assert sentence in str(refused.value)


def test_a_secret_that_is_wrong_is_not_shown() -> None:
    text = ROOT + '[webhook_out]\nsecret = 12345\n[[webhook_out.routes]]\nfrom = "/a/b"\n'
    with pytest.raises(SettingsError) as refused:
        parse(text, "f", {})[0].settings()
    assert "12345" not in str(refused.value)


def test_two_connectors_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(ROOT + ROUTE)
    with pytest.raises(SettingsError, match="two connectors have the name mine"):
        read_files([tmp_path / "a", tmp_path / "b"], {})


def test_a_connector_that_is_not_in_this_version_says_so() -> None:
    with pytest.raises(SettingsError, match="qdrant is not in this version"):
        plan(*read_files([ORIGINALS / "sink-qdrant.toml"], {}))


@pytest.mark.parametrize("name", [entry.name for entry in ENTRIES if entry.target])
def test_the_example_of_each_connector_is_a_file_that_runs(name: str) -> None:
    assert plan(*parse(example(name), "f", {})).routes
