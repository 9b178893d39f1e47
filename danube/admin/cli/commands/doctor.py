"""`danube-admin doctor`: what of this machine is wrong for a broker."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from danube.admin.cli.call import stdout_screen
from danube.admin.cli.output.draw import drawn
from danube.admin.cli.output.help_text import examples_text
from danube.admin.cli.output.selection import program_text
from danube.admin.cli.typer_classes import output_options_of
from danube.admin.present import Table, View, printable
from danube.admin.target import PROGRAM
from danube.model.exit_codes import ExitCode
from danube.runtime import console
from danube.runtime.paths import PATH_FLAG

PORTS = (6_650, 50_051, 7_650, 9_040)
"""Those of a broker: clients, administration, Raft, metrics."""
EPILOG = examples_text(
    [
        ("Before a broker is started here", f"{PROGRAM} doctor --data-dir /var/lib/danube"),
        ("While one runs, which has the ports", f"{PROGRAM} doctor --data-dir /var/lib/danube --no-ports"),
    ]
)


def doctor_command(
    context: typer.Context,
    data_dir: Annotated[
        Path, typer.Option("--data-dir", **PATH_FLAG, help="Folder for the broker's data; its disk is written to.")
    ] = Path("danube-data"),
    port: Annotated[
        list[int] | None, typer.Option("--port", min=1, max=65_535, help="A port of the broker; repeat for more.")
    ] = None,
    no_ports: Annotated[bool, typer.Option("--no-ports", help="Do not ask whether its ports are free.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Check this machine before it runs a broker: limits, memory, disk, syncs, clock, ports.

    It measures some syncs in the folder, or above it while it is not there, and leaves nothing behind.
    """
    from danube.admin.doctor.facts import host_facts  # noqa: PLC0415 - `--help` needs none of it
    from danube.admin.doctor.rules import CRITICAL, OK, findings, worst  # noqa: PLC0415 - as above

    found = findings(host_facts(data_dir, () if no_ports else port or PORTS))
    output = output_options_of(context)
    if output.output.is_for_people:
        rows = tuple((each.check, each.status, printable(each.found)) for each in found)
        steps = tuple(f"{each.check}: {each.next_step}" for each in found if each.next_step)
        table = Table("Checks", ("Check", "Status", "Found"), rows)
        console.write(drawn(View(tables=(table,), notes=steps), stdout_screen(output)))
    else:
        console.write(program_text([asdict(each) for each in found], output))
    code = {OK: ExitCode.OK, CRITICAL: ExitCode.CRITICAL}.get(worst(found), ExitCode.WARNING)
    if code is not ExitCode.OK:
        raise typer.Exit(code)
