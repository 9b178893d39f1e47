"""The whole error tree. Each class has a stable code, says whether a retry helps, and whether it may cross the wire.

A message is one sentence with the next step in it. `wire/status.py` maps the public ones to gRPC status, both ways.

    DanubeError
    |-- UnrecoverableError            the client library gave up for good
    |-- LookupError                   no broker could be found for a topic
    |-- InvalidRequestError           the request can never succeed as it is
    |   |-- InvalidNameError
    |   |-- MessageTooLargeError
    |   |-- InvalidBatchError         a record batch whose checksum or counts are wrong
    |   |-- SchemaInvalidError        a schema definition that its format, or a bound, refuses
    |   |-- TopicHeldError            an exclusive producer has the topic
    |   |-- SchemaRefusedError        a message that does not follow its topic's schema
    |   `-- TopicDeletedError         the producer's topic was deleted; attaching again does not create it anew
    |-- NotFoundError
    |   |-- TopicNotFoundError
    |   |-- NamespaceNotFoundError
    |   |-- SubscriptionNotFoundError
    |   |-- PlanNotFoundError
    |   |-- ProducerNotFoundError
    |   `-- ConsumerNotFoundError
    |-- AlreadyExistsError
    |   |-- TopicExistsError
    |   `-- ConsumerReplacedError     another client has taken the consumer's name over
    |-- PreconditionFailedError
    |   |-- DispatchStrategyMismatchError
    |   |-- ProducerFencedError       another exclusive producer took the topic over
    |   |-- SequenceError             a numbered batch that does not follow on what is remembered
    |   |-- SchemaIncompatibleError   a version that may not follow on the earlier ones
    |   |-- OffsetTrimmedError        below the first offset that retention has left
    |   `-- PlanRefusedError          too old, changed, rejected, applied: a new plan is needed
    |       `-- PlanWaitsError        a person has to approve it first
    |-- NotPermittedError
    |   |-- AccessLevelError          above the level that was chosen for this face
    |   |-- PayloadInvalidError       a payload that its schema refuses
    |   `-- SubscriptionBusyError     an Exclusive subscription has a connected consumer
    |-- UnauthenticatedError
    |-- LimitReachedError             a policy or a bound of the broker
    |-- UnavailableError              not now or not here; look up and try again
    |   |-- BrokerUnreachableError
    |   |-- TopicNotServedError       served elsewhere, or moving
    |   |-- StorageUnavailableError   the journal stopped, the disk is full
    |   |-- OverloadedError           the broker's backlog is at its bound
    |   `-- ShuttingDownError
    |-- DeadlineExceededError
    |-- CancelledError
    |-- UnsupportedError              a feature that is not there (yet)
    |   `-- MissingLibraryError       it takes an extra that is not installed
    |-- InternalError
    |   `-- AcknowledgeError          an acknowledgement that names nothing this broker has
    |-- SettingsError                 wrong flags, variables or settings file
    |-- MetadataError
    |   |-- VersionConflictError      a compare-and-set or transaction lost
    |   |   `-- StorageChangedError   others changed where these topics are stored
    |   |-- NewerRecordError          another version wrote a record
    |   `-- UnknownOutcomeError       the command may or may not have been applied
    `-- StorageError                  of this machine's files; never crosses the wire
        |-- DataFolderError           unreadable, not a data folder
        |   |-- DataFolderInUseError  another broker has it
    |   |-- DataFolderAccessError path, permissions or room; what is in it may be sound
        |   `-- NewerDataFolderError  a later version wrote it
        |-- DamagedDataError          damage below what was known to be synced
        `-- JournalStoppedError       a failed sync: nothing more is written
            `-- JournalFencedError    another broker has taken the journal's topics over
"""

from typing import ClassVar


class DanubeError(Exception):
    """Anything that goes wrong in Danube and has a name."""

    code: ClassVar[str] = "DANUBE_ERROR"
    """Stable across releases; what scripts and other clients compare."""
    retryable: ClassVar[bool] = False
    """True when the same call may succeed later."""
    public: ClassVar[bool] = True
    """True when it may cross the wire; any other error becomes one opaque internal error."""


class UnrecoverableError(DanubeError):
    """The client library cannot mend this by retrying."""

    code = "UNRECOVERABLE"


class LookupError(DanubeError):  # noqa: A001 - a public name of danube-client 0.5.0
    """No broker could be found for a topic."""

    code = "LOOKUP_FAILED"
    retryable = True


class InvalidRequestError(DanubeError):
    """The request can never succeed as it is."""

    code = "INVALID_REQUEST"


class InvalidNameError(InvalidRequestError):
    """A name breaks the grammar of names."""

    code = "INVALID_NAME"


