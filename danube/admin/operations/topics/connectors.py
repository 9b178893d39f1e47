"""connectors.*: data in and out of topics, as the runners of `danube connect` tell."""

from typing import Annotated

from pydantic import Field

from danube.admin.operations.fields import VOLATILE, WIDE, PageParams, PageResult, Params, Result
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.admin.operations.plan_views import caller_text
from danube.model.errors import NotFoundError
from danube.model.limits.faces import CONNECT_NAME_CHARS_MAX, CONNECT_REPORT_S
from danube.model.plans.plan import Effect
from danube.model.records.connectors import Change, ChangeConnector, ConnectorBook, Status, worst

TOOLSET = "connect"


class ConnectorParams(Params):
    """One connector."""

    name: Annotated[str, Field(min_length=1, max_length=CONNECT_NAME_CHARS_MAX)] = Field(
        description="The connector_name of its file."
    )


class ConnectorRow(Result):
    """One connector, over all its tasks and runners."""

    name: str = Field(description="Its connector_name.")
    kind: Annotated[str, VOLATILE] = Field(description="Name of the connector in `danube connect list`, or a function.")
    direction: Annotated[str, VOLATILE] = Field(description="`sink`: out of topics. `source`: into a topic.")
    delivery: Annotated[str, VOLATILE, WIDE] = Field(description="`exactly once` or `at least once`.")
    status: Annotated[str, VOLATILE] = Field(
        description="Of its worst task: `failed` (wrong configuration), `retrying`, `starting`, `standby`, `paused`,"
        " `stopped` or `running`; `away` while no runner tells of it."
    )
    tasks: Annotated[int, VOLATILE] = Field(description="Its tasks: one for each partition of a sink.")
    running: Annotated[int, VOLATILE] = Field(description="Those that run.")
    rate: Annotated[float, VOLATILE] = Field(title="Per s", description="Records a second of late.")
    written: Annotated[int, VOLATILE] = Field(description="Records since its runners began.")
    dead: Annotated[int, VOLATILE] = Field(description="Those that went to the dead letters.")
    restarts: Annotated[int, VOLATILE] = Field(description="Times that a task began anew after a failure.")
    runners: Annotated[list[str], VOLATILE, WIDE] = Field(description="Processes that have it.")
    reason: Annotated[str, VOLATILE, WIDE] = Field(description="Why its worst task does not run; empty otherwise.")


class ConnectorList(PageResult):
    """Connectors."""

    connectors: list[ConnectorRow] = Field(description="In the order of their names.")


class TaskRow(Result):
    """One task of a connector."""

    task: str = Field(description="Topic or partition; of a source that is pushed to, the connector.")
    runner: str = Field(description="Process that has it.")
    status: str = Field(description="As in list_connectors.")
    since_ms: int = Field(description="Begin of this status, milliseconds since the epoch.")
    rate: float = Field(title="Per s", description="Records a second of late.")
    written: int = Field(description="Records since its runner began.")
    dead: int = Field(description="Those that went to the dead letters.")
    restarts: int = Field(description="Times that it began anew after a failure.")
    subscription: Annotated[str, WIDE] = Field(description="Subscription that it reads by; empty for a source.")
    position: Annotated[str, WIDE] = Field(
        description="Of a sink, the end offset of what it wrote; of a source, its position on the other side."
    )
    reason: Annotated[str, WIDE] = Field(description="Why it does not run; empty otherwise.")


class ConnectorDetail(ConnectorRow):
    """One connector with its tasks."""

    paused: bool = Field(description="Somebody paused it.")
    set_by: Annotated[str, VOLATILE, WIDE] = Field(description="Caller that changed it last; empty for nobody.")
    task_rows: Annotated[list[TaskRow], VOLATILE] = Field(title="Tasks", description="Its tasks, the worst first.")


class ConnectorChanged(Result):
    """A wish for a connector."""

    name: str = Field(description="The connector.")
    paused: bool = Field(description="It is paused, or will be.")
    next_step: str = Field(description="What happens next.")


async def _list(call: Call, _: PageParams) -> ConnectorList:
    book = await call.gateway.connectors()
    return ConnectorList(connectors=[ConnectorRow.model_validate(_row(book, name)) for name in book.names()])


