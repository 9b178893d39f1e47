"""Flags that the commands of `danube-analytics` share."""

from pathlib import Path
from typing import Annotated

import typer

from danube.model.errors import SettingsError
from danube.model.limits.faces import ANALYTICS_RUN_S_MAX
from danube.model.limits.security import TOKEN_BYTES_MAX
from danube.runtime.console import DEBUG, duration_flag, warn_of_token
from danube.runtime.paths import PATH_FLAG
from spark_analytics.progress import PROGRAM
from spark_analytics.render import ResultFormat

ServiceUrl = Annotated[
    str, typer.Option("--service-url", envvar="DANUBE_SERVICE_ADDR", help="Broker: http://host:port.")
]
Master = Annotated[
    str, typer.Option("--master", envvar="DANUBE_SPARK_MASTER", help="Spark: local[2], spark://host:port, ...")
]
Since = Annotated[str, typer.Option("--since", help="How much telemetry to read: 5m, 1h, 7d.")]
AsOf = Annotated[
    str | None, typer.Option("--as-of", help="The time to judge, ISO 8601 or ms since 1970.", show_default="now")
]
Every = Annotated[
    str | None, typer.Option("--every", help="Between two moments that are judged: 1m, 1h.", show_default="by --since")
]
Percentile = Annotated[
    float, typer.Option("--percentile", min=1, max=100, help="Of the load that balance plans for, in percent.")
]
TableFolder = Annotated[
    Path | None,
    typer.Option("--table", **PATH_FLAG, help="Read this table that ingest wrote, and not the topic."),
]
Topic = Annotated[str | None, typer.Option("-t", "--topic", help="Only this topic, with all its partitions.")]
Subscription = Annotated[str | None, typer.Option("-s", "--subscription", help="Only this subscription.")]
Namespace = Annotated[str | None, typer.Option("-n", "--namespace", help="Only this namespace.")]
Publish = Annotated[bool, typer.Option("--publish/--no-publish", help="Store the result in /system/analytics.")]
ReportFile = Annotated[
    Path | None,
    typer.Option("--report", **PATH_FLAG, help="Write a report there, too: a file .html or .md."),
]
Output = Annotated[ResultFormat, typer.Option("-o", "--output", help="How to write.")]
RunId = Annotated[
    str | None, typer.Option("--run-id", help="Name of the run; a random one by default.", show_default=False)
]
TimeLimit = Annotated[
    float, typer.Option("--time-limit-s", **duration_flag(1, ANALYTICS_RUN_S_MAX), help="Give up after so long.")
]
CaCert = Annotated[
    Path | None,
    typer.Option("--ca-cert", envvar="DANUBE_CA_CERT", **PATH_FLAG, help="Connect over TLS and trust this authority."),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="DANUBE_TOKEN",
        help="Token of the caller; needs TLS.",
        callback=warn_of_token(PROGRAM, "DANUBE_TOKEN or --token-file"),
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", **PATH_FLAG, help="File with the token of the caller, in place of --token."),
]
Progress = Annotated[
    bool | None, typer.Option("--progress/--no-progress", help="Say each step.", show_default="on a terminal")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but errors.")]
Debug = Annotated[bool, typer.Option(DEBUG, help="Show where an error came from.")]
"""Read where errors are shown."""


def chosen_token(token: str | None, file: Path | None) -> str | None:
    """The token of a file, else the one that was given. Raises SettingsError."""
    if file is None:
        return token
    try:
        with file.open(encoding="ascii") as there:
            found = there.read(TOKEN_BYTES_MAX + 2).strip()
    except OSError as error:
        raise SettingsError(f"cannot read the token file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        found = ""
    if not found or not found.isprintable() or " " in found or len(found) > TOKEN_BYTES_MAX:
        raise SettingsError(f"{file} holds no token: a token is one word of printable ASCII, and not shown here")
    return found
