"""What is told to the store that the settings name, and which secrets it takes."""

import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from danube.broker.cluster import metadata_store
from danube.broker.config import secret_files
from danube.broker.config.metadata_store import MetaStoreSettings
from danube.model.errors import SettingsError

SECRET = "0123456789abcdef0123456789abcdef"


def settings(**values: Any) -> MetaStoreSettings:
    return MetaStoreSettings.model_validate(values)


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path


def test_a_secret_comes_from_its_file_without_the_end_of_the_line(secret_file: Path) -> None:
    assert secret_files.secret_of(None, secret_file) == SECRET.encode()


@pytest.mark.parametrize("bits", [stat.S_IRGRP, stat.S_IROTH])
def test_a_secret_that_others_may_read_is_refused(secret_file: Path, bits: int) -> None:
    secret_file.chmod(0o600 | bits)
    with pytest.raises(SettingsError, match="chmod 600"):
        secret_files.secret_of(None, secret_file)


def test_an_empty_a_missing_and_a_huge_secret_are_refused(tmp_path: Path, secret_file: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read"):
        secret_files.secret_of(None, tmp_path / "missing")
    secret_file.write_text(" \n")
    with pytest.raises(SettingsError, match="is empty"):
        secret_files.secret_of(None, secret_file)
    secret_file.write_text("x" * 70_000)
    with pytest.raises(SettingsError, match="is larger than"):
        secret_files.secret_of(None, secret_file)


def test_raft_is_told_its_port_its_seeds_and_its_secret(secret_file: Path) -> None:
    seeds = ("h1:7650", "h2:7650")
    told = metadata_store.raft_settings(settings(seed_nodes=seeds, raft_addr="h1:7650", secret_file=secret_file))
    assert (told.bind, told.advertised, told.seeds, told.secret) == ("h1:7650", "", seeds, SECRET.encode())
    assert SECRET not in repr(told)


def test_a_raft_port_that_asks_for_no_proof_listens_on_loopback_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        told = metadata_store.raft_settings(settings(raft_addr="0.0.0.0:7650"))
    assert told.bind == "127.0.0.1:7650"
    assert "until meta_store.secret_file" in caplog.text


def test_nobody_is_told_to_dial_every_address(secret_file: Path) -> None:
    told = metadata_store.raft_settings(settings(raft_addr="0.0.0.0:7650", secret_file=secret_file))
    assert told.bind == "0.0.0.0:7650"
    assert told.advertised.endswith(":7650")
    assert not told.advertised.startswith("0.0.0.0")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """What TLS needs; everybody may read a certificate."""
    paths = {f"tls_{name}": tmp_path / name for name in ("ca", "cert", "key")}
    for path in paths.values():
        path.write_text("pem")
        path.chmod(0o644)
    paths["tls_key"].chmod(0o600)
    return paths


def test_all_three_files_make_tls(files: dict[str, Path]) -> None:
    told = metadata_store.raft_settings(settings(type="raft", **files))
    assert told.tls is not None
    assert (told.tls.ca, told.tls.certificate, told.tls.key) == tuple(files.values())


@pytest.mark.parametrize("kind", ["raft", "etcd", "zookeeper"])
def test_a_private_key_that_others_may_read_or_that_is_missing_is_refused(kind: str, files: dict[str, Path]) -> None:
    told = getattr(metadata_store, f"{kind}_settings")
    files["tls_key"].chmod(0o644)
    with pytest.raises(SettingsError, match=r"holds a private key that others .* chmod 600"):
        told(settings(type=kind, **files))
    files["tls_key"].unlink()
    with pytest.raises(SettingsError, match="cannot read"):
        told(settings(type=kind, **files))


def test_the_group_may_read_what_is_not_ours(secret_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = secret_file.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    secret_file.chmod(0o640)
    assert secret_files.secret_of(None, secret_file) == SECRET.encode()
    secret_file.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod o-rwx"):
        secret_files.secret_of(None, secret_file)


def test_one_that_waits_to_be_added_waits_for_long() -> None:
    assert metadata_store.raft_settings(settings(join=True)).start_timeout_s > 3_600


def test_etcd_is_told_who_we_are_and_asked_for_tls_by_its_url(tmp_path: Path, secret_file: Path) -> None:
    (tmp_path / "ca").write_text("pem")
    given = {"type": "etcd", "endpoints": ["https://e1:2379", "e2:2379"], "user": "u", "password_file": secret_file}
    told = metadata_store.etcd_settings(settings(**given, tls_ca=tmp_path / "ca", root="/a"))
    assert (list(told.endpoints), told.root, told.user) == (["e1:2379", "e2:2379"], "/a", "u")
    assert (told.tls, told.ca, told.password) == (True, b"pem", SECRET)
    assert SECRET not in repr(told)


def test_zookeeper_is_told_its_hosts_and_who_we_are() -> None:
    told = metadata_store.zookeeper_settings(
        settings(type="zookeeper", hosts=["z:1"], user="u", password="p", root="/b")
    )
    assert (list(told.hosts), told.root, told.user, told.password) == (["z:1"], "/b", "u", "p")
    assert not told.tls


def test_zookeeper_is_asked_for_tls_where_there_are_certificates(files: dict[str, Path]) -> None:
    told = metadata_store.zookeeper_settings(settings(type="zookeeper", hosts=["z:1"], **files))
    assert (told.tls, told.ca_file, told.certificate_file, told.key_file) == (True, *map(str, files.values()))
