"""How etcd and ZooKeeper are set up: what cannot work, or would be less safe than it looks, is refused by name."""

import subprocess
import sys
from types import ModuleType

import pytest

from danube.metadata.shared_log.backend import LogKeys, number_in
from danube.metadata.shared_log.etcd.client import EtcdSettings
from danube.metadata.shared_log.etcd.etcd_backend import EtcdBackend
from danube.metadata.shared_log.zookeeper.client import ZookeeperSettings
from danube.metadata.shared_log.zookeeper.zookeeper_backend import ZookeeperBackend
from danube.model.errors import SettingsError
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S

ETCD = EtcdSettings(endpoints=["127.0.0.1:1"])
ZOOKEEPER = ZookeeperSettings(hosts=["127.0.0.1:1"])


def test_importing_the_backends_loads_no_client_of_a_service() -> None:
    program = (
        "import sys, danube.metadata.shared_log.etcd.etcd_backend;"
        "import danube.metadata.shared_log.zookeeper.zookeeper_backend;"
        "print([name for name in ('aetcd', 'grpc', 'kazoo', 'google.protobuf') if name in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (EtcdSettings(endpoints=[]), "at least one endpoint"),
        (EtcdSettings(endpoints=["a:1"], user="danube"), "both a user and a password"),
        (EtcdSettings(endpoints=["a:1"], password="secret"), "both a user and a password"),
        (EtcdSettings(endpoints=["a:1"], ca=b"pem"), "TLS is off"),
        (EtcdSettings(endpoints=["a:1"], tls=True, certificate=b"pem"), "both a certificate and its key"),
        (EtcdSettings(endpoints=["a:1"], root="danube"), "give a path"),
    ],
)
def test_settings_of_etcd_that_cannot_work_are_refused(settings: EtcdSettings, words: str) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        EtcdBackend(settings, SystemRng())
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ZookeeperSettings(hosts=[]), "needs its hosts"),
        (ZookeeperSettings(hosts=["a:1/chroot"]), "the path as the root"),
        (ZookeeperSettings(hosts=["a:1"], user="danube"), "both a user and a password"),
        (ZookeeperSettings(hosts=["a:1"], ca_file="ca.pem"), "TLS is off"),
        (ZookeeperSettings(hosts=["a:1"], tls=True, key_file="key.pem"), "both a certificate and its key"),
        (ZookeeperSettings(hosts=["a:1"], root="/danube/"), "give a path"),
    ],
)
def test_settings_of_zookeeper_that_cannot_work_are_refused(settings: ZookeeperSettings, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        ZookeeperBackend(settings, SystemRng())


def test_no_password_or_key_shows_where_settings_are_printed() -> None:
    etcd = EtcdSettings(endpoints=["a:1"], user="u", password="hidden", tls=True, certificate=b"hidden", key=b"hidden")
    assert "hidden" not in repr(etcd)
    assert "hidden" not in repr(ZookeeperSettings(hosts=["a:1"], user="u", password="hidden"))


@pytest.mark.parametrize("name", ["etcd", "zookeeper"])
def test_a_missing_package_is_asked_for_by_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {module!r}")

    monkeypatch.setattr("danube.metadata.shared_log.backend.importlib.import_module", missing)
    with pytest.raises(SettingsError, match=rf"pip install '\.\[{name}\]'"):
        if name == "etcd":
            EtcdBackend(ETCD, SystemRng())
        else:
            ZookeeperBackend(ZOOKEEPER, SystemRng())


@pytest.mark.parametrize("root", ["", "/", "danube", "/danube/", "//a", "/a//b", "/a\n", "/é"])
def test_a_root_that_is_no_path_is_refused(root: str) -> None:
    with pytest.raises(SettingsError, match="give a path"):
        LogKeys(root)


def test_keys_sort_as_their_numbers_do() -> None:
    keys = LogKeys("/danube/test")
    numbers = [0, 9, 10, 2**31, 2**63]
    assert sorted(keys.entry(number) for number in numbers) == [keys.entry(number) for number in numbers]
    assert [number_in(keys.entry(number)) for number in numbers] == numbers
    assert keys.entry(7) == "/danube/test/log/00000000000000000007"
    assert keys.piece(7, 1) == "/danube/test/snapshot/00000000000000000007/000001"
    assert keys.snapshot(2**63) < keys.current
