"""From an objection to a finding: which case did it, does it come again, what is it called, what is left out.

``Triage`` keeps the findings and has them looked into: ``attribution`` finds the case, ``confirming`` sees whether it comes
again, ``smaller`` makes its script smaller, ``signature`` names it, ``leaving_out`` keeps its like from being played.
"""

from fuzz.triage.attribution import LATE
from fuzz.triage.confirming import Stopped
from fuzz.triage.leaving_out import HITS, HITS_FLAKY, SAMPLE, WIDE
from fuzz.triage.signature import akin, bucket_of, comes_again, telling
from fuzz.triage.smaller import minimise, names_in
from fuzz.triage.suspects import Suspect, joined
from fuzz.triage.triage import LOOKS, Triage

__all__ = [
    "HITS",
    "HITS_FLAKY",
    "LATE",
    "LOOKS",
    "SAMPLE",
    "WIDE",
    "Stopped",
    "Suspect",
    "Triage",
    "akin",
    "bucket_of",
    "comes_again",
    "joined",
    "minimise",
    "names_in",
    "telling",
]
