"""Label requirements as Kubernetes and Karpenter define them, and resource quantities.

A `Req` is the set of values a label may take: concrete (`In`), or a complement (`NotIn`, `Exists`), with inclusive
integer bounds. An absent label is `None` wherever a *state* is spoken of: what a node carries, as opposed to what is asked.
"""

import re
from fractions import Fraction

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")

ALIASES = {
    "topology.ebs.csi.aws.com/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def norm(key):
    """The stable spelling of a label key."""
    return ALIASES.get(key, key)


def as_int(text):
    """The integer a label value spells, or None."""
    return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None


class Req:
    """A set of label values: `comp` says that `vals` are the excluded ones; `lo` and `hi` are inclusive bounds."""

    __slots__ = ("comp", "vals", "lo", "hi", "_hash")

    def __init__(self, comp, vals=frozenset(), lo=None, hi=None):
        vals = frozenset(vals)
        if lo is not None and hi is not None and lo > hi:
            comp, vals, lo, hi = False, frozenset(), None, None
        if not comp and (lo is not None or hi is not None):
            vals, lo, hi = frozenset(v for v in vals if _inside(v, lo, hi)), None, None
        self.comp, self.vals, self.lo, self.hi = comp, vals, lo, hi
        self._hash = hash((comp, vals, lo, hi))

    @staticmethod
    def of(operator, values=()):
        """The set one expression stands for. Raises ValueError for what is no expression."""
        values = [str(v) for v in (values or ())]
        if operator == "In":
            return Req(False, values)
        if operator == "NotIn":
            return Req(True, values)
        if operator == "Exists":
            return Req(True)
        if operator == "DoesNotExist":
            return Req(False)
        if operator not in OPERATORS:
            raise ValueError(f"operator {operator!r}")
        number = as_int(values[0]) if len(values) == 1 else None
        if number is None:
            raise ValueError(f"{operator} with values {values}")
        return {
            "Gt": lambda: Req(True, lo=number + 1),
            "Gte": lambda: Req(True, lo=number),
            "Lt": lambda: Req(True, hi=number - 1),
            "Lte": lambda: Req(True, hi=number),
        }[operator]()

    def has(self, value):
        """Whether a label with this value satisfies the set."""
        if self.comp:
            return value not in self.vals and _inside(value, self.lo, self.hi)
        return value in self.vals

    def meet(self, other):
        """The intersection."""
        if not self.comp:
            return Req(False, (v for v in self.vals if other.has(v)))
        if not other.comp:
            return Req(False, (v for v in other.vals if self.has(v)))
        los = [x for x in (self.lo, other.lo) if x is not None]
        his = [x for x in (self.hi, other.hi) if x is not None]
        return Req(True, self.vals | other.vals, max(los, default=None), min(his, default=None))

    def empty(self):
        """No value is possible."""
        if not self.comp:
            return not self.vals
        if self.lo is None or self.hi is None:
            return False
        return self.hi - self.lo < 1000 and not any(self.has(str(n)) for n in range(self.lo, self.hi + 1))

    def within(self, other):
        """Whether every value of this set is one of the other's."""
        if not self.comp:
            return all(other.has(v) for v in self.vals)
        if not other.comp:
            return self.empty()
        if other.lo is not None and (self.lo is None or self.lo < other.lo):
            return False
        if other.hi is not None and (self.hi is None or self.hi > other.hi):
            return False
        return not any(self.has(v) for v in other.vals)

    def absent_ok(self):
        """Whether a node without the label satisfies it: NotIn and DoesNotExist."""
        if not self.comp:
            return not self.vals
        return bool(self.vals) and self.lo is None and self.hi is None

    def __eq__(self, other):
        return (self.comp, self.vals, self.lo, self.hi) == (other.comp, other.vals, other.lo, other.hi)

    def __hash__(self):
        return self._hash

    def __repr__(self):
        if self.comp and self.lo is None and self.hi is None:
            return f"not in {sorted(self.vals)}" if self.vals else "exists"
        if not self.comp:
            return f"in {sorted(self.vals)}" if self.vals else "absent"
        return f"in [{self.lo}, {self.hi}] without {sorted(self.vals)}"


def _inside(value, lo, hi):
    if lo is None and hi is None:
        return True
    number = as_int(value)
    return number is not None and (lo is None or number >= lo) and (hi is None or number <= hi)


def surely(operator, values, state):
    """Whether an expression holds on a node whose label may be any value of `state` (None: the label is absent)."""
    if state is None:
        return operator in ("NotIn", "DoesNotExist")
    if operator == "DoesNotExist":
        return False
    if operator == "Exists":
        return not state.empty()
    return not state.empty() and state.within(Req.of(operator, values))


def possibly(operator, values, state):
    """Whether an expression can hold for some value of `state`."""
    if state is None:
        return operator in ("NotIn", "DoesNotExist")
    if operator == "DoesNotExist":
        return False
    return not state.meet(Req.of(operator, values)).empty()


def requirement_set(items):
    """{key: Req} of a list of {key, operator, values}; expressions on one key are intersected."""
    out = {}
    for item in items or ():
        key = norm(item["key"])
        req = Req.of(item["operator"], item.get("values"))
        out[key] = out[key].meet(req) if key in out else req
    return out


_SUFFIX = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": 1, "k": 10**3, "M": 10**6,
           "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
           "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")
_known = {}


def quantity(text):
    """A Kubernetes quantity, exact. Raises ValueError for what is none."""
    text = str(text)
    if text not in _known:
        found = _QUANTITY.fullmatch(text.strip())
        if not found:
            raise ValueError(f"quantity {text!r}")
        value = Fraction(found[1]) * (Fraction("1" + found[2]) if found[2] else _SUFFIX[found[3] or ""])
        _known[text] = int(value) if value.denominator == 1 else value
    return _known[text]


def resources(items):
    """{resource: exact quantity}."""
    return {name: quantity(value) for name, value in (items or {}).items()}


def add(total, more, times=1):
    """Adds `more` x `times` to `total` in place."""
    for name, value in more.items():
        total[name] = total.get(name, 0) + value * times
