"""`danube query` and Spark answer the same questions alike, over the same stored messages."""

import json
import random

import pytest
from pyspark.sql import SparkSession

import danube
from danube.client import DanubeClient, DispatchStrategy, SchemaType
from danube.model.errors import InvalidRequestError, LimitReachedError, TopicNotFoundError
from danube.testing.processes.broker import BrokerProcess
from tests.spark.conftest import Lake

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PAYMENT = {
    "type": "object",
    "properties": {
        "customer": {"type": "string"},
        "amount": {"type": "integer"},
        "state": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "key": {"type": "string"},
    },
    "required": ["customer", "amount"],
}
MESSAGES = 3_000

QUERIES = [
    "select count(*), count(key), min({offset}), max({offset}) from {payments}",
    "select key, count(*) as n from {payments} group by key order by n desc, key limit 20",
    "select state, sum(amount) as paid, min(customer) from {payments} where state = 'failed' group by state",
    "select {offset}, amount from {payments} where {offset} between 100 and 130 and partition = 1 order by 1",
    "select partition, count(*) from {payments} group by partition order by partition",
    "select customer, amount from {payments} where amount > 990 or customer = 'c7' order by amount, customer, {offset}",
    "select count(*) from {payments} where append_time >= timestamp '{middle}' and state <> 'paid'",
    "select count(*) from {payments} where append_time < timestamp '{middle}' or {offset} < 3",
    """select a.customer, count(*) as n from {payments} a join {payments} b on a.customer = b.customer
       and a.{offset} = b.{offset} and a.partition = b.partition where a.amount < 50 group by 1 order by n desc, 1""",
    """select customer, amount, row_number() over (partition by customer order by amount, {offset}, partition) as r
       from {payments} where amount > 900 order by 1, 3 limit 50""",
]


