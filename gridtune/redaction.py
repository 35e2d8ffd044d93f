"""Passwords and tokens in URIs, which no log, error, tag, report or file of a sweep may show."""

from __future__ import annotations

import re

__all__ = ["has_secrets", "without_secrets"]

#: What stands before the host of a URI: a user and a password, or a token alone.
_PASSWORD = re.compile(r"(\w://[^\s/:@?#]*:)[^\s/?#]+@")
_TOKEN = re.compile(r"(\b(?:https?|s3|gs|gcs|abfss?)://)[^\s/:@?#]+@", re.IGNORECASE)
#: Values in a URI's query whose names say that they are secret, such as `X-Amz-Signature` and `sslkey`.
_QUERY = re.compile(
    r"([?&;](?:[\w.-]*(?:password|passwd|pwd|token|secret|sig|signature|credential|credentials|key|auth))=)"
    r"[^\s&;#'\"]*[^\s&;#'\",:.)]",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Return a text with the passwords and tokens in its URIs replaced by stars."""
    if "://" not in text:
        return text
    text = _TOKEN.sub(r"\1***@", _PASSWORD.sub(r"\1***@", text))
    return _QUERY.sub(r"\1***", text)


def has_secrets(uri: str) -> bool:
    """Return whether a URI holds a password or a token."""
    return without_secrets(uri) != uri
