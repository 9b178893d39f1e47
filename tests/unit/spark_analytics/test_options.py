"""Options: what is taken, what is refused and how, and that a token stays secret."""

import pickle
from pathlib import Path

import pytest

from danube.model.calls.stream import FetchFrom, FetchTime
from danube.model.errors import SettingsError
from danube.tables.planning import Positions
from spark_analytics.options import option_names, parse_options

TOPIC = {"topic": "/default/orders"}


def test_topic_alone_is_enough() -> None:
    options = parse_options(TOPIC)
    assert (options.service_url, options.start, options.end) == (
        "http://127.0.0.1:6650",
        Positions(FetchFrom.EARLIEST),
        Positions(FetchFrom.LATEST),
    )
    assert (options.rows_per_partition, options.fail_on_data_loss, options.timeout_s) == (250_000, True, 60.0)


def test_names_are_taken_in_any_case_and_texts_become_values() -> None:
    options = parse_options(
        TOPIC | {"ROWS_Per_Partition": "10", "Fail_on_data_loss": "false", "columns": "value, offset"}
    )
    assert (options.rows_per_partition, options.fail_on_data_loss) == (10, False)
    assert options.columns == ("offset", "value")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("starting", "earliest", Positions(FetchFrom.EARLIEST)),
        ("starting", "latest", Positions(FetchFrom.LATEST)),
        ("starting", " 120 ", Positions(120)),
        ("starting", '{"/default/a-part-0": 5}', Positions(by_topic={"/default/a-part-0": 5})),
        ("starting", '{"/default/a": "latest"}', Positions(by_topic={"/default/a": FetchFrom.LATEST})),
        ("starting_timestamp", "1700000000000", Positions(FetchTime(1_700_000_000_000))),
        ("starting_timestamp", "1970-01-01T00:00:01.5Z", Positions(FetchTime(1_500))),
        ("starting_timestamp", "1970-01-01T00:00:01", Positions(FetchTime(1_000))),
        ("starting_timestamp", "1970-01-01T02:00:00+02:00", Positions(FetchTime(0))),
    ],
)
def test_positions_can_be_said_in_many_ways(name: str, text: str, expected: Positions) -> None:
    assert parse_options(TOPIC | {name: text}).start == expected
    assert parse_options(TOPIC | {name.replace("starting", "ending"): text}).end == expected


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, r"option topic is missing: name a topic"),
        ({"topic": "orders"}, r"option topic: topic 'orders' has an invalid format"),
        (TOPIC | {"startin": "5"}, r"no option 'startin': did you mean starting\?"),
        (TOPIC | {"serviceUrl": "x"}, r"no option 'serviceurl': did you mean service_url\?"),
        ({"path": "/default/orders"}, r"no option 'path': name the topic with the option topic"),
        (TOPIC | {"service_url": "localhost"}, r"option service_url: .*http://host:port"),
        (TOPIC | {"service_url": "http://me:pw@host:1"}, r"option service_url: an address holds no name"),
        (TOPIC | {"starting": "-1"}, r"option starting: '-1' is not a position: write earliest, latest"),
        (TOPIC | {"starting": '{"/default/a": true}'}, r"'True' is not a position"),
        (TOPIC | {"starting": "{nonsense"}, r"option starting: it begins like JSON and is none"),
        (TOPIC | {"starting_timestamp": "yesterday"}, r"'yesterday' is not a time: write 2026"),
        (TOPIC | {"starting": "5", "starting_timestamp": "5"}, r"starting and starting_timestamp exclude each other"),
        (TOPIC | {"columns": "offset,vallue"}, r"no column 'vallue': did you mean value\?"),
        (TOPIC | {"rows_per_partition": "0"}, r"option rows_per_partition: .*greater than or equal to 1"),
        (TOPIC | {"timeout_s": "inf"}, r"option timeout_s: "),
        (TOPIC | {"fail_on_data_loss": "maybe"}, r"option fail_on_data_loss: "),
        (TOPIC | {"ca_cert": "/no/such.pem"}, r"option ca_cert: cannot read /no/such.pem"),
        (TOPIC | {"starting": "1" * 300_000}, r"option starting has 300000 characters, the limit is 262144"),
    ],
)
def test_wrong_options_are_refused_with_what_to_write_instead(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        parse_options(options)


def test_options_of_streams_are_not_for_batches_and_the_other_way_round() -> None:
    with pytest.raises(SettingsError, match="max_rows_per_trigger is for streams"):
        parse_options(TOPIC | {"max_rows_per_trigger": "5"}).refuse_for("batch")
    with pytest.raises(SettingsError, match="starting at latest is for streams"):
        parse_options(TOPIC | {"starting": "latest"}).refuse_for("batch")
    with pytest.raises(SettingsError, match="ending is for batch reads"):
        parse_options(TOPIC | {"ending_timestamp": "5"}).refuse_for("stream")


def test_token_is_in_no_text_and_reaches_the_workers() -> None:
    options = parse_options(TOPIC | {"token": "s3cret"})
    assert "s3cret" not in f"{options!r} {options} {options.endpoint!r} {options.endpoint}"
    assert pickle.loads(pickle.dumps(options.endpoint)).token == "s3cret"
    with pytest.raises(SettingsError) as refused:
        parse_options({"token": "s3cret", "timeout_s": "x", "topic": "s3cret-is-no-topic?"})
    assert "Input should be a valid number" in str(refused.value)


def test_certificate_is_read_on_the_driver(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"PEM")
    assert parse_options(TOPIC | {"ca_cert": str(tmp_path / "ca.pem")}).endpoint.ca_pem == b"PEM"


def test_every_option_is_documented() -> None:
    page = Path(__file__).parents[3].joinpath("docs/spark.md").read_text(encoding="utf-8")
    assert [name for name in option_names() if f"| `{name}` |" not in page] == []
