"""What failed before a restart is judged when it would be sent for the first time after it. Pure."""

from danube.broker.dispatch.instructions import Send
from danube.broker.dispatch.progress import Progress
from danube.broker.dispatch.redelivery import RedeliveryPolicy, Verdict, verdict
from danube.model.ranges import OffsetRange


def judge_recalled(
    send: Send, progress: Progress, policy: RedeliveryPolicy
) -> tuple[list[Send], list[tuple[OffsetRange, Verdict]]]:
    """What of `send` goes out, and what failed too often to be sent once more; neither is recalled any more."""
    kept: list[Send] = []
    exhausted: list[tuple[OffsetRange, Verdict]] = []
    start = send.start
    for recalled in progress.recalled.overlap(send.start, send.end):
        progress.recalled.remove(*recalled)
        for low, high, failures in progress.failed.of(*recalled):
            decision = verdict(failures, policy)
            if decision is Verdict.RETRY:
                continue
            exhausted.append((OffsetRange(low, high), decision))
            if start < low:
                kept.append(Send(send.consumer_id, start, low, send.attempt))
            start = high
    if start < send.end:
        kept.append(Send(send.consumer_id, start, send.end, send.attempt))
    return kept, exhausted
