from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from danube.broker.config import values
from danube.broker.config.original import translate_original
from danube.broker.config.settings import BrokerSettings, load_broker_settings
from danube.model.errors import SettingsError
from danube.runtime.settings import values_of
from danube.storage.batches.codec import Codec
from danube.storage.disk_space import SpaceLevel, space_level


def load(path: Path | None = None, environment: Mapping[str, str] | None = None, **flags: Any) -> BrokerSettings:
    return load_broker_settings(path, environment or {}, flags).settings


def written(folder: Path, text: str) -> Path:
    path = folder / "broker.yml"
    path.write_text(text)
    return path


def test_without_anything_it_is_a_loopback_broker_in_danube_data() -> None:
    settings = load()
    assert (settings.broker_addr, settings.admin_addr) == ("127.0.0.1:6650", "127.0.0.1:50051")
    assert settings.data_dir == Path("danube-data")
    assert settings.prom_exporter is None


def test_flag_beats_variable_beats_file_beats_default(tmp_path: Path) -> None:
    path = written(tmp_path, "broker_addr: 127.0.0.1:1\nadmin_addr: 127.0.0.1:1\nlog_level: error\n")
    environment = {"DANUBE_BROKER_ADDR": "127.0.0.1:2", "DANUBE_ADMIN_ADDR": "127.0.0.1:2"}
    loaded = load_broker_settings(path, environment, {"broker_addr": "127.0.0.1:3", "mode": None})
    settings = loaded.settings
    assert (settings.broker_addr, settings.admin_addr, settings.log_level) == ("127.0.0.1:3", "127.0.0.1:2", "error")
    assert loaded.origins["broker_addr"] == "--broker-addr"
    assert loaded.origins["admin_addr"] == "DANUBE_ADMIN_ADDR"
    assert loaded.origins["log_level"] == str(path)
    assert loaded.origins["durability"] == "default"


def test_a_tilde_is_the_home_folder_wherever_a_path_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/abode")
    loaded = load_broker_settings(
        written(tmp_path, "data_dir: ~/data\n"),
        {"DANUBE_META_STORE_TYPE": "raft", "DANUBE_META_STORE_SECRET_FILE": "~/secret"},
        {},
    ).settings
    assert (str(loaded.data_dir), str(loaded.meta_store.secret_file)) == ("/abode/data", "/abode/secret")


def test_an_empty_path_is_refused_wherever_it_is_set(tmp_path: Path) -> None:
    """As a path it would be the working folder."""
    with pytest.raises(SettingsError, match=r"data_dir \(DANUBE_DATA_DIR\) is empty: give a path, or leave it out"):
        load(environment={"DANUBE_DATA_DIR": ""})
    with pytest.raises(SettingsError, match=r"storage\.folder .* is empty"):
        load_broker_settings(written(tmp_path, "storage: {folder: ''}"), {}, {})


def test_lists_in_variables_have_commas() -> None:
    assert load(environment={"DANUBE_BOOTSTRAP_NAMESPACES": "a,b"}).bootstrap_namespaces == ("a", "b")


def test_variables_of_other_commands_are_left_alone() -> None:
    load(environment={"DANUBE_ADMIN_ENDPOINT": "http://127.0.0.1:50051", "DANUBE_SERVICE_ADDR": "x"})


