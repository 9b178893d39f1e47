"""Parameters as fields of a form, and what a form answers as arguments."""

from typing import Annotated, Any

import pytest
from pydantic import Field as Described
from pydantic import SecretStr

from danube.admin.operations.fields import Completes, FieldKind, Params, Result, TopicText
from danube.admin.operations.operation import AnyOperation, Example, Operation
from danube.admin.web.pages.forms import arguments_of, field_texts, fields_of, with_page_bound
from danube.model.errors import InvalidRequestError
from danube.model.plans.plan import Effect
from danube.model.topic import DispatchStrategy


class EveryKind(Params):
    """One parameter of each kind."""

    text: str = Described(max_length=9, description="A text.")
    topic: TopicText | None = Described(default=None, description="A topic, or none.")
    plan: Annotated[str, Completes("plan")] = Described(default="p", description="A plan.")
    count: int = Described(default=3, ge=1, le=9, description="A number.")
    part: float | None = Described(default=None, description="A number that may be missing.")
    strategy: DispatchStrategy | None = Described(default=None, description="A choice.")
    is_on: bool = Described(default=False, description="A switch.")
    is_off: bool = Described(default=True, description="One that is on by default.")
    names: list[str] = Described(default=[], description="Several.")
    rules: dict[str, Any] = Described(default={}, description="An object.")
    secret: SecretStr | None = Described(default=None, description="Nobody's business.")


class Nothing(Result):
    """An answer."""


async def _nothing(call: object, params: object) -> Nothing:
    return Nothing()


OPERATION: AnyOperation = Operation(
    name="do_everything",
    words=("all", "kinds"),
    summary="Take everything.",
    effect=Effect.WRITE,
    params=EveryKind,
    result=Nothing,
    run=_nothing,
    examples=(Example("One", {"text": "x"}),),
)


def test_each_kind_of_parameter_has_its_kind_of_field() -> None:
    kinds = {field.name: field.kind for field in fields_of(OPERATION)}
    assert kinds == {
        "text": FieldKind.TEXT,
        "topic": FieldKind.TEXT,
        "plan": FieldKind.TEXT,
        "count": FieldKind.NUMBER,
        "part": FieldKind.NUMBER,
        "strategy": FieldKind.CHOICE,
        "is_on": FieldKind.SWITCH,
        "is_off": FieldKind.CHOICE,
        "names": FieldKind.LIST,
        "rules": FieldKind.JSON,
        "secret": FieldKind.SECRET,
    }


def test_a_field_knows_its_bounds_its_default_and_what_it_names() -> None:
    fields = {field.name: field for field in fields_of(OPERATION)}
    assert [field.name for field in fields.values() if field.is_required] == ["text"]
    assert (fields["count"].minimum, fields["count"].maximum, fields["count"].default) == (1, 9, 3)
    assert (fields["text"].chars_max, fields["is_off"].choices) == (9, ("true", "false"))
    assert (fields["topic"].completes, fields["plan"].completes, fields["text"].completes) == ("topic", "plan", None)


def test_a_form_answers_arguments_and_leaves_out_what_is_empty() -> None:
    pairs = [("text", "x"), ("topic", ""), ("count", "4"), ("is_on", "true"), ("is_off", "false"), ("part", "")]
    pairs += [("names", "a\r\n\r\n b "), ("names", "c"), ("rules", '{"a": [1]}'), ("strategy", "")]
    arguments = arguments_of(OPERATION, pairs)
    assert arguments["names"] == ["a", "b", "c"]
    parsed = EveryKind.model_validate(arguments)
    assert (parsed.count, parsed.is_on, parsed.is_off, parsed.rules) == (4, True, False, {"a": [1]})
    assert (parsed.topic, parsed.part, parsed.strategy) == (None, None, None)


@pytest.mark.parametrize("pairs", [[("count", "1"), ("count", "2")], [("rules", "{")], [("rules", "[" * 100_000)]])
def test_a_form_that_cannot_be_understood_names_the_field(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidRequestError, match=pairs[0][0]):
        arguments_of(OPERATION, pairs)


def test_arguments_are_shown_as_they_are_typed() -> None:
    shown = field_texts({"a": None, "b": True, "c": ["x", "y"], "d": {"e": 1}, "f": "text", "g": 7})
    assert shown == {"b": "true", "c": "x\ny", "d": '{"e": 1}', "f": "text", "g": "7"}


def test_only_listings_have_a_bound_on_rows() -> None:
    assert with_page_bound(OPERATION, {"limit": 10**6}) == {"limit": 10**6}
