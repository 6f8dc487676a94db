"""Known ways in which released nodes differ from a requirement: recorded, held strictly, proposed anew."""

from conformance.deviations.proposals import Proposals, beside, propose
from conformance.deviations.recorded import SHIPPED, Deviation, Deviations, plain, shipped

__all__ = ["SHIPPED", "Deviation", "Deviations", "Proposals", "beside", "plain", "propose", "shipped"]