def test_misspelt_variable_names_the_right_one() -> None:
    with pytest.raises(SettingsError, match="did you mean DANUBE_BROKER_ADDR"):
        load(environment={"DANUBE_BROKER_ADRR": "x"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("brokr_addr: x", "did you mean 'broker_addr'"),
        ("zzz: 1", "there is no setting 'zzz'"),
        ("- a\n- b", "must hold settings"),
        ("a: [", "is not valid YAML"),
        ("max_unacked_messages: 0", "greater than or equal to 1"),
        ("broker_addr: nowhere", "is not an address: give host:port"),
        ("broker_addr: 127.0.0.1:70000", "is not an address: give host:port"),
        ("bootstrap_namespaces: ['a/b']", "is not a valid name"),
        ("storage:\n  mode: object_store\n  durable:\n    root: ftp://x/y", "give s3://bucket/prefix"),
        ("storage:\n  mode: object_store\n  durable:\n    backend: tape", "s3, gcs or azblob"),
        ("storage:\n  mode: object_store\nmeta_store:\n  type: etcd", "set object_store.url to s3://bucket/prefix"),
        ("object_store:\n  url: s3://bkt/a b", "has characters that not every store keeps"),
        ("object_store:\n  url: s3://bkt/p\n  access_key: a", "give both, or neither"),
        ("storage:\n  local_retention:\n    size_mb: many", "size_mb is 'many': give a number"),
        ("auth:\n  mode: tls", "auth.mode tls needs auth.tls_cert and auth.tls_key"),
        ("auth:\n  mode: tlsx", "should be 'none', 'tls' or 'tlswithjwt'"),
        ("auth:\n  jwt_issuer: me", "auth.jwt_issuer has no effect with auth.mode none"),
        ("auth:\n  mode: tls\n  tls_cert: /c\n  tls_key: /k", "nobody could prove who they are"),
        ("storage:\n  write_buffer:\n    urls: [a]", "a write buffer in front of the disk"),
        ("meta_store:\n  seed_nodes: [a]", "'a' is not an address"),
        ("meta_store:\n  type: etdc", "should be 'memory', 'raft', 'etcd' or 'zookeeper'"),
        ("meta_store:\n  tpye: etcd", "did you mean 'meta_store.type'"),
        ("meta_store:\n  type: etcd\n  hosts: [a:1]", "meta_store.hosts goes with meta_store.type zookeeper"),
        (
            "mode: standalone\nmeta_store:\n  type: etcd",
            "goes with a meta_store.type raft or memory",
        ),
        ("mode: cluster\nmeta_store:\n  type: memory", "the mode cluster goes with a meta_store.type that its brokers"),
        ("mode: standalone\nmeta_store:\n  join: true", "are for the mode cluster"),
        ("meta_store:\n  join: true\n  seed_nodes: ['127.0.0.1:1']", "leave out meta_store.seed_nodes"),
        ("meta_store:\n  seed_nodes: ['h:1']\n  raft_addr: 0.0.0.0:1", "would take commands from anybody"),
        ("meta_store:\n  type: raft\n  secret: a\n  secret_file: /b", "not both"),
        ("meta_store:\n  type: etcd\n  tls_cert: /c", "go together"),
        ("meta_store:\n  type: etcd\nstorage:\n  mode: shared_fs", "give both, or neither"),
        ("storage:\n  mode: shared_fs\n  folder: /x", "for brokers of a cluster"),
    ],
)
def test_wrong_file_is_refused_with_what_to_do(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(written(tmp_path, text))


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read the settings file"):
        load(tmp_path / "missing.yml")


def test_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert load(written(tmp_path, "")) == load()


def test_nested_keys_of_the_original_are_ours() -> None:
    content = {
        "cluster_name": "C",
        "broker": {
            "host": "10.0.0.1",
            "ports": {"client": 1, "admin": 2, "prometheus": 3},
            "advertised_listeners": {"broker_url": "b:1", "connect_url": "c:1"},
        },
        "meta_store": {"data_dir": "/d", "seed_nodes": []},
        "dispatch": {"max_unacked_messages": 5},
        "storage": {
            "mode": "local",
            "local_retention": {"time_minutes": 2_880, "size_mb": 20_480, "check_interval_minutes": 5},
            "wal": {"rotation": {"max_bytes": 536_870_912, "max_hours": 24}},
            "write_buffer": None,
        },
        "auth": {"mode": "tls", "tls": {"cert_file": "c", "key_file": "k", "ca_file": "a"}, "super_admins": ["root"]},
        "admin_tls": False,
    }
    translated, warnings = translate_original(content, "f")
    assert warnings == []
    assert translated == {
        "cluster_name": "C",
        "broker_addr": "10.0.0.1:1",
        "admin_addr": "10.0.0.1:2",
        "prom_exporter": "10.0.0.1:3",
        "auth.mode": "tls",
        "auth.tls_cert": "c",
        "auth.tls_key": "k",
        "auth.tls_ca": "a",
        "auth.super_admins": ["root"],
        "auth.admin_tls": False,
        "advertised_addr": "b:1",
        "connect_url": "c:1",
        "data_dir": "/d",
        "storage.mode": "local",
        "max_unacked_messages": 5,
        "retention_time_s": 172_800,
        "retention_bytes": 20 << 30,
        "journal_file_bytes_max": 512 << 20,
        "journal_file_age_s": 86_400,
    }


@pytest.mark.parametrize("block", ["durable", "object_store"])
def test_the_originals_object_store_is_read(block: str) -> None:
    given = {"backend": "s3", "root": "s3://bkt/p", "endpoint": "http://h:9000", "access_key": "a", "secret_key": "s"}
    translated, warnings = translate_original({"storage": {"mode": "object_store", block: given}}, "f")
    del given["backend"]
    wanted = {f"object_store.{'url' if key == 'root' else key}": value for key, value in given.items()}
    assert (translated, warnings) == ({"storage.mode": "object_store", **wanted}, [])


@pytest.mark.parametrize("storage", [{"root": "/mnt/x"}, {"durable": {"root": "/mnt/x"}}])
def test_the_shared_folder_of_the_original_is_ours(storage: dict[str, object]) -> None:
    translated, warnings = translate_original({"storage": {"mode": "shared_fs", **storage}}, "f")
    assert (translated, warnings) == ({"storage.mode": "shared_fs", "storage.folder": "/mnt/x"}, [])


def test_what_changes_nothing_here_is_left_out_of_the_original_s_file_with_a_warning(tmp_path: Path) -> None:
    storage = "storage:\n  local_wal_root: /x\n  wal: {odd: 9, cache_capacity: 9}\n"
    text = f"{storage}load_manager: {{rebalancing: {{min_brokers_for_rebalance: 3}}}}"
    loaded = load_broker_settings(written(tmp_path, text), {}, {})
    assert loaded.settings == load()
    said = " ".join(loaded.warnings)
    for expected in ("everything is kept below `data_dir`", "set `cache_bytes_max`", "two brokers are enough"):
        assert expected in said
    assert len(loaded.warnings) == 4


@pytest.mark.parametrize(("enabled", "mode"), [(True, "aggressive"), (False, "off")])
def test_the_load_manager_of_the_original_s_file_is_ours(enabled: bool, mode: str) -> None:
    rebalancing = {
        "enabled": enabled,
        "aggressiveness": "aggressive",
        "check_interval_seconds": 5,
        "max_moves_per_hour": 30,
        "min_topic_age_seconds": 30,
        "blacklist_topics": ["/default/orders", "/billing/*"],
    }
    manager = {"assignment_strategy": "weighted_load", "load_report_interval_seconds": 7, "rebalancing": rebalancing}
    translated, warnings = translate_original({"load_manager": manager}, "f")
    assert warnings == []
    assert translated == {
        "assignment_strategy": "weighted_load",
        "load_report_interval_s": 7,
        "rebalance_mode": mode,
        "rebalance_check_interval_s": 5,
        "rebalance_moves_per_hour": 30,
        "rebalance_cool_down_s": 30,
        "rebalance_excluded_topics": ["/default/orders", "/billing/*"],
    }


@pytest.mark.parametrize(
    "text", ["broker: {host: 127.0.0.1, ports: {raft: 7650}}", "meta_store: {seed_nodes: ['127.0.0.1:1']}"]
)
def test_the_original_s_file_of_a_cluster_means_raft(tmp_path: Path, text: str) -> None:
    settings = load(written(tmp_path, text))
    assert (settings.mode, settings.meta_store.type, settings.cluster_name) == ("cluster", "raft", "DANUBE")


@pytest.mark.parametrize("kind", ["raft", "etcd", "zookeeper"])
def test_metadata_that_brokers_share_makes_a_cluster(kind: str) -> None:
    assert load(environment={"DANUBE_META_STORE_TYPE": kind}).mode == "cluster"


def test_the_mode_cluster_alone_means_raft() -> None:
    assert load(mode="cluster").meta_store.type == "raft"


def test_flags_and_variables_of_a_group_are_merged_with_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "meta_store:\n  type: etcd\n  root: /a\n  user: u\n")
    loaded = load_broker_settings(path, {"DANUBE_META_STORE_ROOT": "/b"}, {"meta_store.user": "v"})
    kept = loaded.settings.meta_store
    assert (kept.type, kept.root, kept.user) == ("etcd", "/b", "v")
    origins = [loaded.origins[f"meta_store.{name}"] for name in ("type", "root", "user", "hosts")]
    assert origins == [str(path), "DANUBE_META_STORE_ROOT", "--meta-store-user", "default"]


