"""A listing goes on to its last row, and a broker whose pages have no end is not followed forever."""

from pydantic import Field

from danube.admin.cli.call import Shell
from danube.admin.cli.output.options import OutputOptions
from danube.admin.operations.fields import PageParams, PageResult, Params, Result
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.admin.target import Target
from danube.model.limits.faces import CLI_PAGES_MAX
from danube.model.plans.plan import Effect
from tests.faces.memory_gateway import MemoryGateway, connect_to


class Row(Result):
    """One."""

    name: str = Field(description="Its name.")


class Rows(PageResult):
    """Some."""

    rows: list[Row] = Field(description="In order.")


def listing(last: int | None) -> Operation[PageParams, Rows]:
    """A row a page, up to the last one, if there is one."""

    async def run(call: Call, params: PageParams) -> Rows:
        number = int(params.cursor or 0)
        following = None if number == last else str(number + 1)
        return Rows(total=99, next_cursor=following, rows=[Row(name=f"row-{number}")])

    return Operation(
        name="list_rows",
        words=("rows", "list"),
        summary="List rows.",
        effect=Effect.READ,
        params=PageParams,
        result=Rows,
        run=run,
        listing=Listing(rows="rows", key="name"),
        examples=(Example("All"),),
    )


def rows_of(gateway: MemoryGateway, last: int | None, params: Params) -> list[str]:
    shell = Shell(connect=connect_to(gateway), target=Target(), output=OutputOptions())
    result = shell.call(listing(last), params)
    assert isinstance(result, Rows)
    return [row.name for row in result.rows]


def test_without_a_limit_every_page_is_read(gateway: MemoryGateway) -> None:
    assert rows_of(gateway, 3, PageParams()) == ["row-0", "row-1", "row-2", "row-3"]


def test_with_a_limit_one_page_is_read(gateway: MemoryGateway) -> None:
    assert rows_of(gateway, 3, PageParams(limit=1)) == ["row-0"]


def test_pages_without_end_are_not_followed_forever(gateway: MemoryGateway) -> None:
    assert len(rows_of(gateway, None, PageParams())) == CLI_PAGES_MAX + 1
