"""Connections to Postgres, and its errors by what they mean to a task."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import errors
from pydantic import SecretStr

from danube.connect.failures import OtherSideError, RefusedError
from danube.model.errors import SettingsError
from danube.model.limits.faces import CONNECT_CHECK_TIMEOUT_S

_REFUSED = (psycopg.DataError, psycopg.IntegrityError)
_WRONG = (
    *(errors.InvalidPassword, errors.InvalidAuthorizationSpecification, errors.InvalidCatalogName),
    *(errors.InsufficientPrivilege, errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidColumnReference),
)
"""What only a person can mend."""


async def connect(dsn: SecretStr, **options: Any) -> psycopg.AsyncConnection[Any]:  # noqa: ANN401 - of libpq
    """A connection that commits each statement. Raises OtherSideError, SettingsError."""
    text = dsn.get_secret_value()
    try:
        psycopg.conninfo.conninfo_to_dict(text)
    except psycopg.ProgrammingError:
        raise SettingsError("the dsn cannot be read: use postgresql://user:password@host:port/database") from None
    async with other_side():
        return await psycopg.AsyncConnection.connect(
            text,
            autocommit=True,
            connect_timeout=round(CONNECT_CHECK_TIMEOUT_S),
            application_name="danube-connect",
            **options,
        )


@asynccontextmanager
async def other_side() -> AsyncIterator[None]:
    """Tell the kinds of Postgres's errors. Raises RefusedError, SettingsError, OtherSideError."""
    try:
        yield
    except _REFUSED as error:
        raise RefusedError(_sentence(error)) from None
    except _WRONG as error:
        raise SettingsError(f"Postgres: {_sentence(error)}") from None
    except psycopg.Error as error:
        raise OtherSideError(f"Postgres: {_sentence(error)}") from None


def _sentence(error: psycopg.Error) -> str:
    return " ".join((error.diag.message_primary or str(error)).split())
