"""What a broker's settings say to its storage."""

from danube.broker.config.settings import BrokerSettings
from danube.model.errors import SettingsError
from danube.storage.journal.settings import JournalSettings
from danube.storage.segment.codec import Codec, is_available
from danube.storage.settings import StorageSettings
from danube.storage.watermarks import Watermarks


def storage_settings(settings: BrokerSettings) -> StorageSettings:
    """How the storage of a broker with these settings works. Raises SettingsError where a compression is not there."""
    codec = Codec[settings.segment_compression.upper()]
    if not is_available(codec):
        raise SettingsError(
            f"segment_compression {settings.segment_compression} needs a package that is not there: "
            "pip install zstandard, or run Python 3.14 or newer"
        )
    return StorageSettings(
        journal=JournalSettings(
            durability=settings.durability,
            sync_interval_s=settings.sync_interval_ms / 1_000,
            file_bytes_max=settings.journal_file_bytes_max,
            cache_bytes_max=settings.cache_bytes_max,
        ),
        watermarks=Watermarks(
            warn_below_bytes=settings.disk_warn_free_bytes, refuse_below_bytes=settings.disk_refuse_free_bytes
        ),
        journal_file_age_s=settings.journal_file_age_s,
        segment_bytes_max=settings.segment_bytes_max,
        codec=codec,
    )
