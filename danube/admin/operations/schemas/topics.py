"""Schemas of topics: the subject that a topic follows, and what happens to messages that do not."""

from pydantic import Field

from danube.admin.operations.fields import Id64, Params, Result, TopicText
from danube.admin.operations.operation import Call, Example, Operation
from danube.admin.operations.schemas.fields import TOOLSET, PolicyWord, SubjectText
from danube.admin.operations.schemas.subjects import ORDERS
from danube.model.plans.plan import Effect
from danube.model.schema import TopicSchema, ValidationPolicy
from danube.model.topic import TopicName

_TOPIC = "/default/orders"


class TopicSchemaParams(Params):
    """A topic."""

    topic: TopicText = Field(description="The topic: /namespace/name; of a partitioned one, all its partitions.")


class SetPolicyParams(TopicSchemaParams):
    """A validation policy for a topic."""

    validation_policy: PolicyWord = Field(
        description="For messages that do not follow the subject: `none` checks nothing, `warn` counts them, `enforce`"
        " refuses them."
    )
    enable_payload_validation: bool = Field(
        default=False, description="Whether payloads are checked too, and not only the schema's id and version."
    )


class ConfigureParams(TopicSchemaParams):
    """The schema configuration of a topic."""

    schema_subject: SubjectText = Field(description="The subject that its messages follow.")
    validation_policy: PolicyWord = Field(
        default=ValidationPolicy.NONE,
        description="For messages that do not follow it: `none` checks nothing, `warn` counts them, `enforce` refuses"
        " them.",
    )
    enable_payload_validation: bool = Field(
        default=False, description="Whether payloads are checked too, and not only the schema's id and version."
    )


class TopicSchemaResult(Result):
    """The schema configuration of a topic."""

    topic: str = Field(description="The topic.")
    schema_subject: str | None = Field(description="The subject that its messages follow; null without one.")
    schema_id: Id64 | None = Field(description="The id of that subject; null without one.")
    validation_policy: ValidationPolicy = Field(description="What happens to messages that do not follow it.")
    enable_payload_validation: bool = Field(description="Whether payloads are checked, too.")


async def _get(call: Call, params: TopicSchemaParams) -> TopicSchemaResult:
    found = await call.gateway.topic_schema(TopicName.parse(params.topic))
    return TopicSchemaResult.of(
        found,
        topic=params.topic,
        schema_subject=found.schema_subject or None,
        schema_id=found.schema_id or None,
        validation_policy=ValidationPolicy(found.validation_policy),
    )


async def _configure(call: Call, params: ConfigureParams) -> TopicSchemaResult:
    schema = TopicSchema(params.schema_subject, params.validation_policy, params.enable_payload_validation)
    await call.gateway.configure_topic_schema(TopicName.parse(params.topic), schema)
    return await _get(call, params)


async def _set_policy(call: Call, params: SetPolicyParams) -> TopicSchemaResult:
    schema = TopicSchema(None, params.validation_policy, params.enable_payload_validation)
    await call.gateway.configure_topic_schema(TopicName.parse(params.topic), schema)
    return await _get(call, params)


CONFIGURE = Operation(
    name="configure_topic_schema",
    words=("topics", "configure-schema"),
    summary="Bind a topic to a subject of the schema registry.",
    description="Producers with another subject are refused from then on.",
    effect=Effect.WRITE,
    params=ConfigureParams,
    result=TopicSchemaResult,
    run=_configure,
    done="Schema configuration set: {topic} follows {schema_subject}, {validation_policy}",
    positional=("topic",),
    examples=(
        Example(
            "Refuse what does not follow it",
            {
                "topic": _TOPIC,
                "schema_subject": ORDERS,
                "validation_policy": "enforce",
                "enable_payload_validation": True,
            },
        ),
    ),
    is_idempotent=True,
)

GET = Operation(
    name="get_topic_schema",
    words=("topics", "get-schema-config"),
    summary="Show the subject that a topic follows, and its validation policy.",
    effect=Effect.READ,
    params=TopicSchemaParams,
    result=TopicSchemaResult,
    run=_get,
    positional=("topic",),
    toolset=TOOLSET,
    examples=(Example(f"That of {_TOPIC}", {"topic": _TOPIC}),),
)

SET_POLICY = Operation(
    name="set_validation_policy",
    words=("topics", "set-validation-policy"),
    summary="Set what happens to messages that do not follow their topic's subject.",
    description="The topic has a subject already: configure_topic_schema gives it one.",
    effect=Effect.WRITE,
    params=SetPolicyParams,
    result=TopicSchemaResult,
    run=_set_policy,
    done="Validation policy updated: {topic}, {validation_policy}",
    positional=("topic",),
    toolset=TOOLSET,
    examples=(Example("Refuse", {"topic": "/default/ticks", "validation_policy": "enforce"}),),
    is_idempotent=True,
)

OPERATIONS = (CONFIGURE, GET, SET_POLICY)
