"""When something stood in the way: windows of time, from the steps of a scenario and from what the collection says."""

import functools
import math
import re

# Seconds: what a fault leaves behind it (a Lease that has to run out, a replica that starts, calls that time out).
AFTER = 60
# Of a brake: it is told of every ten minutes while it lasts; two minutes later it is looked again.
BRAKED = 600 + 120
# Looking after an instance by its token: for as long as EC2 may not show it, and calls that time out.
LOOK = 60 + 60

_SUFFIXES = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "": 1.0}


class Windows:
    """What a log tells of obstacles: `blind` while EC2 lists nothing, `allowed` while the operator releases the brakes,
    `obstructed` by both the former and by replicas that are killed, paused or cut off; `braked` by the collection itself."""

    def __init__(self):
        self.blind, self.allowed, self.obstructed, self.braked, self.lost = [], [], [], [], []

    def step(self, t, action):
        name, lasts = action["type"], _lasts(action)
        if name == "allowCollection":
            self.allowed.append((t, t + lasts))
        elif name == "emptyLists":
            self.blind.append((t, t + lasts))
            self.obstructed.append((t, t + lasts + AFTER))
        elif name in ("lose", "restore"):
            self.lost.append(t)
            self.obstructed.append((t, t + (0 if math.isinf(lasts) else lasts) + AFTER))
        elif name in ("kill", "pause"):
            # For ever: another one takes over.
            self.obstructed.append((t, t + (0 if math.isinf(lasts) else lasts) + AFTER))
        elif name == "spoil" and action["kind"] != "NodeClaim":
            # What replicas cannot read keeps nobody from collecting, but for the claims themselves.
            pass
        elif name not in ("zoneDown", "zonalShift", "lookAfterCollection", "unwell") and "duration" in action and action.get("from") != ["sqs"]:
            self.obstructed.append((t, t + lasts + AFTER))

    def brake(self, t):
        self.braked.append((t - 120, t + BRAKED))

    def undisturbed(self, begin, end, cuts=()):
        """The longest stretch from `begin` to `end` that no window touches and no cut (a moment) parts."""
        longest, at = 0.0, begin
        for first, last in sorted([*self.obstructed, *self.braked, *((t, t) for t in cuts)]):
            if last > begin and first < end:
                longest, at = max(longest, first - at), max(at, last)
        return max(longest, end - at)


def within(windows, t):
    """Whether a moment lies in one of the windows."""
    return any(first <= t <= last for first, last in windows)


def touched(windows, begin, end):
    """Whether one of the windows touches a stretch of time."""
    return any(first <= end and last >= begin for first, last in windows)


def _lasts(action):
    """How long a step lasts, in seconds: for ever where it does not say."""
    duration = action.get("duration")
    return math.inf if duration is None else duration


@functools.cache
def _number(quantity):
    found = re.fullmatch(r"([0-9.eE+]+?)(m|k|M|G|T|Ki|Mi|Gi|Ti|)", quantity)
    if not found:
        raise ValueError(f"quantity {quantity!r}")
    return float(found[1]) * _SUFFIXES[found[2]]


def number(quantity):
    """A quantity as Kubernetes writes it."""
    return _number(str(quantity))


def total(requests):
    """The sum of several requests, or one; each {resource: quantity} or nothing."""
    out = {}
    for one in [requests] if isinstance(requests, dict) else requests or []:
        for resource, quantity in (one or {}).items():
            out[resource] = out.get(resource, 0.0) + number(quantity)
    return out
