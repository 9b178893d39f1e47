"""Redaction of texts that leave a process: tokens, API keys, passwords and private keys become a word. Pure.

What has the form of a secret goes, wherever it stands; what only looks like one (a topic `token`) stays readable.
"""

import re

REDACTED = "[redacted]"

FORMS = re.compile(
    r"eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?"  # a JSON web token
    r"|dk_[0-9a-f]{16}_[0-9a-f]{16,}"  # an API key of ours
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
"""The forms of secrets that are known wherever they stand."""
_BEHIND = re.compile(
    r"(?P<before>\bbearer\s+|authorization[\"']?\s*[=:]\s*[\"']?basic\s+"
    r"|(?:token|password|passwd|secret|api[_-]?key|access[_-]?key(?:[_-]?id)?|authorization)[\"']?\s*[=:]\s*)"
    r"(?![\"']?(?:bearer|basic)\b)(?P<secret>\"[^\"]*\"|'[^']*'|[^\s\"',;&)}\]]+)",
    re.IGNORECASE,
)
_IN_URL = re.compile(r"(?P<before>\w://[^\s/:@]*:)[^\s/@]+(?=@)")


def redacted(text: str) -> str:
    """The text without secrets."""
    text = FORMS.sub(REDACTED, text)
    text = _IN_URL.sub(rf"\g<before>{REDACTED}", text)
    return _BEHIND.sub(rf"\g<before>{REDACTED}", text)