class MessageTooLargeError(InvalidRequestError):
    """A message is larger than any client could receive, or than its topic's policy allows."""

    code = "MESSAGE_TOO_LARGE"


class InvalidBatchError(InvalidRequestError):
    """A record batch whose layout, counts or checksum are wrong."""

    code = "INVALID_BATCH"


class SchemaInvalidError(InvalidRequestError):
    """A schema definition that its format, or a bound, refuses: `path` is the place, `reason` the cause."""

    code = "SCHEMA_INVALID"

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


class TopicHeldError(InvalidRequestError):
    """An exclusive producer has the topic, and nobody else may publish to it.

    An invalid request on the wire: after it no official client sends again. After PERMISSION_DENIED the Java client
    does, at once and for ever, and after RESOURCE_EXHAUSTED all of them do.
    """

    code = "TOPIC_HELD"


class TopicDeletedError(InvalidRequestError):
    """The topic of an attached producer was deleted, and only an application that asks for it creates it anew.

    An invalid request on the wire: after it every official client tells its application. After UNAVAILABLE they create
    the topic again, and after NOT_FOUND the Java client does.
    """

    code = "TOPIC_DELETED"


class SchemaRefusedError(InvalidRequestError):
    """A message does not follow the schema of its topic.

    An invalid request on the wire: after it no official client sends again.
    """

    code = "SCHEMA_REFUSED"


class NotFoundError(DanubeError):
    """The named object does not exist."""

    code = "NOT_FOUND"


class TopicNotFoundError(NotFoundError):
    """No such topic."""

    code = "TOPIC_NOT_FOUND"


class NamespaceNotFoundError(NotFoundError):
    """No such namespace."""

    code = "NAMESPACE_NOT_FOUND"


class SubscriptionNotFoundError(NotFoundError):
    """No such subscription on that topic."""

    code = "SUBSCRIPTION_NOT_FOUND"


class PlanNotFoundError(NotFoundError):
    """No such plan, or it is forgotten."""

    code = "PLAN_NOT_FOUND"


class ProducerNotFoundError(NotFoundError):
    """No producer with that id on this broker."""

    code = "PRODUCER_NOT_FOUND"


class ConsumerNotFoundError(NotFoundError):
    """No consumer with that id on this broker."""

    code = "CONSUMER_NOT_FOUND"


class AlreadyExistsError(DanubeError):
    """The object exists already."""

    code = "ALREADY_EXISTS"


class TopicExistsError(AlreadyExistsError):
    """The topic, or a partitioned one of the same base name, is there already."""

    code = "TOPIC_EXISTS"


class ConsumerReplacedError(AlreadyExistsError):
    """Another client attached under the same consumer name, and has its place.

    It is ALREADY_EXISTS on the wire, after which all official clients but the Python one tell the application.
    """

    code = "CONSUMER_REPLACED"


class PreconditionFailedError(DanubeError):
    """The state of the cluster does not allow the request."""

    code = "PRECONDITION_FAILED"


class DispatchStrategyMismatchError(PreconditionFailedError):
    """The topic is reliable and the producer is not, or the other way round."""

    code = "DISPATCH_STRATEGY_MISMATCH"


class ProducerFencedError(PreconditionFailedError):
    """Another exclusive producer has taken the topic over: this one stores nothing more."""

    code = "PRODUCER_FENCED"


class SequenceError(PreconditionFailedError):
    """A numbered batch neither follows on the last one that is remembered nor repeats one of them."""

    code = "SEQUENCE"


class SchemaIncompatibleError(PreconditionFailedError):
    """A version of a schema may not follow on the earlier ones of its subject."""

    code = "SCHEMA_INCOMPATIBLE"


class OffsetTrimmedError(PreconditionFailedError):
    """An offset below the first one that can be read: retention let go of it."""

    code = "OFFSET_TRIMMED"

    def __init__(self, message: str, start_offset: int = 0) -> None:
        super().__init__(message)
        self.start_offset = start_offset
        """The first offset that can be read; it does not cross the wire."""


class PlanRefusedError(PreconditionFailedError):
    """A plan cannot be applied, or decided about; a new one may be."""

    code = "PLAN_REFUSED"


class PlanWaitsError(PlanRefusedError):
    """A plan waits for a person's approval."""

    code = "PLAN_WAITS"


class NotPermittedError(DanubeError):
    """The caller may not do this."""

    code = "NOT_PERMITTED"


class AccessLevelError(NotPermittedError):
    """An operation is above the access level that was chosen at start."""

    code = "ACCESS_LEVEL"


