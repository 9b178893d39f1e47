"""Man pages and completions of all programs, from their commands: `python -m scripts.generate_man FOLDER`."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import typer.main
from typer._completion_shared import get_completion_script

from danube import __version__
from danube.admin.__main__ import app as admin_app
from danube.admin.__main__ import connect
from danube.broker.__main__ import app as broker_app
from danube.cli.__main__ import app as danube_app
from spark_analytics.__main__ import app as analytics_app

SHELLS = ("bash", "zsh", "fish")


def programs() -> dict[str, Any]:
    """The command tree of each program."""
    apps = {
        "danube": danube_app,
        "danube-admin": admin_app(connect),
        "danube-analytics": analytics_app,
        "danube-broker": broker_app,
    }
    return {name: typer.main.get_command(app) for name, app in apps.items()}


def commands(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - click's
    """A command, and all that is below it but what is hidden."""
    yield words, command
    context = click.Context(command, info_name=words[-1])
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        if below is not None and not below.hidden:
            yield from commands((*words, name), below)


def page(words: tuple[str, ...], command: Any, date: str) -> str:  # noqa: ANN401 - as above
    """The man page of one command, in the language of troff."""
    context = click.Context(command, info_name=" ".join(words))
    text = (command.help or "").strip().partition("\n\n")
    summary = " ".join(text[0].split()).rstrip(".")
    lines = [f'.TH "{"-".join(words).upper()}" 1 {date} "danube {__version__}" "Danube"', ".SH NAME"]
    lines += [f"{_roff('-'.join(words))} \\- {_roff(summary)}", ".SH SYNOPSIS", f".B {_roff(' '.join(words))}"]
    lines += [_roff(" ".join(command.collect_usage_pieces(context)))]
    if text[2].strip():
        lines += [".SH DESCRIPTION", *_paragraphs(text[2])]
    options = [record for each in command.get_params(context) if (record := each.get_help_record(context))]
    if options:
        lines.append(".SH OPTIONS")
        for flags, told in options:
            lines += [".TP", f".B {_roff(flags)}", _roff(" ".join(told.split())) or "\\&"]
    below = [
        name
        for _, name in sorted(
            (each[-1], "-".join(each)) for each, _ in commands(words, command) if len(each) == len(words) + 1
        )
    ]
    if below:
        lines += [".SH COMMANDS", *(f".BR {_roff(name)} (1)\n.br" for name in below)]
    if command.epilog:
        lines += [".SH NOTES", ".nf", *(_roff(line) for line in command.epilog.strip().splitlines()), ".fi"]
    return "\n".join(lines) + "\n"


def write(folder: Path) -> int:
    """Write all pages and completions; answers how many."""
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    count = 0
    for name, tree in programs().items():
        for words, command in commands((name,), tree):
            path = folder / "man" / "man1" / f"{'-'.join(words)}.1"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page(words, command, date), encoding="utf-8")
            count += 1
        variable = f"_{name}_COMPLETE".replace("-", "_").upper()
        for shell in SHELLS:
            path = folder / "completions" / f"{name}.{shell}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(get_completion_script(prog_name=name, complete_var=variable, shell=shell) + "\n")
            count += 1
    return count


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.strip().split("\n\n"):
        yield ".PP"
        yield _roff(" ".join(paragraph.split()))


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("\b", "")
    return f"\\&{escaped}" if escaped[:1] in {".", "'"} else escaped


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[1]))} files in {sys.argv[1]}")
