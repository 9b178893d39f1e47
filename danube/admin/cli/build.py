"""The app: a command for each operation in the registry, a group for each noun, and the few commands beside them.

Nothing here names an operation. What the original calls otherwise is in `original.py`.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from danube.admin.cli import plan_flow
from danube.admin.cli.call import Shell, show, stdout_screen, watch
from danube.admin.cli.commands import contexts, doctor, tokens
from danube.admin.cli.commands.explain import explanation, overview
from danube.admin.cli.commands.original import ALIASES, Alias
from danube.admin.cli.completion import completer
from danube.admin.cli.output.draw import drawn
from danube.admin.cli.output.help_text import EXIT_CODES, epilog_of, help_of, verbs_text
from danube.admin.cli.output.selection import program_text
from danube.admin.cli.output.serial import serialized
from danube.admin.cli.parameters import parameters_of, parsed
from danube.admin.cli.plan_flow import PlanWords
from danube.admin.cli.root import add_root
from danube.admin.cli.typer_classes import (
    HELP_SETTINGS,
    AdminCommand,
    AdminGroup,
    flags_of,
    lazy_group,
    output_options_of,
)
from danube.admin.operations import BY_NAME, REGISTRY
from danube.admin.operations.operation import AnyOperation
from danube.admin.target import PROGRAM, Connect, Target
from danube.model.errors import InvalidRequestError
from danube.model.exit_codes import ExitCode
from danube.model.limits.faces import CLI_WATCH_MIN_S
from danube.model.plans.plan import Effect
from danube.runtime import console

WATCHED = "watch"
SHELLS = ("bash", "zsh", "fish")
_GROUPS = {
    "brokers": "Inspect brokers, their balance, drain and activate them.",
    "cluster": "Check the cluster and change the members of its Raft group.",
    "namespaces": "Inspect and change namespaces and their policies.",
    "topics": "Inspect and change topics, subscriptions and their policies; read messages.",
    "schemas": "Inspect, check and register the schemas of subjects.",
    "storage": "Show what an object store is asked for, and what it costs.",
    "analytics": "Show consumer lag and run Spark jobs.",
    "plans": "Inspect, approve and reject plans.",
    "security": "Inspect and change roles, bindings, tokens and keys; explain rights.",
}
"""Help of nouns; one within another that is missing lists its verbs."""
_CONTEXT = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)


def build_app(connect: Connect) -> typer.Typer:
    """The whole command line but for the other faces' own commands."""
    nouns: dict[str, Callable[[], typer.Typer]] = {
        noun: partial(_noun_app, noun, connect) for noun, *verbs in (each.words for each in REGISTRY) if verbs
    }
    nouns["contexts"] = lambda: contexts.app
    app = _group("Administer a Danube cluster: look at it, change it, and see who did what.", lazy_group(nouns))
    add_root(app)
    for operation in REGISTRY:
        if len(operation.words) == 1:
            _add(app, operation.words[0], _operation_command(operation, connect), operation)
    app.command("doctor", cls=AdminCommand, epilog=doctor.EPILOG)(doctor.doctor_command)
    app.command("explain", cls=AdminCommand, epilog=EXIT_CODES)(explain_command)
    app.command("completion", cls=AdminCommand, epilog=EXIT_CODES)(completion_command)
    app.command("spec", cls=AdminCommand, epilog=EXIT_CODES)(spec_command)
    return app


def explain_command(
    context: typer.Context,
    operation: Annotated[
        list[str] | None, typer.Argument(metavar="OPERATION", help="Its words or its name; all of them without it.")
    ] = None,
) -> None:
    """Show what may be done here, or what an operation needs."""
    output, target = output_options_of(context), _target(context)
    view = explanation(operation, target) if operation else overview(target)
    if output.output.is_for_people:
        console.write(drawn(view, stdout_screen(output)))
        return
    facts = {label.lower().replace(" ", "_"): value for label, value in view.facts}
    rows = [
        {column.lower().replace(" ", "_"): cell for column, cell in zip(table.columns, row, strict=True)}
        for table in view.tables
        for row in table.rows
    ]
    console.write(program_text(facts or rows, output))


def completion_command(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", autocompletion=lambda: [*SHELLS])],
) -> None:
    """Print the completion script of a shell: `source <(danube-admin completion zsh)` in its start file."""
    from typer._completion_shared import get_completion_script  # noqa: PLC0415 - beside its only use

    if shell not in SHELLS:
        raise InvalidRequestError(f"there is no completion for {shell[:40]!r}: use {', '.join(SHELLS)}")
    variable = f"_{PROGRAM}_COMPLETE".replace("-", "_").upper()
    console.write(f"{get_completion_script(prog_name=PROGRAM, complete_var=variable, shell=shell)}\n")


def spec_command() -> None:
    """Print every operation as JSON, with its schemas."""
    from danube.admin.cli.commands.spec import spec  # noqa: PLC0415 - `--help` needs no schemas
    from danube.admin.cli.output.options import OutputFormat  # noqa: PLC0415 - beside its only use

    console.write(serialized(spec(), OutputFormat.JSON))


