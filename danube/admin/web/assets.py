"""Templates and static files, read when this module is: nothing waits for the disk while a request does."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

_HERE = Path(__file__).parent
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file that a browser fetches beside a page."""

    content: bytes
    media_type: str


TEMPLATES = {file.name: file.read_text(encoding="utf-8") for file in sorted((_HERE / "templates").glob("*.html"))}
STATIC = {
    file.name: StaticFile(file.read_bytes(), _TYPES[file.suffix])
    for file in sorted((_HERE / "static").iterdir())
    if file.suffix in _TYPES
}
VERSION = sha256(b"".join(each.content for each in STATIC.values())).hexdigest()[:12]
"""Changes with the files: browsers keep them for as long as it does not."""
