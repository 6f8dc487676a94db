"""The sans-IO router: what arrives on one face goes to others, by declarations. Other packages import from here."""

from conformance.router.policy import RouterPolicy
from conformance.router.router import Outgoing, Router
from conformance.router.tables import Face

__all__ = ["Face", "Outgoing", "Router", "RouterPolicy"]
