"""Whom a node of ours lets in, in a file that it can read: in memory only, so that no password is left behind."""

from __future__ import annotations

import os
from functools import cache

from conformance.config import Credentials

USERS = "transport/auth/usrpwd/dictionary_file"
"""A node that has it opens sessions with the users in there only."""

USER = "transport/auth/usrpwd/user"
"""Who a node is when it connects."""

PASSWORD = "transport/auth/usrpwd/password"  # noqa: S105  (its name)
"""Of that user."""


@cache
def dictionary(who: Credentials) -> str:
    """Returns the path of a file with one user and its password; it is there as long as this process."""
    descriptor = os.memfd_create("users")
    os.write(descriptor, b"%s:%s\n" % (who.user, who.password))
    return f"/proc/{os.getpid()}/fd/{descriptor}"
