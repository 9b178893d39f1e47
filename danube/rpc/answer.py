"""The status that ends a failed call, and the log of failures that no peer learns of."""

import logging
from dataclasses import replace

from danube.model.errors import DanubeError
from danube.model.limits import broker as limits
from danube.wire.status import Status, opaque_status, status_of

_log = logging.getLogger(__name__)


def status_for(error: Exception, what: str) -> Status:
    """The status that ends `what`; an error that must not cross the wire is logged here with its traceback."""
    if isinstance(error, DanubeError) and error.public:
        status = status_of(error)
        return replace(status, message=status.message[: limits.RPC_STATUS_MESSAGE_CHARS_MAX])
    _log.error("%s failed", what, exc_info=error)
    return status_of(error) if isinstance(error, DanubeError) else opaque_status()


def log_callback_failure(error: Exception, what: str) -> None:
    """Keep the traceback of a callback whose failure no peer learns of."""
    _log.error("%s: a callback failed after the call had ended", what, exc_info=error)
