"""The page of an operation: its parameters as a form, its result below; for one that acts by a plan, the plan first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from danube.admin.execution import parse_arguments
from danube.admin.operations import BY_NAME, REGISTRY
from danube.admin.operations.cluster.balance_portraits import portrait_of
from danube.admin.operations.cluster.plans_and_audit import AuditTrail
from danube.admin.operations.fields import FieldKind, Result
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.plan_views import PlannedResult, PlanView, is_applicable_on
from danube.admin.present import View, name_at_stake, plan_view_of, view_of
from danube.admin.web.pages.catalog import (
    Group,
    Link,
    english,
    groups,
    known_from,
    links_from,
    page_path,
    page_url,
    required_of,
)
from danube.admin.web.pages.forms import (
    Pairs,
    arguments_of,
    field_texts,
    fields_of,
    parse_json_object,
    with_page_bound,
)
from danube.admin.web.pages.rendering import Renderer
from danube.admin.web.pages.tables import Fact, Grid, facts_of, grids_of
from danube.admin.web.protection.requests import person_of, read_form
from danube.admin.web.server import Person, WebServer
from danube.admin.web.statuses import problem_of, status_of
from danube.admin.web.views.designs import DESIGNS
from danube.admin.web.views.look import Look
from danube.admin.web.views.names import Standing, pick_lists, standing
from danube.admin.web.views.results import FIELD as RESULT_FIELD
from danube.admin.web.views.results import Results
from danube.model.errors import DanubeError, InvalidRequestError, NotPermittedError
from danube.model.plans.plan import Effect, Face, PlanStatus, canonical

PLAN_FIELD = "_plan_id"
ARGUMENTS_FIELD = "_arguments"
"""The arguments that were planned, as JSON: what is applied is what was shown."""
CONFIRM_FIELD = "_confirm"
"""What a person types again to give consent."""
WIDE_FIELD = "_wide"


@dataclass(frozen=True, slots=True)
class PlanCard:
    """A plan, and what can be done about it."""

    plan: PlanView
    facts: tuple[tuple[str, str], ...]
    links: tuple[Link, ...]
    """While it waits: to decide about it."""
    confirm: str
    """The name to type before it is applied, where it destroys something."""
    apply_path: str
    """While it is ready: where to send it."""
    arguments: str
    """As JSON, for the form."""
    note: str

    def facts_only(self) -> "PlanCard":
        return replace(self, links=(), apply_path="")


def operation_routes(server: WebServer, renderer: Renderer) -> list[Route]:
    """A page for each operation."""
    routes = []
    results: Results[_Shown] = Results()
    for operation in REGISTRY:
        page = _Page(server, renderer, operation, results)
        routes.append(Route(page_path(operation), page.show, methods=["GET"]))
        if operation.effect is not Effect.READ:
            routes.append(Route(page_path(operation), page.act, methods=["POST"]))
    return routes


def plan_card(plan: PlanView, note: str = "") -> PlanCard:
    """The card of a plan."""
    operation = BY_NAME.get(plan.operation)
    is_ready = operation is not None and is_applicable_on(plan, Face.WEB)
    hidden = {"Plan", "Operation", "Effect", "Status"}
    return PlanCard(
        plan=plan,
        facts=tuple(fact for fact in plan_view_of(plan).facts if fact[0] not in hidden),
        links=links_from({"plan": plan.plan_id}, "plan") if plan.status is PlanStatus.WAITING else (),
        confirm=name_to_type(operation, plan.arguments) if is_ready and operation else "",
        apply_path=page_path(operation) if is_ready and operation else "",
        arguments=canonical(plan.arguments),
        note=note,
    )


class _Page:
    def __init__(
        self, server: WebServer, renderer: Renderer, operation: AnyOperation, results: "Results[_Shown]"
    ) -> None:
        self._server = server
        self._renderer = renderer
        self._operation = operation
        self._results = results
        self._group = next(group for group in groups() if operation in group.operations)

    async def show(self, request: Request) -> Response:
        """The form; for what only reads and has what it needs, the result too."""
        pairs = [(name, value) for name, value in request.query_params.multi_items() if not name.startswith("_")]
        person, query = person_of(request), request.query_params
        kept = self._results.find(
            query.get(RESULT_FIELD, ""), person.who, self._server.clock.monotonic_s(), once=self._operation.is_secret
        )
        if kept is not None:
            return await self._render(request, kept)
        shown = _Shown(self._operation, _first_values(pairs), is_wide=WIDE_FIELD in query)
        given = {name for name, value in pairs if value}
        is_complete = all(field.name in given for field in required_of(self._operation))
        if self._operation.effect is not Effect.READ or not (is_complete or given):
            shown.decided = await self._plan_to_decide(shown.values)
            shown.standing = await standing(self._server, self._operation, shown.values)
            return await self._render(request, shown)
        try:
            shown.arguments = arguments_of(self._operation, pairs)
            await self._check_reachable()
            await self._read(person, shown, query)
        except DanubeError as error:
            shown.error = error
        return await self._render(request, shown)

    async def _read(self, person: Person, shown: "_Shown", query: Mapping[str, str]) -> None:
        """Call the operation, and gather what its design shows beside the answer."""
        design = DESIGNS.get(self._operation.name)
        arguments = with_page_bound(self._operation, shown.arguments)
        parse_arguments(self._operation, arguments)
        if design is None or design.calls:
            shown.result = await self._server.call(person, self._operation, shown.arguments)
        if design is not None:
            look = Look(server=self._server, person=person, arguments=arguments, query=query, result=shown.result)
            shown.design = {"template": design.template, **await design.values(look)}

    async def act(self, request: Request) -> Response:
        """Do it, or make a plan of it, or apply that plan."""
        pairs = await read_form(request)
        ours = {name: value for name, value in pairs if name.startswith("_")}
        pairs = [(name, value) for name, value in pairs if not name.startswith("_")]
        shown = _Shown(self._operation, _first_values(pairs))
        try:
            shown.arguments = (
                parse_json_object(ours[ARGUMENTS_FIELD])
                if ARGUMENTS_FIELD in ours
                else arguments_of(self._operation, pairs)
            )
            shown.values = field_texts(shown.arguments)
            check_consent(self._operation, person_of(request), shown.arguments, ours.get(CONFIRM_FIELD, ""))
            plan_id = ours.get(PLAN_FIELD) or None
            if plan_id is not None:
                check_name(self._operation, shown.arguments, ours.get(CONFIRM_FIELD, ""))
            shown.result = await self._server.call(person_of(request), self._operation, shown.arguments, plan_id)
        except DanubeError as error:
            shown.error = error
            shown.decided = await self._plan_to_decide(shown.values)
            return await self._render(request, shown)
        name = self._results.keep(person_of(request).who, shown, self._server.clock.monotonic_s())
        return RedirectResponse(f"{page_path(self._operation)}?{RESULT_FIELD}={name}", status_code=303)

    async def _plan_to_decide(self, values: Mapping[str, str]) -> PlanView | None:
        plan_id = known_from(self._operation, values).get("plan")
        return await self._server.plan(plan_id) if plan_id else None

    async def _check_reachable(self) -> None:
        problem = await self._server.problem()
        if problem is not None:
            raise problem

    async def _render(self, request: Request, shown: "_Shown") -> Response:
        template = "audit.html" if isinstance(shown.result, AuditTrail) else "operation.html"
        status = status_of(shown.error) if shown.error else 200
        is_form = shown.result is None or self._operation.effect is Effect.READ
        names = await pick_lists(self._server, self._operation, shown.values) if is_form and not shown.error else {}
        return self._renderer.page(
            request,
            str(shown.design.get("template", template)),
            status,
            names=names,
            standing=shown.standing,
            design=shown.design,
            operation=self._operation,
            group=self._group,
            fields=fields_of(self._operation),
            values=shown.without_secrets(),
            result=shown.result,
            problem=problem_of(shown.error) if shown.error else None,
            title=shown.title(self._group),
            is_done=shown.result is not None and self._operation.effect is not Effect.READ and not shown.plans(),
            facts=shown.facts(),
            grids=shown.grids(),
            cards=shown.plans(),
            related=shown.related(),
            next_url=shown.next_url(),
            is_wide=shown.is_wide,
            other_width_url=shown.other_width_url(),
            decided=plan_card(shown.decided).facts_only() if shown.decided else None,
            confirm=next(iter(self._operation.positional), "") if self._operation.needs_person else "",
        )


class _Shown:
    """The content of one page."""

    def __init__(self, operation: AnyOperation, values: Mapping[str, str], *, is_wide: bool = False) -> None:
        self.operation = operation
        self.values = dict(values)
        self.arguments: dict[str, Any] = {}
        self.result: Result | None = None
        self.error: DanubeError | None = None
        self.is_wide = is_wide
        self.design: dict[str, Any] = {}
        self.standing = Standing()
        self.decided: PlanView | None = None
        """The plan that a form decides about: nobody consents to what is not shown."""

    def title(self, group: Group) -> str:
        """The title: the thing that was asked for, or the operation."""
        named = next(iter(self.operation.positional), "")
        if self.result is not None and self.operation.effect is Effect.READ and self.values.get(named):
            return self.values[named]
        if self.operation is group.home and self.operation.listing is not None:
            return group.title
        return english(self.operation)

    def without_secrets(self) -> dict[str, str]:
        secret = {field.name for field in fields_of(self.operation) if field.kind is FieldKind.SECRET}
        return {name: value for name, value in self.values.items() if name not in secret}

    def plans(self) -> tuple[PlanCard, ...]:
        match self.result:
            case PlannedResult(plan=plan, status=status):
                is_short = status in {PlanStatus.READY, PlanStatus.APPLIED}  # the button, or the banner, says the rest
                return (plan_card(plan, "" if is_short else self.result.next_step),)
            case PlanView():
                return (plan_card(self.result),)
            case None:
                return ()
            case result:
                return tuple(plan_card(row) for row in self._rows(result) if isinstance(row, PlanView))

    def facts(self) -> tuple[Fact, ...]:
        if self.result is None or self.plans():
            return ()
        return facts_of(self.result, self._view(wide=True))

    def grids(self) -> tuple[Grid, ...]:
        if self.result is None or self.plans():
            return ()
        return grids_of(self.operation, self.arguments, self.result, self._view(wide=self.is_wide))

    def other_width_url(self) -> str:
        """The same page with all columns, or without those that a narrow one leaves out; empty where none are."""
        if self.result is None or self.operation.effect is not Effect.READ or self.plans():
            return ""
        if portrait_of(self.result) is not None:  # it is shown with all it has
            return ""
        widths = [[len(table.columns) for table in self._view(wide=wide).tables] for wide in (True, False)]
        if widths[0] == widths[1]:
            return ""
        return page_url(self.operation, {**self.arguments, **({} if self.is_wide else {WIDE_FIELD: "1"})})

    def related(self) -> tuple[Link, ...]:
        """Links for the things that the result is about."""
        if self.result is None or self.operation.effect is not Effect.READ:
            return ()
        known = known_from(self.operation, self.arguments)
        links = [link for kind in known for link in links_from(known, kind, but=self.operation)]
        return tuple({link.operation.name: link for link in links}.values())

    def next_url(self) -> str:
        cursor = getattr(self.result, "next_cursor", None) if "cursor" in self.operation.params.model_fields else None
        return page_url(self.operation, {**self.arguments, "cursor": cursor}) if cursor else ""

    def _view(self, *, wide: bool) -> View:
        return view_of(self.operation, self.result, wide=wide) if self.result is not None else View()

    def _rows(self, result: Result) -> Sequence[BaseModel]:
        listing = self.operation.listing
        rows: Sequence[BaseModel] = getattr(result, listing.rows) if listing else ()
        return rows


def name_to_type(operation: AnyOperation, arguments: Mapping[str, Any]) -> str:
    """The name that a person types before what it names is destroyed, as on the other faces; empty where none is."""
    if operation.effect is not Effect.DESTROY:
        return ""
    try:
        return name_at_stake(operation, parse_arguments(operation, dict(arguments)))
    except DanubeError:  # a plan of another version: it is refused when it is applied
        return ""


def check_name(operation: AnyOperation, arguments: Mapping[str, Any], typed: str) -> None:
    """Raise unless the name of what is destroyed was typed."""
    name = name_to_type(operation, arguments)
    if name and typed.strip() != name:
        raise InvalidRequestError(f"nothing has changed: type {name} again, exactly as it is shown, to apply the plan")


def check_consent(operation: AnyOperation, person: Person, arguments: Mapping[str, Any], typed: str) -> None:
    """Raise unless a person gives consent who is logged in and typed what it is about."""
    if not operation.needs_person:
        return
    if not person.is_logged_in:
        raise NotPermittedError(f"{operation.name} is a person's consent: log in with a token first")
    named = next(iter(operation.positional), "")
    if named and typed.strip() != arguments.get(named):
        raise InvalidRequestError(f"type the {named.replace('_', ' ')} again, exactly as it is shown, to consent")


def _first_values(pairs: Pairs) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in pairs:
        values[name] = f"{values[name]}\n{value}" if name in values else value
    return values
