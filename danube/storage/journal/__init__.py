"""One journal per broker: all topics' batches and cursors, one write and one sync a round."""

from danube.storage.journal.journal import Journal
from danube.storage.settings import JournalSettings, JournalStats

__all__ = ["Journal", "JournalSettings", "JournalStats"]
