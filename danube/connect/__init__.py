"""Connectors: data in and out of topics. `danube.connect.sdk` is the page to read for one of your own."""

from danube.connect.batch import Batch, Out, Partition, Record
from danube.connect.config.routes import SinkRoute, SinkSettings, SourceRoute, SourceSettings
from danube.connect.failures import OtherSideError, RefusedError
from danube.connect.sdk import WRITERS, Context, Emit, ExactSink, PushedSource, Sink, Source, sink, source

__all__ = [
    "WRITERS",
    "Batch",
    "Context",
    "Emit",
    "ExactSink",
    "OtherSideError",
    "Out",
    "Partition",
    "PushedSource",
    "Record",
    "RefusedError",
    "Sink",
    "SinkRoute",
    "SinkSettings",
    "Source",
    "SourceRoute",
    "SourceSettings",
    "sink",
    "source",
]
