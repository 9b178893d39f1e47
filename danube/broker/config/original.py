"""Translation of the original's settings file into ours.

A setting without a counterpart is refused where leaving it out would weaken security, durability or ownership; else it
is left out with a warning.
"""

from collections.abc import Callable, Mapping
from typing import Any

from danube.model.errors import SettingsError
from danube.model.limits.broker import MIB
from danube.model.policies import POLICY_NAMES

_LATER = {
    "storage.write_buffer": "a write buffer in front of the disk",
}
"""Keys of features that this version does not have. They are refused: without them something would be less safe."""

_ANOTHER = {
    "load_manager.rebalancing.min_brokers_for_rebalance": "two brokers are enough, and needed",
    "load_manager.rebalancing.cooldown_seconds": "moves follow one another: see `rebalance_parallel_moves`",
    "auth.jwt.expiration_time": "a token says itself how long it counts (security tokens create --ttl)",
    "storage.local_wal_root": "everything is kept below `data_dir`",
    "storage.cache_root": "everything is kept below `data_dir`",
    "storage.root": "everything is kept below `data_dir`",
    "storage.metadata_prefix": "the metadata is kept by `meta_store`, without a prefix",
    "storage.metadata_root": "the metadata is kept by `meta_store`, without a prefix",
    "storage.wal.dir": "everything is kept below `data_dir`",
    "storage.wal.file_name": "the names of files are fixed",
    "storage.wal.cache_capacity": "ours counts bytes, not messages: set `cache_bytes_max`",
    "storage.wal.advanced.cache_capacity": "ours counts bytes, not messages: set `cache_bytes_max`",
    "storage.wal.file_sync": "messages are synced before they are acknowledged: see `durability`",
    "storage.wal.advanced.file_sync": "messages are synced before they are acknowledged: see `durability`",
    "storage.durable": "it goes with the storage.mode shared_fs or object_store",
    "storage.object_store": "it goes with the storage.mode object_store",
    "storage": "ours are `durability` and those below it",
}
"""Keys without effect here, left out with a warning; the longer ones first."""

_SATISFIED = {
    "storage.local_retention.check_interval_minutes",
    "storage.wal.retention.check_interval_minutes",
}
"""Keys left out silently: retention runs several times a minute."""

_KEYS = {
    "broker.advertised_listeners.broker_url": "advertised_addr",
    "broker.advertised_listeners.connect_url": "connect_url",
    "meta_store.data_dir": "data_dir",
    "dispatch.max_unacked_messages": "max_unacked_messages",
    "storage.wal.rotation.max_bytes": "journal_file_bytes_max",
    "load_manager.assignment_strategy": "assignment_strategy",
    "load_manager.load_report_interval_seconds": "load_report_interval_s",
    "load_manager.rebalancing.check_interval_seconds": "rebalance_check_interval_s",
    "load_manager.rebalancing.max_moves_per_hour": "rebalance_moves_per_hour",
    "load_manager.rebalancing.min_topic_age_seconds": "rebalance_cool_down_s",
    "load_manager.rebalancing.blacklist_topics": "rebalance_excluded_topics",
    "admin_tls": "auth.admin_tls",
    "auth.tls.cert_file": "auth.tls_cert",
    "auth.tls.key_file": "auth.tls_key",
    "auth.tls.ca_file": "auth.tls_ca",
    "auth.jwt.secret_key": "auth.jwt_secret",
    "auth.jwt.issuer": "auth.jwt_issuer",
}
_KEYS |= {f"policies.{name}": name for name in POLICY_NAMES}

_SHARED_FOLDER = {"storage.durable.root", "storage.root"}
"""Names of the folder of `shared_fs`."""

_Scaled = tuple[str, Callable[[float], float]]
_SCALED: dict[str, _Scaled] = {
    "storage.wal.rotation.max_hours": ("journal_file_age_s", lambda hours: hours * 3_600),
}
for _folder in ("storage.local_retention", "storage.wal.retention"):
    _SCALED[f"{_folder}.time_minutes"] = ("retention_time_s", lambda minutes: round(minutes * 60))
    _SCALED[f"{_folder}.size_mb"] = ("retention_bytes", lambda megabytes: round(megabytes * MIB))
"""Numbers in another unit than ours."""

_IS_AUTOMATIC, _MODE = "load_manager.rebalancing.enabled", "load_manager.rebalancing.aggressiveness"
"""One of our settings together: an aggressiveness counts where it is enabled."""

_PORTS = {
    "client": "broker_addr",
    "admin": "admin_addr",
    "prometheus": "prom_exporter",
    "raft": "meta_store.raft_addr",
}


