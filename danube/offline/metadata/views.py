"""Pages for people of what `danube-broker metadata` did and found.

Keys and values hold names that strangers chose: what is no plain character in them is escaped.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from danube.data_folder.older_metadata import LostTopic, loss_text
from danube.model.limits.metadata import METADATA_VALUE_CHARS_SHOWN_MAX
from danube.model.text import count_text, time_of
from danube.offline.output import NONE, Facts, table
from danube.runtime.console import escaped as _plain


def backup_text(facts: Facts) -> str:
    """The page of a backup: what is in it, and how much of the metadata that may be."""
    lines = [
        f"Backed up to {_plain(facts['file'])} ({facts['bytes']:,} bytes)",
        f"From:       {_from(facts['origin'])}",
        f"Cluster:    {_plain(facts['origin']['cluster_id'] or 'none yet')}",
        f"Revision:   {facts['revision']:,}, {count_text(facts['keys'], 'key')}",
    ]
    return "\n".join([*lines, *_knowledge(facts["origin"])]) + "\n"


def restore_text(facts: Facts) -> str:
    """The page of a restore, and what differs from the backup."""
    origin, gone = facts["origin"], facts["left_out"]
    leased = (
        f"{count_text(gone['leases'], 'lease')} with {count_text(gone['leased_keys'], 'key')} of brokers that ran then"
    )
    lines = [
        f"Restored {_plain(facts['file'])}, taken {time_of(origin['taken_ms'])} from {_from(origin)}",
        f"Into:       {_plain(facts['into'])}",
        f"Revision:   {facts['revision']:,}, {count_text(facts['keys'], 'key')}; read back, and the same",
        f"Left out:   {leased}, {count_text(gone['outcomes'], 'outcome')} of past requests",
    ]
    if facts["next_topic_id"] is not None:
        lines.append(f"Topic ids:  the next one is {facts['next_topic_id']:,}, so none is given out twice")
    if facts["set_aside"]:
        lines.append(f"Set aside:  {_plain(facts['set_aside'])}")
    if facts["lost"]:
        lost = loss_text([LostTopic(**one) for one in facts["lost"]])
        lines.append(f"Newer:      {lost}: in this folder, and not in the backup")
    return "\n".join([*lines, *_knowledge(origin), f"Next: {_plain(facts['next'])}."]) + "\n"


def adopt_text(facts: Facts) -> str:
    """A data folder under metadata that was restored."""
    mark = facts["restored"]
    lines = [f"Data folder: {_plain(facts['data_folder'])}", f"Metadata:    {_plain(facts['metadata'])}"]
    if mark is not None:
        lines.append(f"Restored:    from a backup of {time_of(mark['taken_ms'])}, revision {mark['revision']:,}")
    if facts["newer"]:
        known = count_text(facts["newer"], "topic")
        lines.append(
            f"Kept:        {known} with newer files than the metadata says; it learns of them at the next start"
        )
    rows = [(_plain(one["topic"] or "?"), str(one["topic_id"]), f"{one['messages']:,}") for one in facts["lost"]]
    verdict = "Nothing that is stored here would be lost."
    if facts["accepted"]:
        verdict = "Accepted: the next start goes on without these."
    elif facts["lost"]:
        verdict = "A broker does not start here: the metadata does not know these topics, and they would be lost."
    page = [*lines, "", *([table("In this folder alone", ("topic", "id", "messages"), rows), ""] if rows else [])]
    return "\n".join([*page, verdict]) + "\n"


def inspect_text(facts: Facts) -> str:
    """The store as a whole."""
    families = [(_plain(name), f"{count:,}") for name, count in facts["families"].items()]
    leases = [
        tuple(f"{one[label]:,}" for label in ("lease_id", "ttl_s", "renewals", "keys")) for one in facts["leases"]
    ]
    parts = [
        "\n".join(_head(facts)),
        *_raft_parts(facts["raft"]),
        table("Keys", ("family", "keys"), families),
        table("Leases", ("lease", "seconds", "renewals", "keys"), leases),
        "\n".join(f"damage: {_plain(one)}" for one in facts["troubles"]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def keys_text(facts: Facts) -> str:
    """Keys and what they hold; one alone in full."""
    entries = facts["entries"]
    if facts["key"] is not None:
        (one,) = entries
        lines = [f"{label}: {_plain(str(one[label]))}" for label in ("key", "revision", "created_revision", "lease_id")]
        value = json.dumps(one["value"], indent=2)
        return "\n".join([*lines, *_wrong(one), f"value: {value}"]) + "\n"
    rows = [_entry_row(one) for one in entries]
    more = facts["total"] - len(rows)
    page = table("", ("key", "revision", "lease", "value"), rows) or "No keys."
    return f"{page}\n" + (f"... and {more:,} more; -o json shows all\n" if more else "")


def _head(facts: Facts) -> Iterator[str]:
    origin = facts["origin"]
    yield f"Metadata: {_from(origin)}"
    if facts["file"]:
        taken = f"taken {time_of(origin['taken_ms'])} by Danube {_plain(origin['danube'])}"
        yield f"Backup:   {_plain(facts['file'])}, {taken}"
    if facts["readable"]:
        yield f"Cluster:  {_plain(origin['cluster_id'] or 'none yet')}"
        yield f"Revision: {facts['revision']:,}, {count_text(facts['keys'], 'key')}"
    if origin["position"]:
        yield f"Position: {origin['position']:,}, surely agreed on up to {origin['agreed_position']:,}"


def _raft_parts(raft: Mapping[str, Any] | None) -> Sequence[str]:
    if raft is None:
        return ()
    snapshot, log = "none", "none that can be read"
    if raft["snapshot_index"]:
        snapshot = f"entry {raft['snapshot_index']:,} of term {raft['snapshot_term']:,}"
    if raft["first_index"]:
        log = f"entries {raft['first_index']:,} to {raft['last_index']:,}, the last of term {raft['last_term']:,}"
    lines = (
        f"Member:   {raft['node_id']} of the group {_plain(raft['cluster_id'] or '(none yet)')}",
        f"Term:     {raft['term']:,}, voted for {_plain(raft['voted_for'] or 'nobody')}",
        f"Snapshot: {snapshot}",
        f"Log:      {log}",
    )
    voters = table("Voters", ("member",), [(_plain(member),) for member in raft["members"]])
    files = [(_plain(one["name"]), f"{one['size_bytes']:,}", _plain(one["holds"])) for one in raft["files"]]
    return "\n".join(lines), voters, table("Files", ("file", "bytes", "holds"), files)


def _entry_row(one: Mapping[str, Any]) -> tuple[str, ...]:
    value = json.dumps(one["value"], ensure_ascii=False, separators=(",", ":"))
    cut = value if len(value) <= METADATA_VALUE_CHARS_SHOWN_MAX else f"{value[:METADATA_VALUE_CHARS_SHOWN_MAX]}..."
    lease = str(one["lease_id"]) if one["lease_id"] else NONE
    return _plain(one["key"]), f"{one['revision']:,}", lease, _plain(" ".join([*_wrong(one), cut]))


def _wrong(one: Mapping[str, Any]) -> Sequence[str]:
    return [f"damage: {_plain(one['trouble'])}"] if one["trouble"] else []


def _knowledge(origin: Mapping[str, Any]) -> Sequence[str]:
    """The entries that a Raft member which does not run had."""
    if origin["kind"] != "raft":
        return ()
    known = f"up to {origin['position']:,}, as this one member had them; agreed on up to {origin['agreed_position']:,}."
    return (f"Entries:    {known}", "            Of others, and of any that it never got, only a majority knows.")


def _from(origin: Mapping[str, Any]) -> str:
    return _plain(f"{origin['kind']}, {origin['place']}")
