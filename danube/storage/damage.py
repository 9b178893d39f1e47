"""Advice about damaged data, in the same words wherever it is found. Pure."""

import shlex

from danube.runtime.disk import next_step_of

_DATA_DIR = "--data-dir ..."  # storage does not know its folder; the command line does


def next_step(file: str | None, lost: str = "file") -> str:
    """The advice behind a sentence that names file, byte and fault; `lost` has to come back from a backup."""
    look = f"`danube-broker storage inspect {_DATA_DIR} --file {file}` shows the file, " if file else ""
    return (
        f"Restore the {lost} from a backup; or stop the broker and see what can be kept: {look}"
        f"`danube-broker storage verify {_DATA_DIR}` {'' if file else 'shows '}all damage, and"
        f" `danube-broker storage repair {_DATA_DIR}` what would be lost"
    )


def next_step_shared(folder: str, file: str | None, lost: str = "file") -> str:
    """The same of a journal in a folder that brokers share: commands open the folder of one broker, so a copy of it."""
    name = file.rpartition("/")[2] if file else ""
    look = f"`danube-broker storage inspect --data-dir COPY --file {name}` shows the file, and " if file else ""
    return (
        f"Restore the {lost} from a backup; or see what can be read: copy {folder} to COPY/journal, then {look}"
        "`danube-broker storage verify --data-dir COPY` shows all damage"
    )


def fault_of(error: OSError, name: str = "") -> str:
    """A disk's error with its file and the next step; `name` is for an error without a file."""
    file, what = error.filename or name, error.strerror or str(error) or type(error).__name__
    step = next_step_of(error)
    look = step[0].upper() + step[1:]
    return f"{file}: {what}. {look}" if file else f"{what}. {look}"


def with_data_folder(text: str, folder: str) -> str:
    """The same text; the commands in it can be run as they stand."""
    return text.replace(_DATA_DIR, f"--data-dir {shlex.quote(folder)}")