def translate_original(content: Mapping[str, Any], file_name: str) -> tuple[dict[str, Any], list[str]]:
    """Translate the original's nested keys into ours; answers settings and warnings. Our own keys pass unchanged.

    Raises SettingsError for a key that must not be left out.
    """
    translated: dict[str, Any] = {}
    warnings: list[str] = []
    storage = content.get("storage")
    mode = storage.get("mode") if isinstance(storage, dict) else None
    for key, value in _leaves(content):
        if key in {"storage.folder", "storage.mode"}:
            translated[key] = value
        elif mode == "shared_fs" and key in _SHARED_FOLDER:
            translated["storage.folder"] = value
        elif mode == "object_store" and (name := _object_store_key(key)) is not None:
            translated |= _object_store(name, value, file_name)
        elif key in {_IS_AUTOMATIC, _MODE}:
            translated["rebalance_mode"] = _automatic_mode(content)
        elif key in _SCALED:
            name, scale = _SCALED[key]
            translated[name] = scale(_number(key, value, file_name))
        elif key in _KEYS:
            translated[_KEYS[key]] = value
        elif _is_needless(key, value):
            continue
        elif warning := _left_out(key, file_name):
            warnings.append(warning)
        else:
            translated[key] = value
    broker = content.get("broker")
    if isinstance(broker, dict):
        translated.update(_addresses(broker))
    return translated, warnings


def _automatic_mode(content: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever the file holds
    rebalancing = content["load_manager"]["rebalancing"]
    return rebalancing.get("aggressiveness", "balanced") if rebalancing.get("enabled") else "off"


_OBJECT_BLOCKS = ("storage.durable.", "storage.object_store.")
_OBJECT_KEYS = {
    **{name: name for name in ("region", "endpoint", "access_key", "secret_key", "session_token", "profile")},
    "virtual_host_style": "virtual_host_style",
    "root": "url",
    "account_name": "access_key",
    "account_key": "secret_key",
}
_OBJECT_SATISFIED = {"backend", "project", "anonymous", "role_arn", "credentials_path", "credentials_json"}
"""Keys that the URL, or the environment of the library, says as well."""


def _object_store_key(key: str) -> str | None:
    """The original's name of a setting of its object store; None for another key."""
    for block in _OBJECT_BLOCKS:
        if key.startswith(block) and (name := key.removeprefix(block)) in {*_OBJECT_KEYS, *_OBJECT_SATISFIED}:
            return name
    return None


def _object_store(name: str, value: Any, file_name: str) -> dict[str, Any]:  # noqa: ANN401 - whatever the file holds
    if name == "backend":
        if value not in {"s3", "gcs", "azblob"}:
            raise SettingsError(f"{file_name}: the backend {str(value)[:60]!r} is not known: s3, gcs or azblob")
        return {}
    if name in _OBJECT_SATISFIED:
        return {}
    if name == "root" and "://" not in str(value):
        value = f"az://{value}"  # the original gives a container without a scheme
    return {f"object_store.{_OBJECT_KEYS[name]}": value}


def _is_needless(key: str, value: Any) -> bool:  # noqa: ANN401 - whatever the file holds
    """True if the key changes nothing, or is translated with others."""
    if key == "broker.host" or key in _SATISFIED:
        return True
    if key.startswith("broker.ports."):
        return True
    if (key, value) == ("auth.mode", "none"):  # values may be lists: no set
        return True
    if key == "meta_store.seed_nodes" and not value:
        return True
    return not value and (_of(_LATER, key) is not None or _of(_ANOTHER, key) is not None)


def _left_out(key: str, file_name: str) -> str | None:
    """The warning for a key that is left out, None for one that is not. Raises SettingsError where it must not be."""
    later, another = _of(_LATER, key), _of(_ANOTHER, key)
    if later is not None:
        raise SettingsError(f"{file_name}: {key} needs {later}, which this version does not have yet: remove it")
    return f"{file_name}: {key} changes nothing here, {another}" if another is not None else None


def _of(table: Mapping[str, str], key: str) -> str | None:
    return next((text for prefix, text in table.items() if f"{key}.".startswith(f"{prefix}.")), None)


def _number(key: str, value: Any, file_name: str) -> float:  # noqa: ANN401 - whatever the file holds
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise SettingsError(f"{file_name}: {key} is {str(value)[:60]!r}: give a number")
    return value


def _addresses(broker: Mapping[str, Any]) -> dict[str, str]:
    host = broker.get("host", "127.0.0.1")
    ports = broker.get("ports") or {}
    return {ours: f"{host}:{ports[name]}" for name, ours in _PORTS.items() if ports.get(name)}


def _leaves(content: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in content.items():
        if isinstance(value, dict):
            found += _leaves(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", value))
    return found
