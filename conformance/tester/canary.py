"""Whether a node is well."""

from __future__ import annotations

import contextlib
import random
import re

from conformance.config import REPLY_SECONDS, Locator
from conformance.errors import HarnessError, LinkFailed, LocalError, NotApplicable, Unmet
from conformance.tester.tester import Tester


def why_not_well(locator: Locator, reply: float = REPLY_SECONDS) -> str:
    """Opens a fresh session, pings, and closes: the canary. Returns why that failed, or nothing.

    A TCP accept, and even an OpenAck, prove nothing: the ping is what shows that the node serves.
    """
    return trouble(Tester(locator, random.Random(), reply))


UNSERVED = "a fresh session fails: "


def is_refusal(trouble: str) -> bool:
    """Tells whether a node that is not well has said so, by CLOSE or the end of the link, before a session was open."""
    before = re.match(rf"{UNSERVED}expected (?:INIT|OPEN)\b.*, seen (?!nothing)", trouble)
    return before is not None


def is_unanswered(trouble: str) -> bool:
    """Tells whether a fresh session was opened, and what it asked was not answered."""
    return re.match(rf"{UNSERVED}expected (?:RESPONSE_FINAL|D_FINAL)\b.*, seen nothing", trouble) is not None


def trouble(tester: Tester) -> str:
    """The same with a tester that was made for it, and is closed behind it.

    A node that nobody can ask whether it is done is well when it opens a session.
    """
    try:
        end = tester.session()
        with contextlib.suppress(NotApplicable):
            end.fence()
        end.close()
    except LinkFailed as error:
        return str(error)
    except (Unmet, LocalError, HarnessError) as error:
        # Whoever gave the session up: without the reason it looks as if the node had.
        why = "".join(f"; our end gave it up: {why}" for why in tester.history.given_up.values())
        return f"{UNSERVED}{error}{why}"
    finally:
        tester.close()
    return ""
