"""Exit codes of every command: a promise to scripts.

0  done                          5  the broker cannot be reached, or not now
1  failed                        6  refused: not permitted, or the state does not allow it
2  wrong usage or settings       7  the data folder cannot be used, or is in use
3  planned, and not done: needs  8  stored data is damaged
   --yes or a person's approval  9  a check warns
4  what was named is not there   10  a check is critical
                                 130  interrupted
"""

from enum import IntEnum

from danube.model import errors
from danube.model.errors import DanubeError


class ExitCode(IntEnum):
    """Outcome of a command."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NEEDS_YES = 3
    NOT_FOUND = 4
    UNAVAILABLE = 5
    REFUSED = 6
    DATA_FOLDER = 7
    DAMAGED_DATA = 8
    WARNING = 9
    CRITICAL = 10
    INTERRUPTED = 130


_CODES: dict[type[DanubeError], ExitCode] = {
    errors.InvalidRequestError: ExitCode.USAGE,
    errors.SettingsError: ExitCode.USAGE,
    errors.NotFoundError: ExitCode.NOT_FOUND,
    errors.LookupError: ExitCode.UNAVAILABLE,
    errors.UnavailableError: ExitCode.UNAVAILABLE,
    errors.DeadlineExceededError: ExitCode.UNAVAILABLE,
    errors.NotPermittedError: ExitCode.REFUSED,
    errors.PlanWaitsError: ExitCode.NEEDS_YES,
    errors.AlreadyExistsError: ExitCode.REFUSED,
    errors.PreconditionFailedError: ExitCode.REFUSED,
    errors.UnauthenticatedError: ExitCode.REFUSED,
    errors.DataFolderError: ExitCode.DATA_FOLDER,
    errors.NewerRecordError: ExitCode.DATA_FOLDER,
    errors.DamagedDataError: ExitCode.DAMAGED_DATA,
    errors.DanubeError: ExitCode.FAILURE,
}
"""The nearest ancestor in this table decides."""


def exit_code_of(error: DanubeError) -> ExitCode:
    """The code with which a command ends that ends with `error`."""
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
