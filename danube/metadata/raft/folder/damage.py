"""What is said of files in the folder `raft/` that cannot be used, and what to do then. Pure."""

from danube.model.errors import DamagedDataError, DataFolderError

NEXT_STEP = (
    "Look into it with: danube-broker metadata inspect --data-dir ... If the other members are well, remove this one "
    "from the cluster, delete the folder raft/ in its data folder and add it again: it comes back as a new member. "
    "If there are no others, restore the data folder from a backup"
)
"""Behind the sentence that names file, byte and trouble."""


def damaged(name: str, at: int, what: str) -> DamagedDataError:
    """The error for bytes that are not what was written and synced."""
    return DamagedDataError(f"{name}, byte {at}: {what}. {NEXT_STEP}")


def too_new(name: str, version: int) -> DataFolderError:
    """The error for a format that this program does not know yet."""
    return DataFolderError(f"{name} has format version {version}: use the Danube that wrote it")


def of_another(name: str, node_id: int, own_id: int) -> DataFolderError:
    """The error for a file that some other member wrote."""
    return DataFolderError(
        f"{name} belongs to member {node_id}, this is member {own_id}: give each broker a data folder of its own"
    )