def test_a_secret_is_in_no_listing_and_in_no_error() -> None:
    environment = {"DANUBE_META_STORE_TYPE": "raft", "DANUBE_META_STORE_SECRET": "hunter2"}
    settings = load(environment=environment)
    assert "hunter2" not in f"{settings!r} {values_of(settings)}"
    for more in ({"DANUBE_META_STORE_TYPE": "etcd"}, {"DANUBE_META_STORE_SECRET_FILE": "/x"}):
        with pytest.raises(SettingsError) as refused:
            load(environment={**environment, **more})
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("name", ["disk_warn_free_bytes", "disk_refuse_free_bytes"])
def test_what_nought_means_for_the_room_on_the_disk_is_said_and_so(name: str) -> None:
    assert str(BrokerSettings.model_fields[name].description).endswith("0 is never.")
    nought = {"DANUBE_DISK_WARN_FREE_BYTES": "0", "DANUBE_DISK_REFUSE_FREE_BYTES": "0"}
    marks = values.storage_settings(load(environment=nought)).watermarks
    assert {space_level(0, before, marks) for before in SpaceLevel} == {SpaceLevel.OK}


def test_a_compression_that_is_not_there_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "is_available", lambda codec: codec is Codec.NONE)
    assert values.storage_settings(load()).codec is Codec.NONE
    with pytest.raises(SettingsError, match="segment_compression zstd needs a package"):
        values.storage_settings(load(environment={"DANUBE_SEGMENT_COMPRESSION": "zstd"}))


