"""One word per idea: names and prose use the words of Kafka's, etcd's and Prometheus's users, not those of our past."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.conftest import parsed

CODE: Final = ("danube/", "spark_analytics/", "lab/")
OFFLINE: Final = ("danube/offline/",)
RAFT: Final = ("danube/metadata/raft/",)
RAFT_AND_MODELS: Final = (*RAFT, "danube/metadata/shared_log/", "danube/metadata/replication/", "lab/raft/")
STORAGE: Final = ("danube/storage/",)
STORAGE_AND_MODELS: Final = (*STORAGE, "lab/takeover/")
NOT_LAB: Final = ("danube/", "spark_analytics/")
FORMATS: Final = frozenset({"numbering_id", "set_aside", "set_aside_bytes"})
"""Names that programs read: fields of the protocol, and of a report in JSON."""
QUESTION: Final = re.compile(
    r"(?:what|who|whom|whose|how|where|why|whether|whoever|whatever|wherever)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Retired:
    """One idea: its word, and the words that are refused for it.

    `names` are whole parts of an identifier, in snake case: `cutter` refuses `SegmentCutter`. `prose` is
    a regular expression over the docstrings of the same `rooms`, and over the documents whose path begins with `pages`.
    """

    say: str
    names: tuple[str, ...] = ()
    prose: str = ""
    rooms: tuple[str, ...] = CODE
    pages: str = ".*"


RETIRED: Final = (
    Retired(
        "drain, disconnect",
        ("farewell", "goodbye", "last_word", "departures", "came_back"),
        r"farewells?|goodbyes?|last word",
    ),
    Retired("takeover, release", ("handover", "giver"), r"hand-?overs?|givers?"),
    Retired("takeover, release", ("taking", "giving", "owning"), rooms=STORAGE_AND_MODELS),
    Retired("new owner", prose=r"(?:the|a|each|every|one) takers?", rooms=STORAGE_AND_MODELS),
    Retired("transfer of leadership", ("hand_over",), r"hands? over (?:the )?(?:leadership|lead)", rooms=RAFT),
    Retired(
        "previous owner's journal",
        ("foreign", "old_epochs"),
        r"foreign (?:parts?|tails?|journals?)|old epochs' files?",
        rooms=STORAGE_AND_MODELS,
    ),
    Retired("segment flusher, flush", ("cutter",), r"cutters?|cut into segments|thread that cuts"),
    Retired(
        "segment flusher, flush", ("cut", "cuts", "cutting"), r"cutting", rooms=("danube/storage/flush/",), pages=""
    ),
    Retired("trim, retain", ("going", "letting_go", "retaining"), r"letting go", rooms=STORAGE),
    Retired(
        "retention clock",
        ("steady_time", "believed", "believed_time", "stamps"),
        r"steady time|believed time",
        rooms=(*STORAGE, "danube/broker/"),
    ),
    Retired("read throttle", ("cold_turn",), r"cold turns?"),
    Retired("quarantine, backoff", ("trouble", "troubles"), rooms=STORAGE),
    Retired("placeholder record, gap", ("lost_log", "marker", "markers"), r"lost markers?", rooms=STORAGE),
    Retired("producer state, sequence", ("numbering", "row_of_numbers"), r"rows? of numbers|numberings"),
    Retired(
        "producer state",
        ("standing",),
        rooms=("danube/client/publish/", "danube/broker/topics/", "danube/storage/batches/", "danube/storage/log/"),
    ),
    Retired(
        "exhausted delivery, dead letter",
        ("spent_message", "spent_messages", "condemn", "condemned"),
        r"spent messages?|condemn(?:s|ed)?",
    ),
    Retired("tombstone, dead letter", ("bury", "buried", "burial"), r"bur(?:y|ies|ied)", rooms=NOT_LAB),
    Retired("snapshot", ("image", "images"), r"images?", rooms=RAFT_AND_MODELS, pages=r"docs/raft|docs/metadata\.md"),
    Retired(
        "raft core, node, message filter, apply queue",
        ("voting", "participant", "guard", "seam", "seams", "wires", "door"),
        r"at the door|seams?",
        rooms=RAFT,
        pages="docs/raft",
    ),
    Retired(
        "unknown peer",
        ("stranger", "strangers", "guest", "guests"),
        r"guests?|strangers?",
        rooms=(*RAFT, "lab/raft/"),
        pages="docs/raft",
    ),
    Retired("removed member", ("dismissed", "dismissal"), r"dismissed (?:member|broker|node)s?"),
    Retired("transaction builder", ("draft", "drafts"), rooms=NOT_LAB),
    Retired("extra writes", ("also",)),
    Retired("watch cache", ("mirror", "mirrors"), r"mirrors?"),
    Retired("migrate to cluster", ("carry_over", "carrying_over"), r"carr(?:ies|ied|ying) over"),
    Retired("remote topics", ("other_topics",), r"topics that are elsewhere"),
    Retired("dependencies, environment", ("ground", "grounds")),
    Retired("dependencies, environment", ("world", "worlds"), rooms=NOT_LAB),
    Retired("broker connection", ("line", "lines"), rooms=("danube/admin/grpc_gateway/",)),
    Retired("plans and audit", ("oversight",), r"oversight"),
    Retired("untrusted text", ("fence", "fences"), rooms=("danube/admin/",)),
    Retired("tool catalogue", ("offer", "offers"), rooms=("danube/admin/mcp/",)),
    Retired("app context, output options", ("desk",), r"desks?"),
    Retired("output options", ("look", "looks", "look_of"), rooms=("danube/admin/cli/",)),
    Retired("header", ("frame",), rooms=("danube/admin/tui/",)),
    Retired("scan", ("survey", "walk", "walks"), r"survey(?:s|ed)?", rooms=OFFLINE),
    Retired("findings", ("ledger", "ledgers"), r"ledgers?", rooms=OFFLINE, pages=""),
    Retired("quarantine folder", ("aside",), rooms=OFFLINE),
    Retired("scan result", ("ahead",), rooms=OFFLINE),
    Retired(
        "repaired",
        ("mend", "mended", "mending"),
        r"mend(?:s|ed|ing)?",
        rooms=(*OFFLINE, *STORAGE, "danube/data_folder/"),
        pages=r"docs/storage",
    ),
    Retired("batch accumulator", ("gathering",), r"(?:the|a) gathering"),
    Retired("batch stream", ("publish_lane",), r"publish lanes?"),
    Retired("interceptors, call catalogue", ("intake",), r"intakes?"),
)
"""What the first column says stays; the rest is refused."""


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier that somebody wrote, and where."""

    path: str
    line: int
    name: str


