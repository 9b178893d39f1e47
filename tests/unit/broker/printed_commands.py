"""The commands that a message tells people to run, run."""

import re
import shlex

from typer.testing import CliRunner

from danube.broker.__main__ import app


def commands_in(text: str) -> list[list[str]]:
    """The commands that a message tells people to run, as a shell would take them."""
    return [shlex.split(command) for command in re.findall(r"`danube-broker ([^`]*)`", text)]


def codes_of(text: str) -> dict[str, int]:
    """How those commands end, by what they do."""
    found = commands_in(text)
    return {words[1]: CliRunner().invoke(app, words, prog_name="danube-broker").exit_code for words in found}
