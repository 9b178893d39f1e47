"""What parameters and results are made of."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from danube.model.limits.broker import LIST_ROWS_MAX
from danube.model.topic import TopicName, check_name_part


class Params(BaseModel):
    """Parameters of an operation. An argument that it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Result(BaseModel):
    """What an operation answers."""

    model_config = ConfigDict(frozen=True, defer_build=True)


@dataclass(frozen=True, slots=True)
class Volatile:
    """Marks a field that differs between two calls on the same cluster: a time, an id, a rate."""


@dataclass(frozen=True, slots=True)
class Wide:
    """Marks a field that a narrow table leaves out."""


@dataclass(frozen=True, slots=True)
class Completes:
    """Marks a parameter whose values a shell, a form or a host can complete: `topic`, `namespace`, `broker`,
    `subscription`, `plan` or `run`.
    """

    kind: str


@dataclass(frozen=True, slots=True)
class Opposite:
    """Marks a truth value whose no has a word of its own on the command line, instead of `no-` and its name."""

    word: str


VOLATILE = Volatile()
WIDE = Wide()

Millis = Annotated[int, Field(description="Milliseconds since the epoch."), VOLATILE]


def _topic_text(text: str) -> str:
    return str(TopicName.parse(text if text.startswith("/") else f"/{text}"))


def _namespace_text(text: str) -> str:
    return check_name_part("namespace", text.removeprefix("/"))


TopicText = Annotated[
    str, StringConstraints(min_length=1, max_length=600), AfterValidator(_topic_text), Completes("topic")
]
"""`/namespace/topic`; `namespace/topic` is taken for it. Anything else raises InvalidNameError."""
NamespaceText = Annotated[
    str, StringConstraints(min_length=1, max_length=300), AfterValidator(_namespace_text), Completes("namespace")
]
"""A namespace; one slash before it is taken away, as the original's administrators write it."""
BrokerText = Annotated[str, StringConstraints(min_length=1, max_length=40), Completes("broker")]
SubscriptionText = Annotated[str, StringConstraints(min_length=1, max_length=300), Completes("subscription")]


class PageParams(Params):
    """Parameters of a listing."""

    limit: int | None = Field(
        default=None, ge=1, le=LIST_ROWS_MAX, description="The most rows to answer; the face's own bound by default."
    )
    cursor: str | None = Field(
        default=None, max_length=2_000, description="`next_cursor` of the page before; the first page without it."
    )


class PageResult(Result):
    """A page of rows."""

    total: int = Field(description="Rows there are, on whatever page.")
    next_cursor: str | None = Field(default=None, description="Ask for the next page with it; null on the last one.")


def marks(model: type[BaseModel], mark: type[Any]) -> frozenset[str]:
    """The names of a model's fields that carry a mark of this type."""
    return frozenset(
        name for name, info in model.model_fields.items() if any(isinstance(each, mark) for each in info.metadata)
    )
