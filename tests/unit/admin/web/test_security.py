"""Who is let in, and that whoever is not changes nothing."""

from http.cookies import SimpleCookie

import pytest

from danube.admin.access import AccessLevel
from danube.admin.operations import REGISTRY
from danube.admin.web.pages.catalog import api_method, api_path, page_path
from danube.admin.web.protection.exposure import Exposure, WebToken
from danube.admin.web.protection.protection import SECURITY_HEADERS
from danube.model.limits.faces import WEB_LOGIN_FAILURES_MAX, WEB_LOGIN_WINDOW_S, WEB_SESSION_IDLE_S, WEB_SESSION_TTL_S
from tests.unit.admin.web.site import BEARER, LABEL, TOKEN, URL, Site, site

PATHS = ["/", "/topics/list", "/nope", "/api/v1/topics/list", "/api/v1/nope", "/openapi.json", "/healthz", "/login"]
EVIL = "https://evil.example"


@pytest.mark.parametrize("path", PATHS)
async def test_every_answer_has_every_security_header(full: Site, path: str) -> None:
    for headers in ({}, BEARER, {"origin": EVIL}, {"host": "evil.example"}):
        answer = await full.client.get(path, headers=headers)
        assert {name: answer.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
        assert answer.headers["cache-control"] == "no-store"


async def test_no_answer_opens_the_server_to_pages_of_other_sites(full: Site) -> None:
    asked = {"origin": EVIL, "access-control-request-method": "POST"}
    preflight = await full.client.options("/api/v1/topics/create", headers=asked)
    answer = await full.client.get("/api/v1/topics/list", headers={**BEARER, "origin": EVIL})
    assert preflight.status_code == 403
    assert not [name for each in (preflight, answer) for name in each.headers if name.startswith("access-control")]


async def test_without_a_token_nothing_is_read_and_nothing_is_changed(full: Site) -> None:
    for operation in REGISTRY:
        method, arguments = api_method(operation), operation.examples[0].arguments
        for path in (api_path(operation), page_path(operation)):
            body = {"json": arguments} if method == "POST" else {}
            answer = await full.client.request(method, path, headers={"origin": URL}, **body)  # type: ignore[arg-type]
            assert answer.status_code in {303, 401}, path
    assert full.gateway.calls == []
    assert full.is_unchanged


@pytest.mark.parametrize("authorization", ["Bearer wrong", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", TOKEN])
async def test_a_wrong_token_is_401_and_the_answer_does_not_repeat_it(full: Site, authorization: str) -> None:
    answer = await full.get("/api/v1/topics/list", authorization=authorization)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json()["code"] == "UNAUTHENTICATED"
    assert TOKEN not in answer.text
    assert full.gateway.calls == []


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/login", "/static/style.css"])
async def test_what_tells_nothing_of_the_cluster_needs_no_token(full: Site, path: str) -> None:
    assert (await full.get(path)).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1:8080", "", "[::", "localhost.evil"]
)
async def test_a_loopback_server_answers_to_no_name_but_its_own(readonly: Site, host: str) -> None:
    answer = await readonly.get("/api/v1/topics/list", host=host)
    assert answer.status_code in {400, 403}
    assert readonly.gateway.calls == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9000", "[::1]:8080", "LOCALHOST"])
async def test_a_loopback_server_answers_to_its_names_whatever_the_port(readonly: Site, host: str) -> None:
    assert (await readonly.get("/api/v1/topics/list", host=host)).status_code == 200


@pytest.mark.parametrize("origin", [EVIL, "null", "http://127.0.0.1:9999", "http://127.0.0.1:8080.evil.example", ""])
async def test_a_form_of_another_origin_changes_nothing(logged_in: Site, origin: str) -> None:
    fields = (await logged_in.page("/namespaces/create")).form("/namespaces/create")
    answer = await logged_in.send("/namespaces/create", {**fields, "namespace": "new"}, origin=origin)
    assert answer.status_code == 403
    assert logged_in.is_unchanged


async def test_a_form_without_any_origin_changes_nothing(logged_in: Site) -> None:
    fields = (await logged_in.page("/namespaces/create")).form("/namespaces/create")
    answer = await logged_in.client.post("/namespaces/create", data={**fields, "namespace": "new"})
    assert answer.status_code == 403
    assert logged_in.is_unchanged


@pytest.mark.parametrize("site_word", ["cross-site", "same-site"])
async def test_a_picture_or_script_of_another_page_reaches_nothing(readonly: Site, site_word: str) -> None:
    headers = {"sec-fetch-site": site_word, "sec-fetch-mode": "no-cors"}
    assert (await readonly.client.get("/topics/list", headers=headers)).status_code == 403
    assert readonly.gateway.calls == []
    linked = await readonly.client.get("/topics/list", headers={**headers, "sec-fetch-mode": "navigate"})
    assert linked.status_code == 200


@pytest.mark.parametrize("token", ["", "wrong", "x" * 60_000])
async def test_a_form_without_its_csrf_token_changes_nothing(logged_in: Site, token: str) -> None:
    answer = await logged_in.send("/namespaces/create", {"namespace": "new", "_csrf": token})
    assert answer.status_code == 403
    assert logged_in.is_unchanged


async def test_the_csrf_token_of_one_login_is_nothing_to_another(logged_in: Site) -> None:
    fields = (await logged_in.page("/namespaces/create")).form("/namespaces/create")
    logged_in.client.cookies.clear()
    await logged_in.log_in()
    answer = await logged_in.send("/namespaces/create", {**fields, "namespace": "new"})
    assert answer.status_code == 403
    assert logged_in.is_unchanged


async def test_a_login_answers_a_strict_cookie_that_is_not_the_token(full: Site) -> None:
    fields = (await full.page("/login")).form("/login")
    answer = await full.send("/login", {**fields, "token": TOKEN})
    cookie = SimpleCookie(answer.headers["set-cookie"])["danube_session"]
    assert (cookie["httponly"], cookie["samesite"].lower(), cookie["path"]) == (True, "strict", "/")
    assert TOKEN not in answer.headers["set-cookie"]
    assert len(cookie.value) >= 40
    assert LABEL in (await full.page("/")).text


async def test_behind_tls_the_cookie_is_bound_to_it_and_to_the_host() -> None:
    exposure = Exposure(public_url="https://admin.example", tokens=(WebToken(LABEL, TOKEN),))
    async with site(exposure=exposure, url="https://admin.example") as made:
        fields = (await made.page("/login")).form("/login")
        refused = await made.send("/login", {**fields, "token": TOKEN}, origin="http://admin.example")
        answer = await made.send("/login", {**fields, "token": TOKEN}, origin="https://admin.example")
        cookie = SimpleCookie(answer.headers["set-cookie"])["__Host-danube_session"]
        assert (refused.status_code, answer.status_code, cookie["secure"]) == (403, 303, True)
        assert "max-age" in answer.headers["strict-transport-security"]


@pytest.mark.parametrize("over_s", [WEB_SESSION_IDLE_S, WEB_SESSION_TTL_S])
async def test_a_login_ends_by_itself(logged_in: Site, over_s: float) -> None:
    steps = int(over_s // (WEB_SESSION_IDLE_S / 2))
    for _ in range(steps - 1 if over_s > WEB_SESSION_IDLE_S else 1):
        logged_in.clock.advance(WEB_SESSION_IDLE_S / 2)
        assert (await logged_in.get("/operations")).status_code == 200
    logged_in.clock.advance(WEB_SESSION_IDLE_S / 2 if over_s > WEB_SESSION_IDLE_S else over_s)
    assert (await logged_in.get("/operations")).headers["location"] == "/login?next=%2Foperations"


async def test_logging_out_ends_the_login_on_the_server_too(logged_in: Site) -> None:
    cookies = dict(logged_in.client.cookies)
    fields = (await logged_in.page("/operations")).form("/logout")
    assert (await logged_in.send("/logout", fields)).status_code == 303
    logged_in.client.cookies.update(cookies)
    assert (await logged_in.get("/operations")).status_code == 303


async def test_after_wrong_tokens_an_address_is_not_listened_to_for_a_while(full: Site) -> None:
    fields = (await full.page("/login")).form("/login")
    for _ in range(WEB_LOGIN_FAILURES_MAX):
        assert (await full.send("/login", {**fields, "token": "wrong"})).status_code == 401
    refused = await full.send("/login", {**fields, "token": TOKEN})
    assert (refused.status_code, "set-cookie" in refused.headers) == (429, False)
    api = await full.api("/topics/list")
    assert (api.status_code, api.json()["code"], int(api.headers["retry-after"]) > 0) == (
        429,
        "TOO_MANY_ATTEMPTS",
        True,
    )
    full.clock.advance(WEB_LOGIN_WINDOW_S)
    assert (await full.send("/login", {**fields, "token": TOKEN})).status_code == 303


@pytest.mark.parametrize("wanted", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)"])
async def test_a_login_never_leads_to_another_site(full: Site, wanted: str) -> None:
    fields = (await full.page("/login")).form("/login")
    answer = await full.send("/login", {**fields, "token": TOKEN, "next": wanted})
    assert answer.headers["location"] == "/"


async def test_a_login_leads_back_to_the_page_that_was_asked_for(full: Site) -> None:
    asked = await full.get("/topics/describe?topic=/default/orders")
    fields = (await full.page(asked.headers["location"])).form("/login")
    answer = await full.send("/login", {**fields, "token": TOKEN})
    assert answer.headers["location"] == "/topics/describe?topic=/default/orders"


async def test_a_browsers_cookie_reads_the_api_and_changes_nothing_through_it(logged_in: Site) -> None:
    assert (await logged_in.get("/api/v1/topics/list")).status_code == 200
    answer = await logged_in.client.post(
        "/api/v1/namespaces/create", json={"namespace": "new"}, headers={"origin": URL}
    )
    assert answer.status_code == 401
    assert logged_in.is_unchanged


async def test_a_bearer_token_is_no_person_and_sends_no_form(full: Site) -> None:
    fields = {"plan_id": "plan-seeded", "_confirm": "plan-seeded", "_csrf": ""}
    answer = await full.client.post("/plans/approve", data=fields, headers={**BEARER, "origin": URL})
    assert answer.status_code == 403
    assert full.gateway.stored_plans["plan-seeded"].decided_by is None


async def test_approval_takes_a_person_who_types_the_plan_id(logged_in: Site) -> None:
    path = "/plans/approve?plan_id=plan-seeded"
    for typed in ("", "plan-other", "PLAN-SEEDED"):
        assert (await logged_in.submit(path, _confirm=typed)).status_code == 400
        assert logged_in.gateway.stored_plans["plan-seeded"].decided_by is None
    assert (await logged_in.submit(path, _confirm="plan-seeded")).status_code == 200
    decided = logged_in.gateway.stored_plans["plan-seeded"].decided_by
    assert decided is not None
    assert (decided.who, decided.face) == (LABEL, "web")


@pytest.mark.parametrize("level", [AccessLevel.READ, AccessLevel.WRITE])
async def test_approval_needs_access_destroy(level: AccessLevel) -> None:
    async with site(level, token=TOKEN) as made:
        await made.log_in()
        answer = await made.submit("/plans/approve?plan_id=plan-seeded", _confirm="plan-seeded")
        assert answer.status_code == 403
        assert made.gateway.stored_plans["plan-seeded"].decided_by is None


async def test_no_page_and_no_error_shows_a_token_or_another_secret(logged_in: Site) -> None:
    secrets = [TOKEN, *logged_in.client.cookies.values()]
    for path in ("/", "/operations", "/docs", "/audit", "/plans/list", "/nope", "/topics/describe?topic=x"):
        text = (await logged_in.get(path)).text
        assert not [each for each in secrets if each in text]
    assert TOKEN not in repr(logged_in.server)


async def test_a_websocket_is_not_answered(readonly: Site) -> None:
    sent: list[object] = []
    app = readonly.client._transport.app  # type: ignore[attr-defined]
    await app({"type": "websocket", "path": "/"}, None, sent.append)
    assert sent == []
