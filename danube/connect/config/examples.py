"""Commented example files, one for each connector that is in this version."""

from danube.connect.connectors.catalogue import BY_NAME
from danube.model.errors import InvalidRequestError

_ROOT = """\
# The cluster; several brokers with commas between. DANUBE_SERVICE_URL replaces it.
danube_service_url = "http://127.0.0.1:6650"
# Name of the connector, and of its subscription where a route names none.
connector_name = "{name}"

# Tries of a record that fails for an unknown reason, and the delays between them.
[retry]
max_retries = 3
retry_backoff_ms = 1000
max_backoff_ms = 30000

[processing]
batch_size = 1000         # records of one batch
batch_timeout_ms = 1000   # a batch that is not full goes out after this long
metrics_port = 9090       # /health and /metrics; 0 is any free port
log_level = "info"
"""

_SINK_ROUTE = """
[[{section}.routes]]
from = "/default/orders"            # all its partitions, one task for each
subscription = "{name}"
# subscription_type = "Failover"    # the default is Exclusive; with both, a second runner stands by
# start = "latest"                  # of a new subscription; the default is earliest
# dead_letter_topic = "/default/orders-dlq"   # the default: the name with -dlq
"""

_OWN = """
# A function of yours: a module in the working folder or on PYTHONPATH.
#
#   from danube.connect import Batch, sink
#
#   @sink
#   async def to_table(batch: Batch[bytes]) -> None:
#       ...
[connector]
name = "mine:to_table"
"""

_WEBHOOK = """
[server]
host = "0.0.0.0"
port = 8080
timeout_seconds = 30
max_body_size = 1048576

# type: none, apikey, hmac or jwt. The secret is in the variable that secret_env names.
[auth]
type = "apikey"
secret_env = "WEBHOOK_API_KEY"
header = "x-api-key"

[rate_limit]
requests_per_second = 100
burst_size = 200
per_ip_enabled = true
per_ip_requests_per_second = 10

# POST /orders becomes a record of /default/orders, answered with 202 after the receipt.
[[routes]]
from = "/orders"
to = "/default/orders"
# partitions = 4
# key_header = "x-order-id"          # routing key of the record
# idempotency_header = "webhook-id"  # a request that comes again is stored once
"""

_WEBHOOK_OUT = """
# POSTs each record. 2xx acknowledges, 4xx goes to the dead letters, 429 and 5xx are tried again after Retry-After.
[webhook_out]
url = "https://example.org/hook"
timeout_secs = 10
# secret = "whsec_..."     # signs as Standard Webhooks; better in the variable WEBHOOK_OUT_SECRET
"""


def example(name: str) -> str:
    """A commented file. Raises InvalidRequestError for a connector that is not in this version."""
    sections = {
        "own": _OWN + _SINK_ROUTE.format(section="connector", name="my-connector"),
        "null": "\n[null]\n" + _SINK_ROUTE.format(section="null", name="my-null"),
        "webhook": _WEBHOOK,
        "webhook_out": _WEBHOOK_OUT + _SINK_ROUTE.format(section="webhook_out", name="my-webhook_out"),
    }
    if name not in sections:
        absent = f"{name} is not in this version" if name in BY_NAME else f"there is no connector {name!r}"
        raise InvalidRequestError(f"{absent}: use {', '.join(sections)}")
    return _ROOT.format(name=f"my-{'connector' if name == 'own' else name}") + sections[name]
