"""When publishes are acknowledged. It says what an acknowledgement is worth, and so it is changed by a plan alone."""

from typing import Self

from pydantic import Field, model_validator

from danube.admin.operations.fields import NamespaceText, Params, TopicText
from danube.admin.operations.operation import Example, Operation
from danube.admin.operations.plan_views import PlannedResult
from danube.admin.operations.topics.policies import TOOLSET
from danube.model.errors import InvalidRequestError
from danube.model.plans.durability import Durability
from danube.model.plans.plan import Effect
from danube.model.plans.policy_changes import durability_change


class DurabilityParams(Params):
    """A change of when publishes are acknowledged."""

    durability: Durability | None = Field(
        default=None,
        description="fsync: after the sync; interval: before it, and it follows; os: when the system likes.",
    )
    clear: bool = Field(default=False, description="Inherit it again, instead of setting it.")

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        try:
            durability_change(self.model_dump(mode="json"))
        except InvalidRequestError as error:
            raise ValueError(str(error)) from None
        return self


class SetTopicDurabilityParams(DurabilityParams):
    """The durability of a topic."""

    topic: TopicText = Field(description="The topic: /namespace/name; of a partitioned one, all its partitions.")


class SetNamespaceDurabilityParams(DurabilityParams):
    """The durability of a namespace."""

    namespace: NamespaceText = Field(description="The namespace, without a slash.")


SET_NAMESPACE_DURABILITY = Operation(
    name="set_namespace_durability",
    words=("namespaces", "set-durability"),
    summary="Set when publishes to the topics of a namespace are acknowledged.",
    description="Where a topic does not set it itself. interval, os: a power cut may take what was acknowledged.",
    effect=Effect.DESTROY,
    params=SetNamespaceDurabilityParams,
    result=PlannedResult,
    positional=("namespace",),
    toolset=TOOLSET,
    examples=(
        Example("Acknowledged before the sync, which follows", {"namespace": "staging", "durability": "interval"}),
    ),
)

SET_TOPIC_DURABILITY = Operation(
    name="set_topic_durability",
    words=("topics", "set-durability"),
    summary="Set when publishes to a topic are acknowledged.",
    description="interval, os: a power cut may take what was acknowledged. get_topic_policies shows what holds.",
    effect=Effect.DESTROY,
    params=SetTopicDurabilityParams,
    result=PlannedResult,
    positional=("topic",),
    toolset=TOOLSET,
    examples=(
        Example("Faster, and a power cut takes the newest", {"topic": "/default/events", "durability": "os"}),
        Example("Synced before it is acknowledged", {"topic": "/default/orders", "durability": "fsync"}),
    ),
)

OPERATIONS = (SET_NAMESPACE_DURABILITY, SET_TOPIC_DURABILITY)