class PayloadInvalidError(NotPermittedError):
    """A payload that its schema refuses: `path` is the field, `reason` the cause.

    Not permitted on the wire: after it every official client tells its application and sends nothing again.
    """

    code = "PAYLOAD_INVALID"

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


class SubscriptionBusyError(NotPermittedError):
    """An Exclusive subscription already has a connected consumer."""

    code = "SUBSCRIPTION_BUSY"


class UnauthenticatedError(DanubeError):
    """The caller did not prove who it is."""

    code = "UNAUTHENTICATED"


class LimitReachedError(DanubeError):
    """A policy or a bound of the broker is reached."""

    code = "LIMIT_REACHED"
    retryable = True


class UnavailableError(DanubeError):
    """Not now or not here: look the topic up again and retry."""

    code = "UNAVAILABLE"
    retryable = True


class BrokerUnreachableError(UnavailableError):
    """No connection to the broker."""

    code = "BROKER_UNREACHABLE"


class TopicNotServedError(UnavailableError):
    """This broker does not serve the topic, or not any more."""

    code = "TOPIC_NOT_SERVED"


class StorageUnavailableError(UnavailableError):
    """This broker cannot write at the moment."""

    code = "STORAGE_UNAVAILABLE"


class OverloadedError(UnavailableError):
    """The broker's backlog is at its bound."""

    code = "OVERLOADED"


class ShuttingDownError(UnavailableError):
    """The broker is going down."""

    code = "SHUTTING_DOWN"


class DeadlineExceededError(DanubeError):
    """No answer in time; the request may still have been carried out."""

    code = "DEADLINE_EXCEEDED"
    retryable = True


class CancelledError(DanubeError):
    """The caller went away."""

    code = "CANCELLED"


class UnsupportedError(DanubeError):
    """A feature that this broker does not have (yet)."""

    code = "UNSUPPORTED"


class MissingLibraryError(UnsupportedError):
    """A feature that takes a library which is not installed: of an extra."""

    code = "MISSING_LIBRARY"


class InternalError(DanubeError):
    """A fault of the broker; its log has the details."""

    code = "INTERNAL"


class AcknowledgeError(InternalError):
    """An acknowledgement that names a topic or subscription which this broker does not have.

    It stays an internal error on the wire: the Java client takes NOT_FOUND as "subscribe again, at once, for ever".
    """

    code = "ACKNOWLEDGE_FAILED"


class SettingsError(DanubeError):
    """Wrong flags, variables or settings file."""

    code = "SETTINGS"
    public = False


class MetadataError(DanubeError):
    """The metadata store failed."""

    code = "METADATA"


class VersionConflictError(MetadataError):
    """A compare-and-set or a transaction found another version than it expected."""

    code = "VERSION_CONFLICT"
    retryable = True


class StorageChangedError(VersionConflictError):
    """Others changed where topics are stored, or deleted them: read their storage records again."""

    code = "STORAGE_CHANGED"
    public = False

    def __init__(self, message: str, topic_ids: frozenset[int] = frozenset()) -> None:
        super().__init__(message)
        self.topic_ids = topic_ids
        """Ids of the topics that lost. The others of the same call were not written either, and may be tried again."""


class UnknownOutcomeError(MetadataError):
    """The command may or may not have been applied; submit the same id again until the answer is definite."""

    code = "UNKNOWN_OUTCOME"
    retryable = True


class StorageError(DanubeError):
    """A fault of this machine's files."""

    code = "STORAGE"
    public = False


class DataFolderError(StorageError):
    """The data folder cannot be used."""

    code = "DATA_FOLDER"


class DataFolderInUseError(DataFolderError):
    """Another broker runs on this data folder."""

    code = "DATA_FOLDER_IN_USE"


class DataFolderAccessError(DataFolderError):
    """A file of the data folder cannot be opened for its path, its permissions, or want of room. It may be sound."""

    code = "DATA_FOLDER_ACCESS"


class NewerDataFolderError(DataFolderError):
    """Another version wrote the data folder, or a file in it."""

    code = "DATA_FOLDER_NEWER"


class NewerRecordError(MetadataError):
    """Another version wrote a record of the metadata."""

    code = "METADATA_NEWER"


class DamagedDataError(StorageError):
    """Bytes that were known to be synced are not what was written."""

    code = "DAMAGED_DATA"


class JournalStoppedError(StorageError):
    """A sync failed: what is on the disk is unknown, and nothing more is written to this journal."""

    code = "JOURNAL_STOPPED"


class JournalFencedError(JournalStoppedError):
    """Another broker has taken the journal's topics over: nothing more is written to it, and nothing acknowledged."""

    code = "JOURNAL_FENCED"