@dataclass(frozen=True, slots=True)
class Prose:
    """A docstring, or a line of a document."""

    path: str
    line: int
    text: str


@pytest.fixture(scope="module")
def trees(written: list[str], root: Path) -> dict[str, ast.Module]:
    """Every module of the packages and of the laboratory, parsed."""
    held = [name for name in written if name.startswith(CODE)]
    return dict(zip(held, parsed(root / name for name in held), strict=True))


@pytest.fixture(scope="module")
def names(trees: dict[str, ast.Module]) -> list[Name]:
    """Modules, classes, functions, arguments and annotated fields."""
    return [name for path, tree in trees.items() for name in names_of(path, tree)]


@pytest.fixture(scope="module")
def docstrings(trees: dict[str, ast.Module]) -> list[Prose]:
    """Docstrings of modules, classes and functions."""
    return [prose for path, tree in trees.items() for prose in docstrings_of(path, tree)]


@pytest.fixture(scope="module")
def documents(tracked: list[str], root: Path) -> list[Prose]:
    """Pages for users and engineers; decisions and formats are history."""
    pages = [
        name
        for name in tracked
        if re.fullmatch(r"docs/(?:mcp/)?[\w-]+\.md|README\.md|ARCHITECTURE\.md|CONTRIBUTING\.md", name)
    ]
    return [
        Prose(page, line, text) for page in pages for line, text in enumerate((root / page).read_text().splitlines(), 1)
    ]


def test_no_name_is_made_of_a_retired_word(names: list[Name]) -> None:
    assert [
        complaint(name.path, name.line, name.name, row) for row in RETIRED for name in names if refuses_name(row, name)
    ] == []


def test_no_docstring_or_document_uses_a_retired_word(docstrings: list[Prose], documents: list[Prose]) -> None:
    rows = [row for row in RETIRED if row.prose]
    any_of_all = re.compile(rf"\b(?:{'|'.join(row.prose for row in rows)})\b", re.IGNORECASE)
    found = [
        complaint(prose.path, prose.line, match.group(), row)
        for prose in [*docstrings, *documents]
        if any_of_all.search(prose.text)
        for row in rows
        if speaks_in(row, prose)
        for match in re.finditer(rf"\b(?:{row.prose})\b", prose.text, re.IGNORECASE)
    ]
    assert found == []


def test_no_docstring_begins_with_a_question_word(docstrings: list[Prose]) -> None:
    assert [f"{prose.path}:{prose.line} {prose.text[:60]}" for prose in docstrings if QUESTION.match(prose.text)] == []


def test_a_retired_word_is_noticed_as_a_whole_part_alone() -> None:
    flusher = next(row for row in RETIRED if "cutter" in row.names)
    found = ("SegmentCutter", "run_cutter", "execute", "cutters_edge", "power_cut")
    assert [refuses_name(flusher, Name("danube/a.py", 1, name)) for name in found] == [True, True, False, False, False]
    assert QUESTION.match("Whether it is so.")
    assert not QUESTION.match("Whatsoever it is.")


def names_of(path: str, tree: ast.Module) -> Iterator[Name]:
    """What a module names, and its own name."""
    file = Path(path)
    yield Name(path, 1, file.parent.name if file.stem == "__init__" else file.stem)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield Name(path, node.lineno, node.name)
        elif isinstance(node, ast.arg):
            yield Name(path, node.lineno, node.arg)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield Name(path, node.lineno, node.target.id)


def docstrings_of(path: str, tree: ast.Module) -> Iterator[Prose]:
    """Docstrings of modules, classes and functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield Prose(path, node.body[0].lineno, text)


def speaks_in(row: Retired, prose: Prose) -> bool:
    """Docstrings belong to rooms, documents to pages."""
    if prose.path.endswith(".md"):
        return bool(row.pages and re.match(row.pages, prose.path))
    return prose.path.startswith(row.rooms)


def refuses_name(row: Retired, name: Name) -> bool:
    """Whole parts alone count: `cut` is in `power_cut`, and not in `execute`."""
    if name.name in FORMATS or not name.path.startswith(row.rooms):
        return False
    parts = parts_of(name.name)
    return any(f"_{word}_" in parts for word in row.names)


@cache
def parts_of(name: str) -> str:
    """In snake case, with an underscore at both ends."""
    return f"_{re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name).lower().strip('_')}_"


def complaint(path: str, line: int, found: str, row: Retired) -> str:
    """Where, what, and the word to use."""
    return f"{path}:{line} {found}: say {row.say}"
