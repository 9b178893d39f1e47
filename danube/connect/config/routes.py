"""Routes of connectors, and the settings that have them: what a connector's own settings extend."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from danube.model.errors import DanubeError
from danube.model.limits.broker import PARTITIONS_MAX
from danube.model.limits.faces import CONNECT_ROUTES_MAX
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName

_TYPES = {"exclusive": SubscriptionType.EXCLUSIVE, "shared": SubscriptionType.SHARED} | dict.fromkeys(
    ("failover", "fail_over"), SubscriptionType.FAILOVER
)


def _topic(value: Any) -> Any:  # noqa: ANN401 - as the file has it
    if isinstance(value, str):
        try:
            TopicName.parse(value)
        except DanubeError as error:
            raise ValueError(str(error)) from None
    return value


def _subscription_type(value: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(value, SubscriptionType):
        return value
    found = _TYPES.get(value.lower()) if isinstance(value, str) else None
    if found is None:
        raise ValueError("is no subscription type: use Exclusive, Failover or Shared")
    return found


Topic = Annotated[str, BeforeValidator(_topic)]
"""`/namespace/name`."""


class Section(BaseModel):
    """A part of a file: its keys and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class SinkRoute(Section):
    """One topic that a sink reads."""

    topic: Topic = Field(alias="from", description="The topic; of a partitioned one, all partitions.")
    subscription: str = Field(default="", description="Subscription; the connector's name where it is empty.")
    subscription_type: Annotated[SubscriptionType, BeforeValidator(_subscription_type)] = Field(
        default=SubscriptionType.EXCLUSIVE,
        description="Exclusive or Failover: a second runner stands by. Shared: tasks of several runners, no order.",
    )
    start: Literal["earliest", "latest"] = Field(
        default="earliest", description="Where a new subscription begins; one that is there goes on."
    )
    to: str = Field(default="", description="The place on the other side.")
    expected_schema_subject: str = Field(default="", description="Records of other subjects are refused.")
    dead_letter_topic: Topic | None = Field(
        default=None, description="Topic of refused records; the topic's name with -dlq where it is left out."
    )

    @property
    def dead_letters(self) -> str:
        """The topic of refused records."""
        return self.dead_letter_topic or f"{self.topic}-dlq"

    @field_validator("dead_letter_topic")
    @classmethod
    def _other_topic(cls, value: str | None, info: Any) -> str | None:  # noqa: ANN401 - pydantic's
        if value is not None and value == info.data.get("topic"):
            raise ValueError("is the topic that is read: a refused record would come back for ever")
        return value


class SourceRoute(Section):
    """One topic that a source fills."""

    source: str = Field(default="", alias="from", description="The place on the other side.")
    to: Topic = Field(description="The topic; it is created where it is not there.")
    partitions: int = Field(default=0, ge=0, le=PARTITIONS_MAX, description="Of a new topic; 0 is a plain one.")
    reliable_dispatch: bool | None = Field(default=None, description="False: at most once, nothing is stored.")

    @property
    def strategy(self) -> DispatchStrategy:
        """Delivery mode of the topic."""
        return DispatchStrategy.NON_RELIABLE if self.reliable_dispatch is False else DispatchStrategy.RELIABLE


class SinkSettings(Section):
    """Settings of a sink: its routes. A connector with more settings extends this class."""

    routes: tuple[SinkRoute, ...] = Field(min_length=1, max_length=CONNECT_ROUTES_MAX)


class SourceSettings(Section):
    """Settings of a source: its routes. A connector with more settings extends this class."""

    routes: tuple[SourceRoute, ...] = Field(default=(), max_length=CONNECT_ROUTES_MAX)
