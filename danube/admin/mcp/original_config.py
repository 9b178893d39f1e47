"""The original's `mcp-config.yml`, as far as it means something here."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from danube.admin.present import printable
from danube.model.errors import SettingsError
from danube.runtime.settings import read_settings_file

_NOT_USED = {
    "prometheus_url": "metrics of brokers are read by other means",
    "deployment": "logs of brokers are read by other means",
    "resources": "the original does not use it either",
}


@dataclass(frozen=True, slots=True)
class OriginalConfig:
    """The part of such a file that counts."""

    broker_endpoint: str
    remarks: tuple[str, ...]
    """What of the file has no meaning here, a sentence each."""


def read_original_config(path: Path) -> OriginalConfig:
    """Read the file. Raises SettingsError, also where `broker_endpoint` is missing, as the original does."""
    values: dict[str, Any] = dict(read_settings_file(path))
    endpoint = values.pop("broker_endpoint", None)
    if not isinstance(endpoint, str) or not endpoint:
        raise SettingsError(f"{path} has no broker_endpoint: write `broker_endpoint: http://127.0.0.1:50051`")
    return OriginalConfig(endpoint, tuple(_remark(path, str(name)) for name in values))


def _remark(path: Path, name: str) -> str:
    reason = _NOT_USED.get(name)
    return f"{path}: {name} is not used: {reason}" if reason else f"{path}: {printable(name[:60])} is not known"
