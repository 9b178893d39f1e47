"""The choice of the engine: by name, and only the chosen one is loaded."""

import subprocess
import sys

import pytest

from danube.model.errors import SettingsError
from danube.rpc.engines import DEFAULT_ENGINE, ENGINE_VARIABLE, RpcEngine, client_carrier, engine_of_environment
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S

LOADED = """
import sys
import danube.broker.assembly, danube.client.client, danube.admin.grpc_gateway.gateway
from danube.rpc.carrier import CarrierOptions
from danube.rpc.engines import RpcEngine, client_carrier, server_carrier
from danube.runtime.clock import SystemClock
server_carrier(RpcEngine.HTTP2, SystemClock(), CarrierOptions())
client_carrier(SystemClock(), engine=RpcEngine.HTTP2)
print("grpc" in sys.modules)
"""


def test_default_is_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
    assert (DEFAULT_ENGINE, engine_of_environment()) == (RpcEngine.HTTP2, RpcEngine.HTTP2)


@pytest.mark.parametrize("engine", list(RpcEngine))
def test_environment_chooses_for_clients(engine: RpcEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENGINE_VARIABLE, engine)
    assert type(client_carrier(SystemClock())).__name__ == {"http2": "Http2Carrier", "grpc": "GrpcCarrier"}[engine]


def test_engine_that_is_none_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENGINE_VARIABLE, "http3")
    with pytest.raises(SettingsError, match="set it to http2 or grpc"):
        client_carrier(SystemClock())


def test_broker_client_and_commands_on_our_engine_load_no_grpcio() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ran.stdout == "False\n", ran.stderr[-2_000:]