def test_clients_are_told_the_bound_address_unless_another_is_advertised() -> None:
    assert values.advertised_urls(load(), "127.0.0.1:7") == ("http://127.0.0.1:7", "http://127.0.0.1:7")
    told = values.advertised_urls(load(advertised_addr="b.example:1", connect_url="https://p.example:2"), "127.0.0.1:7")
    assert told == ("http://b.example:1", "https://p.example:2")


def test_nobody_is_told_to_dial_the_wildcard_address() -> None:
    url, _ = values.advertised_urls(load(broker_addr="0.0.0.0:6650"), "0.0.0.0:6650")
    assert "0.0.0.0" not in url


@pytest.mark.parametrize(
    ("bound", "told"),
    [
        ("0.0.0.0:50051", "http://b.example:50051"),
        ("[::]:50051", "http://b.example:50051"),
        ("10.0.0.1:7", "http://10.0.0.1:7"),
    ],
)
def test_a_port_of_all_addresses_is_told_by_the_name_of_the_broker(bound: str, told: str) -> None:
    assert values.bound_url(bound, advertised="http://b.example:6650") == told


@pytest.mark.parametrize("text", ["type: raft\n  secret: s3cr3t", "type: etcd\n  user: u\n  password: s3cr3t"])
def test_a_file_with_a_secret_in_it_that_others_may_read_is_refused(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, f"meta_store:\n  {text}\n")
    path.chmod(0o644)
    with pytest.raises(SettingsError, match=r"chmod 600 .*_file") as refused:
        load(path, {"DANUBE_META_STORE_SECRET": "another"} if "raft" in text else {})
    assert "s3cr3t" not in str(refused.value)
    path.chmod(0o600)
    assert "s3cr3t" not in repr(load(path))


def test_a_file_of_the_original_with_a_secret_that_others_may_read_is_taken_with_a_warning(tmp_path: Path) -> None:
    tls = "tls: {cert_file: cert.pem, key_file: key.pem, ca_file: ca.pem}"
    secret = "jwt: {secret_key: s3cr3t-s3cr3t-s3cr3t-s3cr3t-s3cr3t}"
    path = written(tmp_path, f"auth:\n  mode: tls\n  {tls}\n  {secret}\n")
    path.chmod(0o644)
    loaded = load_broker_settings(path, {}, {})
    assert any("chmod 600" in one and "jwt_secret_file" in one for one in loaded.warnings)
    assert "s3cr3t" not in repr(loaded)


def test_a_file_without_a_secret_in_it_is_for_everybody(tmp_path: Path) -> None:
    path = written(tmp_path, "meta_store:\n  type: raft\n  secret:\n  secret_file: /etc/danube/secret\n")
    path.chmod(0o644)
    assert load(path).meta_store.secret_file == Path("/etc/danube/secret")
