"""The campaigns: what each is for, which messages it lies about in which states.

To add one, write a function that makes its sources and register it in ``CAMPAIGNS``.
"""

from __future__ import annotations

from fuzz.campaigns import (
    everywhere,
    extensions,
    fragments,
    framing,
    generated,
    handshake,
    havoc,
    keys,
    multicast,
    resources,
    responder,
    scouting,
    session,
    state,
    valid,
)
from fuzz.campaigns.base import Campaign, Setting

__all__ = ["CAMPAIGNS", "Campaign", "Setting"]

CAMPAIGNS: dict[str, Campaign] = {
    campaign.name: campaign
    for campaign in (
        everywhere.CAMPAIGN,
        handshake.CAMPAIGN,
        session.CAMPAIGN,
        extensions.CAMPAIGN,
        keys.CAMPAIGN,
        valid.CAMPAIGN,
        havoc.CAMPAIGN,
        generated.CAMPAIGN,
        fragments.CAMPAIGN,
        state.CAMPAIGN,
        resources.CAMPAIGN,
        framing.CAMPAIGN,
        responder.CAMPAIGN,
        scouting.CAMPAIGN,
        multicast.CAMPAIGN,
    )
}
