"""The folder that brokers share: made for a cluster that has stored nothing, and asked for by its name later."""

from pathlib import Path
from typing import Any

import pytest

from danube.broker.config.original import translate_original
from danube.model.errors import DataFolderError
from danube.testing.in_process_broker import running_broker


def settings(folder: Path) -> dict[str, Any]:
    translated, _ = translate_original(
        {"storage": {"mode": "shared_fs", "durable": {"root": str(folder)}}}, "danube_broker.yml"
    )
    meta_store = {"type": "raft", "raft_addr": "127.0.0.1:0"}
    storage = {name.removeprefix("storage."): value for name, value in translated.items()}
    return {"mode": "cluster", "meta_store": meta_store, "telemetry_interval_s": 0, "storage": storage}


async def test_a_root_that_is_not_there_is_made_for_a_new_cluster_and_named_where_it_is_missed_later(
    tmp_path: Path,
) -> None:
    root = tmp_path / "shares" / "danube"
    async with running_broker(tmp_path / "broker", **settings(root)):
        assert root.is_dir()
    root.rename(tmp_path / "away")
    with pytest.raises(DataFolderError, match=f"{root} is not there.*mount it"):
        async with running_broker(tmp_path / "broker", **settings(root)):
            pass
    assert not root.exists(), "an unmounted share must not look like an empty one"
    root.mkdir()
    with pytest.raises(DataFolderError, match=f"{root} is not that of this cluster"):
        async with running_broker(tmp_path / "broker", **settings(root)):
            pass
    root.rmdir()
    (tmp_path / "away").rename(root)
    async with running_broker(tmp_path / "broker", **settings(root)):
        assert root.is_dir()
