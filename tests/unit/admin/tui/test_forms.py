"""Forms from pydantic parameters, decided without a terminal."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr

from danube.admin.operations import BY_NAME, REGISTRY, operation_of
from danube.admin.operations.fields import Completes, FieldKind, FieldSpec, PageParams, Params, Result, TopicText
from danube.admin.operations.operation import AnyOperation, Example, Operation
from danube.admin.tui.forms import arguments_of, bounded_page, fields_of, judge, text_of
from danube.model.limits.faces import TUI_RESULT_ROWS
from danube.model.plans.plan import Effect

pytestmark = pytest.mark.slow  # together they take long


class Inner(BaseModel):
    depth: int


class Everything(Params):
    """One field of each kind that an operation may have some day."""

    topics: list[TopicText] = Field(default=["/a/b"], description="Topics.")
    mode: Literal["fast", "safe"] = Field(default="safe", description="Mode.")
    secret: SecretStr | None = Field(default=None, description="Secret.")
    ratio: float | None = Field(default=None, description="Ratio.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels.")
    inner: Inner = Field(default=Inner(depth=1), description="Inner.")
    definition: str = Field(default="", max_length=100_000, description="Definition.")
    force: bool = Field(default=False, description="Force.")
    sure: bool | None = Field(default=None, description="Sure, not sure, or nothing said.")
    plan: Annotated[str, Completes("plan")] = Field(description="Plan.")


async def run(call: Any, params: Everything) -> Result:
    return Result()


EVERYTHING: AnyOperation = Operation(
    name="everything",
    words=("every", "thing"),
    summary="Do everything.",
    effect=Effect.READ,
    params=Everything,
    result=Result,
    run=run,
    examples=(Example("It", {"plan": "p"}),),
)


@pytest.fixture
def fields() -> dict[str, FieldSpec]:
    return {field.name: field for field in fields_of(EVERYTHING)}


@pytest.mark.parametrize("operation", REGISTRY, ids=list(BY_NAME))
def test_each_example_survives_its_form(operation: AnyOperation) -> None:
    for example in operation.examples:
        kinds = {field.name: field.kind for field in fields_of(operation)}
        typed = {
            name: value if kinds[name] is FieldKind.SWITCH else text_of(value)
            for name, value in example.arguments.items()
        }
        judged = judge(operation, arguments_of(fields_of(operation), typed))
        assert judged.params == operation.params.model_validate(example.arguments)


@pytest.mark.parametrize("operation", REGISTRY, ids=list(BY_NAME))
def test_each_parameter_of_each_operation_has_a_field_with_its_description(operation: AnyOperation) -> None:
    described = {field.name: field.description for field in fields_of(operation)}
    assert described == {name: info.description for name, info in operation.params.model_fields.items()}


def test_what_is_needed_comes_first(fields: dict[str, FieldSpec]) -> None:
    assert next(iter(fields)) == "plan"
    assert [name for name, field in fields.items() if field.is_required] == ["plan"]


def test_the_kind_of_a_field_follows_its_type(fields: dict[str, FieldSpec]) -> None:
    assert {name: field.kind for name, field in fields.items()} == {
        "plan": FieldKind.TEXT,
        "topics": FieldKind.LIST,
        "mode": FieldKind.CHOICE,
        "secret": FieldKind.SECRET,
        "ratio": FieldKind.NUMBER,
        "labels": FieldKind.JSON,
        "inner": FieldKind.JSON,
        "definition": FieldKind.LONG_TEXT,
        "force": FieldKind.SWITCH,
        "sure": FieldKind.CHOICE,
    }


def test_defaults_are_shown_as_they_would_be_typed(fields: dict[str, FieldSpec]) -> None:
    assert text_of(fields["topics"].default) == "/a/b"
    assert text_of(fields["inner"].default) == '{"depth": 1}'
    assert fields["mode"].default == "safe"


def test_marks_inside_a_list_complete_too(fields: dict[str, FieldSpec]) -> None:
    assert (fields["topics"].completes, fields["plan"].completes) == ("topic", "plan")


def test_what_was_typed_becomes_json_values(fields: dict[str, FieldSpec]) -> None:
    typed: dict[str, str | bool] = {
        "plan": "p",
        "topics": "/a/b, /c/d",
        "labels": '{"a": "b"}',
        "ratio": "0.5",
        "force": True,
        "mode": "fast",
    }
    params = judge(EVERYTHING, arguments_of(list(fields.values()), typed)).params
    assert isinstance(params, Everything)
    assert (params.topics, params.labels, params.ratio) == (["/a/b", "/c/d"], {"a": "b"}, 0.5)
    assert (params.force, params.mode) == (True, "fast")


@pytest.mark.parametrize(("typed", "value"), [("true", True), ("false", False), ("", None)])
def test_no_is_another_thing_than_nothing_said(fields: dict[str, FieldSpec], typed: str, value: bool | None) -> None:
    params = judge(EVERYTHING, arguments_of(list(fields.values()), {"plan": "p", "sure": typed})).params
    assert isinstance(params, Everything)
    assert params.sure is value


def test_what_is_wrong_is_told_beside_its_field() -> None:
    judged = judge(operation_of("create_topic"), {"partitions": "many"})
    assert judged.params is None
    assert judged.problems["name"] == "This is needed."
    assert "integer" in judged.problems["partitions"]


def test_a_name_that_breaks_the_grammar_is_told_beside_its_field() -> None:
    judged = judge(operation_of("create_topic"), {"name": "/default/a b/c"})
    assert list(judged.problems) == ["name"]


def test_what_is_wrong_with_the_whole_is_told_for_the_form() -> None:
    judged = judge(operation_of("list_topics"), {"namespace": "default", "broker": "1"})
    assert list(judged.problems) == [""]
    assert "exclude each other" in judged.problems[""]


def test_broken_json_is_refused_beside_its_field(fields: dict[str, FieldSpec]) -> None:
    arguments = arguments_of(list(fields.values()), {"plan": "p", "labels": "{"})
    assert list(judge(EVERYTHING, arguments).problems) == ["labels"]


def test_a_listing_without_a_limit_gets_the_bound_of_this_face() -> None:
    operation = operation_of("list_namespaces")
    assert bounded_page(operation, PageParams()) == PageParams(limit=TUI_RESULT_ROWS)
    assert bounded_page(operation, PageParams(limit=3)) == PageParams(limit=3)
