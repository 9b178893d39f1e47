"""Prompts: ways through the tools for tasks that come up again and again. Pure.

A step names the tool that it needs and is left out where that tool is not offered; a prompt is offered while its
essential tool is.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from danube.admin.mcp.tool_catalogue import ToolCatalogue, nearest_of
from danube.admin.mcp.untrusted_text import untrusted
from danube.admin.present import printable
from danube.model.errors import InvalidRequestError, NotFoundError

_ARGUMENT_CHARS_MAX = 600
_NAME = re.compile(r"[\w./-]{1,255}")
"""A name that can hold no sentence stands in the task itself; any other text stands at the end, as data."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a prompt."""

    tool: str
    """Without it the step is left out; empty for a step that needs none."""
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """An argument of a prompt; its name says how it is completed: topic, subscription or namespace."""

    name: str
    description: str
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One prompt."""

    name: str
    title: str
    description: str
    essential: str
    """The tool without which it is not offered."""
    arguments: tuple[Asked, ...] = ()
    task: str
    """The first sentence; `{topic}` and the like are filled in."""
    steps: tuple[Step, ...]
    end: str


WAYS = (
    Way(
        name="cluster_health_check",
        title="Check the health of the cluster",
        description="Look at brokers, leader, journal and topics, and report what needs attention.",
        essential="health_check",
        task="Check the health of this Danube cluster and report it.",
        steps=(
            Step("health_check", "Call health_check and note its verdict and every check that is not ok."),
            Step("list_brokers", "Call list_brokers: is each broker active, and how many are there?"),
            Step("cluster_status", "Call cluster_status: who leads, who votes, does the broker take messages?"),
            Step("get_cluster_balance", "Call get_cluster_balance: is the load spread evenly?"),
            Step("list_topics", "Call list_topics: is any topic not served?"),
            Step("analyze_consumer_lag", "Call analyze_consumer_lag: do any subscriptions fall behind?"),
            Step("get_recommendations", "Call get_recommendations and weigh what it says."),
        ),
        end="Report HEALTHY, WARNING or CRITICAL in the first line, then what you found with its numbers, then at most"
        " three things to do, the most urgent first. Change nothing.",
    ),
    Way(
        name="diagnose_consumer_lag",
        title="Find out why consumers fall behind",
        description="Follow the lag of a topic, or of one of its subscriptions, to its cause.",
        essential="describe_topic",
        arguments=(
            Asked("topic", "The topic: /namespace/name.", is_required=True),
            Asked("subscription", "Only this subscription of it."),
        ),
        task="Find out why consumers of the topic {topic} fall behind{subscription}.",
        steps=(
            Step(
                "describe_topic",
                "Call describe_topic for it: lag, messages in flight, waiting, and consumers of each"
                " subscription, and the oldest unacknowledged message.",
            ),
            Step("analyze_consumer_lag", "Call analyze_consumer_lag for it and take its verdict with its evidence."),
            Step("list_brokers", "Call list_brokers: is the broker that serves the topic active?"),
            Step("health_check", "Call health_check: does the broker take and write messages as it should?"),
            Step(
                "",
                "Tell these causes apart: no consumer is connected; the subscription is blocked by messages that failed"
                " too often; consumers hold messages without acknowledging them; messages fail and come back; consumers"
                " are too slow for what is produced; the broker is ill.",
            ),
        ),
        end="Name the cause, the numbers that show it, what you could not find out, and what to do. Change nothing.",
    ),
    Way(
        name="clean_up_topics",
        title="Clean up topics that nobody needs",
        description="Find topics and subscriptions out of use, and delete them by plans that a person approves.",
        essential="delete_topic",
        arguments=(Asked("namespace", "Only in this namespace."),),
        task="Find topics and subscriptions that are out of use{namespace}, and clean them up with my consent.",
        steps=(
            Step("list_topics", "Call list_topics, page by page, and leave the namespace system alone."),
            Step(
                "describe_topic",
                "Call describe_topic for each candidate: producers, subscriptions, their consumers"
                " and lag. A topic with a producer, a consumer or a lag is in use.",
            ),
            Step("", "Show me the candidates with the numbers and wait for my choice. Do not go on without it."),
            Step("unsubscribe", "For a subscription that I chose, call unsubscribe without plan_id."),
            Step("delete_topic", "For a topic that I chose, call delete_topic without plan_id."),
            Step(
                "",
                "Show me each plan: what goes, and what cannot be undone. Where it waits for approval, give me the"
                " command that approves it and wait.",
            ),
            Step(
                "",
                "Call the same tool with the plan_id once it is approved. If the plan is refused because the"
                " cluster has changed, make a new one and show it to me again.",
            ),
        ),
        end="At the end, list what was deleted, what was left and why.",
    ),
)


def prompts_of(catalogue: ToolCatalogue) -> list[Prompt]:
    """The prompts that make sense with the tools that are offered."""
    return [
        Prompt(
            name=way.name,
            title=way.title,
            description=way.description,
            arguments=[
                PromptArgument(name=each.name, description=each.description, required=each.is_required)
                for each in way.arguments
            ],
        )
        for way in _offered(catalogue)
    ]


def prompt_of(catalogue: ToolCatalogue, name: str, arguments: Mapping[str, str]) -> GetPromptResult:
    """One prompt with its arguments filled in. Raises NotFoundError, InvalidRequestError."""
    way = next((each for each in _offered(catalogue) if each.name == name), None)
    if way is None:
        names = [each.name for each in _offered(catalogue)]
        raise NotFoundError(f"there is no prompt {printable(name[:60])!r}{nearest_of(name, names)}")
    values = _checked(way, arguments)
    steps = [step.text for step in way.steps if not step.tool or step.tool in catalogue.names]
    lines = [f"{number}. {text}" for number, text in enumerate(steps, 1)]
    given = [untrusted(f"{name}: {value}") for name, value in values.items() if not _NAME.fullmatch(value)]
    text = "\n".join([_task(way, values), "", *lines, "", way.end, *given])
    message = PromptMessage(role="user", content=TextContent(type="text", text=text))
    return GetPromptResult(description=way.description, messages=[message])


def _offered(catalogue: ToolCatalogue) -> Sequence[Way]:
    return [way for way in WAYS if way.essential in catalogue.names]


def _checked(way: Way, arguments: Mapping[str, str]) -> dict[str, str]:
    known = [each.name for each in way.arguments]
    for name in arguments:
        if name not in known:
            raise InvalidRequestError(f"{way.name} has no argument {printable(name[:60])!r}{nearest_of(name, known)}")
    for each in way.arguments:
        if each.is_required and not arguments.get(each.name):
            raise InvalidRequestError(f"{way.name} needs {each.name}: {each.description}")
    return {name: printable(text)[:_ARGUMENT_CHARS_MAX] for name, text in arguments.items() if text}


def _task(way: Way, values: Mapping[str, str]) -> str:
    """An argument that was left out leaves no trace; an optional one brings its preposition."""
    filled = {each.name: "" for each in way.arguments}
    for each in way.arguments:
        if each.name in values:
            value = values[each.name]
            shown = f"`{value}`" if _NAME.fullmatch(value) else "that is given below"
            filled[each.name] = shown if each.is_required else f" ({each.name} {shown})"
    return way.task.format(**filled)