def _noun_app(noun: str, connect: Connect) -> typer.Typer:
    """The group of a noun with all its verbs."""
    nouns = dict[tuple[str, ...], typer.Typer]()
    for operation in REGISTRY:
        if operation.words[0] == noun:
            *within, verb = operation.words
            _add(_noun(nouns, tuple(within)), verb, _operation_command(operation, connect), operation)
    for alias in ALIASES:
        if alias.words[0] == noun:
            *within, verb = alias.words
            options: dict[str, Any] = {"help": alias.summary, "epilog": EXIT_CODES, "hidden": alias.is_hidden}
            _noun(nouns, tuple(within)).command(verb, cls=AdminCommand, **options)(_alias_command(alias, connect))
    if noun == tokens.NOUN[0]:
        tokens.add_commands(_noun(nouns, tokens.NOUN))
    return nouns[noun,]


def _group(text: str, kind: type[AdminGroup] = AdminGroup) -> typer.Typer:
    return typer.Typer(
        cls=kind,
        help=text,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings=HELP_SETTINGS,
        epilog=EXIT_CODES,
    )


def _noun(nouns: dict[tuple[str, ...], typer.Typer], noun: tuple[str, ...]) -> typer.Typer:
    """The group of a noun, or of a noun within another."""
    if noun not in nouns:
        within = [each.words[len(noun)] for each in REGISTRY if each.words[: len(noun)] == noun]
        nouns[noun] = _group(_GROUPS.get(" ".join(noun)) or verbs_text(within))
        if noun[:-1]:
            _noun(nouns, noun[:-1]).add_typer(nouns[noun], name=noun[-1])
    return nouns[noun]


def _add(parent: typer.Typer, verb: str, command: Callable[..., Any], operation: AnyOperation) -> None:
    parent.command(
        verb,
        cls=AdminCommand,
        help=help_of(operation),
        short_help=operation.summary,
        epilog=epilog_of(operation),
        no_args_is_help=any(operation.params.model_fields[name].is_required() for name in operation.positional),
    )(command)


def _operation_command(operation: AnyOperation, connect: Connect) -> Callable[..., ExitCode]:
    def command(context: typer.Context, **typed: Any) -> ExitCode:  # noqa: ANN401 - whatever the operation takes
        shell = Shell(connect=connect, target=_target(context), output=output_options_of(context))
        params = parsed(operation, typed)
        if operation.needs_person:
            return plan_flow.consent(shell, operation, params)
        if operation.is_planned:
            if typed["confirm"]:
                shell = replace(shell, target=replace(shell.target, assume_yes=True))
            words = PlanWords(plan_id=typed["plan_id"], dry_run=bool(typed["dry_run"]))
            return plan_flow.carry_out(shell, operation, params, words)
        if typed.get(WATCHED):
            return watch(shell, operation, params, typed[WATCHED])
        return show(shell, operation, shell.call(operation, params))

    parameters = parameters_of(operation, completer(connect))
    return _with_signature(command, [*parameters, *_flow_parameters(operation)])


def _alias_command(alias: Alias, connect: Connect) -> Callable[..., ExitCode]:
    operation = BY_NAME[alias.operation]

    def command(context: typer.Context, **typed: Any) -> ExitCode:  # noqa: ANN401 - as above
        output, target = output_options_of(context), _target(context)
        shell = Shell(connect=connect, target=target, output=output, only=alias.only, shown_as=alias.shown_as)
        return show(shell, operation, shell.call(operation, parsed(operation, typed)))

    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=Annotated[str, typer.Argument(metavar=name.upper())])
        for name in alias.positional
    ]
    return _with_signature(command, parameters)


def _flow_parameters(operation: AnyOperation) -> list[Parameter]:
    """Options that come with the effect."""
    if operation.is_planned:
        return [
            _flag("dry_run", bool, typer.Option("--dry-run", help="Show the plan and do nothing."), default=False),
            _flag(
                "confirm", bool, typer.Option("--confirm", help="As --yes, for scripts.", hidden=True), default=False
            ),
            _flag("plan_id", str | None, typer.Option("--plan-id", metavar="ID", help="Apply this plan.")),
        ]
    if operation.effect is Effect.READ:
        text = "Show it again every so many seconds, 2 without a number, until Ctrl-C."
        option = typer.Option("--watch", metavar="[=SECONDS]", min=CLI_WATCH_MIN_S, help=text)
        return [_flag(WATCHED, float | None, option)]
    return []


def _flag(name: str, kind: Any, option: Any, *, default: object = None) -> Parameter:  # noqa: ANN401 - types are values
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def _with_signature(command: Callable[..., ExitCode], parameters: list[Parameter]) -> Callable[..., ExitCode]:
    """The function, with the signature that Typer reads."""
    ordered = sorted(parameters, key=lambda parameter: parameter.default is not Parameter.empty)
    command.__signature__ = Signature([_CONTEXT, *ordered])  # type: ignore[attr-defined]
    return command


def _target(context: typer.Context) -> Target:
    from danube.admin.profiles import resolve_target  # noqa: PLC0415 - `--help` reads no contexts

    return resolve_target(flags_of(context), os.environ)
