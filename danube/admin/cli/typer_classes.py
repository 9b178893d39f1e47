"""Typer's classes with our parsing, help and errors; every command accepts the options of the root."""

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from typer import Abort, Exit, Typer, TyperException
from typer._click import Command, Context, HelpFormatter, Parameter
from typer._click.exceptions import NoArgsIsHelpError, NoSuchOption, UsageError
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from danube.admin.cli.output.options import EVERYWHERE, OUTPUT_OPTIONS, OutputOptions, flags_from, format_of, given_of
from danube.admin.target import PROGRAM
from danube.model.exit_codes import ExitCode
from danube.runtime import console

if TYPE_CHECKING:
    from danube.admin.profiles import TargetFlags

_GIVEN = "danube.given"
WATCH = "--watch"
WATCH_DEFAULT = "2"
_WHOLE_CHARS = 500
HELP_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def output_options_of(context: Context) -> OutputOptions:
    """The output options of the command that runs."""
    given = given_of(_given(context), OUTPUT_OPTIONS)
    if "output" in given:
        given["output"], given["jsonpath"] = format_of(given["output"])
    return OutputOptions(**given)


def flags_of(context: Context) -> "TargetFlags":
    """The flags of the target on the command line."""
    flags: TargetFlags = context.find_root().obj
    return flags


def remember(context: Context, params: Mapping[str, Any]) -> None:
    """Let what was given on the command line count for the command that runs."""
    _given(context).update(given_of(params, EVERYWHERE))


def _given(context: Context) -> dict[str, Any]:
    given: dict[str, Any] = context.meta.setdefault(_GIVEN, {})
    return given


class _WholeHelp(Command):
    """A command whose line in the list of commands is wrapped, and not cut off."""

    def get_short_help_str(self, limit: int = _WHOLE_CHARS) -> str:
        return super().get_short_help_str(max(limit, _WHOLE_CHARS))


class AdminCommand(_WholeHelp, TyperCommand):
    """A command that takes the options of the root too."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        own = super().get_params(ctx)
        taken = {word for param in own for word in (param.name, *param.opts)}
        root = ctx.find_root().command
        return own + [
            param for param in root.params if param.name in EVERYWHERE and not taken & {param.name, *param.opts}
        ]

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, _with_interval(args))
        except NoSuchOption as error:
            raise _suggesting(error, self.get_params(ctx)) from None

    def invoke(self, ctx: Context) -> Any:  # noqa: ANN401 - as in Typer
        own = {param.name for param in self.params}
        given = {name: ctx.params.pop(name) for name in EVERYWHERE - own if name in ctx.params}
        remember(ctx, given)
        ctx.find_root().obj = flags_from(_given(ctx))
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # Typer would end with 1
            console.discard_stdout()
            raise Exit from None

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        own = {id(param) for param in self.params}
        arguments, options, everywhere = [], [], []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            if param.param_type_name == "argument":
                arguments.append((record[0].removesuffix(" <str>"), record[1]))
            elif id(param) in own or param.name == "help":
                options.append(record)
            else:
                everywhere.append("/".join(param.opts))
        for heading, records in (("Arguments", arguments), ("Options", options)):
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
        if everywhere:
            with formatter.section(f"Options of every command, which `{PROGRAM} --help` explains"):
                formatter.write_text(", ".join(everywhere))


class AdminGroup(_WholeHelp, TyperGroup):
    """A group whose errors are one sentence, and whose root ends the process with our exit codes."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except NoSuchOption as error:
            raise _suggesting(error, self.get_params(ctx)) from None

    def list_commands(self, ctx: Context) -> list[str]:
        """Groups first, each in the order in which they came."""
        return sorted(super().list_commands(ctx), key=lambda name: not isinstance(self.commands[name], TyperGroup))

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        records = [record for param in self.get_params(ctx) if (record := param.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(records)

    def main(  # type: ignore[override]  # it never returns, whatever the mode
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        **extra: Any,  # noqa: ANN401 - as in Typer
    ) -> NoReturn:
        words = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False

        def work() -> ExitCode:
            return self._run(words, prog_name or PROGRAM, extra)

        sys.exit(console.ended(work, PROGRAM, debug="--debug" in words))

    def _run(self, words: list[str], prog_name: str, extra: dict[str, Any]) -> ExitCode:
        try:
            return ExitCode(super().main(words, prog_name, **extra) or ExitCode.OK)
        except NoArgsIsHelpError as error:
            sys.stderr.write(f"{error.ctx.get_help()}\n")
            return ExitCode.USAGE
        except Abort:
            return ExitCode.INTERRUPTED
        except TyperException as error:
            console.say(_sentence(error), PROGRAM)
            return ExitCode.USAGE


def lazy_group(nouns: Mapping[str, Callable[[], Typer]]) -> type[AdminGroup]:
    """A group that has these groups before its commands, and builds each when it is asked for: all take 0.1 s."""

    class LazyGroup(AdminGroup):
        def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
            if cmd_name in nouns and cmd_name not in self.commands:
                built = get_group(nouns[cmd_name]())
                built.name = cmd_name
                self.commands[cmd_name] = built
            return super().get_command(ctx, cmd_name)

        def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
            if args[0] not in self.list_commands(ctx):  # Typer suggests the nearest of those that are built
                for noun in nouns:
                    self.get_command(ctx, noun)
            return super().resolve_command(ctx, args)

        def list_commands(self, ctx: Context) -> list[str]:
            return [*nouns, *(name for name in super().list_commands(ctx) if name not in nouns)]

    return LazyGroup


def _with_interval(args: Sequence[str]) -> list[str]:
    """The words with a number after each `--watch`, which may stand alone."""
    found: list[str] = []
    for word in args:
        if found and found[-1] == WATCH and word.replace(".", "", 1).isdigit():
            found[-1] = f"{WATCH}={word}"
        else:
            found.append(word)
    return [f"{WATCH}={WATCH_DEFAULT}" if word == WATCH else word for word in found]


def _suggesting(error: NoSuchOption, params: Sequence[Parameter]) -> UsageError:
    """The error with the nearest option there is."""
    known = [word for param in params for word in (*param.opts, *param.secondary_opts)]
    near = difflib.get_close_matches(error.option_name, known, n=1)
    question = f". Did you mean {near[0]!r}?" if near else ""
    return UsageError(f"There is no option {error.option_name!r}{question}", error.ctx)


def _sentence(error: TyperException) -> str:
    text = " ".join(error.format_message().replace("Value error, ", "").split()).removesuffix(".")
    text = text[:1].lower() + text[1:]
    context = error.ctx if isinstance(error, UsageError) else None
    return f"{text}; `{context.command_path} --help` shows how" if context else text