async def _describe(call: Call, params: ConnectorParams) -> ConnectorDetail:
    book = await call.gateway.connectors()
    if params.name not in book.names():
        raise NotFoundError(f"no runner has a connector {params.name!r}: list the connectors")
    wish, order = book.wish_for(params.name), list(Status)
    tasks = sorted(book.tasks_of(params.name), key=lambda each: (order.index(each[1].status), each[1].task))
    rows = [TaskRow.of(task, runner=runner) for runner, task in tasks]
    return ConnectorDetail.of(wish, **_row(book, params.name), task_rows=rows)


def _row(book: ConnectorBook, name: str) -> dict[str, object]:
    told = book.tasks_of(name)
    tasks = [task for _, task in told]
    status = worst(task.status for task in tasks)
    first = tasks[0] if tasks else None
    return {
        "name": name,
        "kind": first.kind if first else "",
        "direction": first.direction if first else "",
        "delivery": first.delivery if first else "",
        "status": status or "away",
        "tasks": len(tasks),
        "running": sum(task.status is Status.RUNNING for task in tasks),
        "rate": sum(task.rate for task in tasks),
        "written": sum(task.written for task in tasks),
        "dead": sum(task.dead for task in tasks),
        "restarts": sum(task.restarts for task in tasks),
        "runners": sorted({runner for runner, _ in told}),
        "reason": next((task.reason for task in tasks if task.status is status), ""),
    }


_Changing = Operation[ConnectorParams, ConnectorChanged]
_SOON = f"its runners hear of it within {CONNECT_REPORT_S:.0f} s"


def _operation(change: Change, verb: str, summary: str, description: str = "") -> _Changing:
    async def run(call: Call, params: ConnectorParams) -> ConnectorChanged:
        wanted = ChangeConnector(connector=params.name, change=change, set_by=caller_text(call.caller))
        wish = await call.gateway.change_connector(wanted)
        return ConnectorChanged(name=params.name, paused=wish.paused, next_step=_SOON)

    return Operation(
        name=f"{change}_connector",
        words=("connectors", verb),
        summary=summary,
        description=description,
        effect=Effect.WRITE,
        params=ConnectorParams,
        result=ConnectorChanged,
        run=run,
        positional=("name",),
        done=f"{{name}}: {_SOON}",
        is_idempotent=change in {Change.PAUSE, Change.RESUME},
        toolset=TOOLSET,
        examples=(Example("Orders", {"name": "orders-out"}),),
    )


LIST_CONNECTORS = Operation(
    name="list_connectors",
    words=("connectors", "list"),
    summary="List the connectors that run, with status and rate.",
    description="Runners of `danube connect run` tell of them; what does not tell any more is gone after 20 s.",
    effect=Effect.READ,
    params=PageParams,
    result=ConnectorList,
    run=_list,
    pages=Listing(rows="connectors", name="name"),
    toolset=TOOLSET,
    examples=(Example("Every connector"),),
)
DESCRIBE_CONNECTOR = Operation(
    name="describe_connector",
    words=("connectors", "describe"),
    summary="Describe a connector: its tasks, their positions, and why they do not run.",
    effect=Effect.READ,
    params=ConnectorParams,
    result=ConnectorDetail,
    run=_describe,
    positional=("name",),
    rows="task_rows",
    toolset=TOOLSET,
    examples=(Example("Orders", {"name": "orders-out"}),),
)
OPERATIONS = (
    LIST_CONNECTORS,
    DESCRIBE_CONNECTOR,
    _operation(
        Change.PAUSE,
        "pause",
        "Pause a connector: its tasks end after what is under way, and stay so until it is resumed.",
        "Its backlog grows as lag. A runner that starts meanwhile leaves it paused.",
    ),
    _operation(Change.RESUME, "resume", "Resume a connector that was paused."),
    _operation(
        Change.RESTART,
        "restart",
        "Restart the tasks of a connector, also those that failed.",
        "They read no file again: for another configuration start the process anew.",
    ),
    _operation(
        Change.REPLAY,
        "replay-dead",
        "Write the dead letters of a sink again, once their cause is mended.",
        "Its runner reads <topic>-dlq by a subscription of its own, up to its end of now. What is refused again goes"
        " back there.",
    ),
)