@pytest.fixture(scope="module")
def payments(spark: SparkSession, broker: BrokerProcess) -> str:
    """Name of a topic of three partitions with typed values; written twice, so that times have a middle."""
    lake = Lake(spark, broker, "/default/query-payments")
    rng = random.Random(7)

    async def publish(client: DanubeClient) -> None:
        registration = client.schema().register_schema("query-payments").with_type(SchemaType.JSON_SCHEMA)
        await registration.with_schema_data(json.dumps(PAYMENT).encode()).execute()
        builder = client.new_producer().with_topic(lake.topic).with_name("tests").with_partitions(3)
        builder = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE)
        async with builder.with_schema_subject("query-payments").build() as producer:
            for _ in range(2):
                values = [value_of(rng) for _ in range(MESSAGES // 2)]
                await producer.send_many([json.dumps(value).encode() for value in values])
        await client.schema().configure_topic_schema(lake.topic, "query-payments")

    lake.with_client(publish)
    read = lake.read(decode="true")
    typed = [f"decoded.{name}" for name in ("customer", "amount", "state", "tags")]
    read.select(*read.columns, *typed).createOrReplaceTempView("payments")
    return lake.topic


def value_of(rng: random.Random) -> dict[str, object]:
    state = rng.choice(["paid", "paid", "paid", "failed"])
    return {"customer": f"c{rng.randrange(40)}", "amount": rng.randrange(1_000), "state": state, "tags": ["x"]}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_answers_what_spark_answers(
    query: str, payments: str, spark: SparkSession, broker: BrokerProcess
) -> None:
    moments = spark.sql("select percentile_approx(cast(append_time as double), 0.5) from payments").first()
    assert moments is not None
    middle = spark.sql(f"select date_format(timestamp_seconds({moments[0]!r}), 'yyyy-MM-dd HH:mm:ss.SSSXXX')").first()
    assert middle is not None
    by_spark = spark.sql(query.format(payments="payments", offset="`offset`", middle=middle[0])).collect()
    name = payments.rpartition("/")[2]
    asked = query.format(payments=f'"{name}"', offset='"offset"', middle=middle[0]).replace(
        "timestamp '", "timestamptz '"
    )
    ours = danube.sql(asked, broker.endpoints.service_url)
    assert [tuple(row) for row in by_spark] == list(zip(*(c.to_pylist() for c in ours.table.columns), strict=True))
    assert by_spark


def test_a_field_that_has_the_name_of_a_column_stays_in_the_decoded_value(payments: str, broker: BrokerProcess) -> None:
    name = payments.rpartition("/")[2]
    answer = danube.sql(f'select * from "{name}" limit 1', broker.endpoints.service_url)
    assert answer.names[-5:] == ["decoded", "customer", "amount", "state", "tags"]
    assert set(answer.rows()[0]["decoded"]) == {*PAYMENT["properties"]}
    assert answer.to_pandas().shape[0] == 1
    assert "<td>" in answer._repr_html_()


def test_columns_of_one_name_are_told_apart(payments: str, broker: BrokerProcess) -> None:
    name = payments.rpartition("/")[2]
    answer = danube.sql(f'select key, "offset" as key, 7 as key from "{name}" limit 1', broker.endpoints.service_url)
    assert answer.names == ["key", "key_1", "key_2"]
    assert answer.rows()[0]["key_2"] == 7


def test_a_topic_may_have_any_name(broker: BrokerProcess, spark: SparkSession) -> None:
    Lake(spark, broker, "/default/topic_0").publish([b"x", b"y"])
    asked = 'select count(*) as n from topic_0 join "/default/topic_0" as b on b."offset" = topic_0."offset"'
    assert danube.sql(asked, broker.endpoints.service_url).rows() == [{"n": 2}]


def test_little_is_read_for_conditions_on_offsets_partitions_and_times(payments: str, broker: BrokerProcess) -> None:
    name, url = payments.rpartition("/")[2], broker.endpoints.service_url
    for condition in ("partition = 1", "append_time > now() + interval 1 day", '"offset" < 0'):
        answer = danube.sql(f'select count(key), count(value) from "{name}" where {condition}', url)
        assert answer.messages <= MESSAGES / 2


def test_rows_are_counted_by_their_offsets_and_nothing_is_fetched(payments: str, broker: BrokerProcess) -> None:
    name, url = payments.rpartition("/")[2], broker.endpoints.service_url
    whole = danube.sql(f'select count(*) as n, max("offset") as last, min(topic) as t from "{name}"', url)
    assert (whole.messages, whole.read_bytes, whole.rows()[0]["n"]) == (0, 0, MESSAGES)
    assert whole.rows()[0]["t"] == f"{payments}-part-0"


def test_times_of_flags_bound_all_topics(payments: str, broker: BrokerProcess) -> None:
    name, url = payments.rpartition("/")[2], broker.endpoints.service_url
    assert danube.sql(f'select count(*) as n from "{name}"', url, since="2031-01-01").rows() == [{"n": 0}]
    assert danube.sql(f'select count(*) as n from "{name}"', url, since="1h", until="0s").rows() == [{"n": MESSAGES}]


def test_a_query_ends_at_each_of_its_bounds(payments: str, broker: BrokerProcess) -> None:
    name, url = payments.rpartition("/")[2], broker.endpoints.service_url
    cut = danube.sql(f'select * from "{name}"', url, rows_max=7)
    assert (cut.table.num_rows, cut.is_cut) == (7, True)
    with pytest.raises(LimitReachedError, match=r"has read .* its bound is 10\.0 KiB: narrow it by --since"):
        danube.sql(f'select * from "{name}"', url, read_bytes_max=10 * 1024)
    with pytest.raises(LimitReachedError, match=r"ended after 0\.5 s"):
        endless = f'select count(*) from range(1000000000) a, range(1000) b, "{name}" where a.range * b.range % 7 = 3'
        danube.sql(endless, url, timeout_s=0.5)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select * from read_csv('/etc/passwd')", "file system operations are disabled"),
        ("select * from '/etc/passwd'", "invalid format|not a valid name|no topic"),
        ("copy (select 1) to 'x'", "one SELECT"),
        ("attach 'x.db'", "one SELECT"),
        ("install httpfs", "one SELECT"),
        ("set memory_limit='10GB'", "one SELECT"),
        ("select 1; select 2", "one SELECT"),
        ("", "one SELECT"),
        ("selct 1", "Parser Error"),
        ("select offset from a", 'the column offset is written in quotes: "offset"'),
        ("select * from a.b.c", "is no topic"),
        ('select * from "no topic"', "not a valid name"),
        ("select " + "1," * 40_000 + "1", "more than 65,536 characters"),
    ],
)
def test_what_is_no_query_of_topics_is_refused(query: str, said: str, broker: BrokerProcess) -> None:
    with pytest.raises((InvalidRequestError, TopicNotFoundError), match=said):
        danube.sql(query, broker.endpoints.service_url)


def test_variables_of_python_are_no_tables(broker: BrokerProcess) -> None:
    secret = [{"token": "x"}]
    with pytest.raises(TopicNotFoundError):
        danube.sql("select * from secret", broker.endpoints.service_url)
    assert secret
