"""Sites to test against: the one that everybody gets, and one that may do everything."""

from collections.abc import AsyncIterator

import pytest

from danube.admin.access import AccessLevel
from tests.unit.admin.web.site import TOKEN, Site, site


@pytest.fixture
async def readonly() -> AsyncIterator[Site]:
    """On loopback, without a token."""
    async with site() as made:
        yield made


@pytest.fixture
async def full() -> AsyncIterator[Site]:
    """Access `destroy`, with a token; nobody is logged in."""
    async with site(AccessLevel.DESTROY, token=TOKEN) as made:
        yield made


@pytest.fixture
async def logged_in(full: Site) -> Site:
    """The same, in the browser of somebody who gave the token."""
    await full.log_in()
    return full
