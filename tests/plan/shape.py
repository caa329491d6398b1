"""What a claim's requirements and options come to together. Many claims are of one shape, so it is worked out once."""

from catalogue import HOST, TYPE, largest
from pods import matching_types
from requirements import possibly


class Shape:
    """A view of the catalogue narrowed to a list of options."""

    def __init__(self, view, names, listed):
        self.view, self.names = view, names
        self.wrong, self.kinds = [], []
        self._domains, self._filters = {}, {}
        types = view.catalogue.types
        for name in names:
            kind = types.get(name)
            if kind is None:
                self.wrong.append(("PL-7", f"type {name!r} is not in the catalogue"))
            elif not view.nodes(kind) and view.compatible(kind) and (listed is None or listed.has(name)):
                self.wrong.append(("PL-12", f"{name} has no available offering that agrees"))
            elif not view.nodes(kind) or (listed is not None and not listed.has(name)):
                self.wrong.append(("PL-11", f"{name} is against the claim's requirements"))
            else:
                self.kinds.append(kind)
        if not names:
            self.wrong.append(("PL-7", "no options"))
        if len(set(names)) != len(names):
            self.wrong.append(("PL-7", "an option stands twice"))
        self.kind_names = frozenset(k.name for k in self.kinds)
        self.prices = [view.price(k) for k in self.kinds]
        self.least = min(self.prices, default=None)
        self.mean = sum(self.prices) / len(self.prices) if self.prices else 0.0
        self.largest = largest(self.kinds)
        for left, right, kind in zip(self.prices, self.prices[1:], self.kinds[1:]):
            if left > right and not close(left, right):
                self.wrong.append(("PL-8", f"{kind.name} at {right} stands after {left}"))
        self.cheapest = {(k.name, o.zone, o.capacity_type) for k, p in zip(self.kinds, self.prices) if close(p, self.least)
                         for o in view.nodes(k) if close(o.price, self.least)}

    def domains(self, key):
        """Every value a topology key may have; None stands for a node without it, "*" for any value."""
        if key not in self._domains:
            self._domains[key] = frozenset().union(*(self.view.domains(k, key) for k in self.kinds))
        return self._domains[key]

    def admits(self, node_filter):
        """(surely, possibly): whether all its nodes, and whether any of them, pass a node filter."""
        if node_filter.key not in self._filters:
            sure = self.kind_names <= matching_types(node_filter, self.view)
            maybe = sure or not self.kind_names.isdisjoint(matching_types(node_filter, self.view, possibly))
            self._filters[node_filter.key] = (sure, maybe)
        return self._filters[node_filter.key]

    def values(self, key):
        """The distinct values its types give a key, as minValues counts them."""
        reqs = (k.labels.get(key) or self.view.pool.given.get(key) for k in self.kinds)
        return frozenset().union(*(r.vals for r in reqs if r is not None and not r.comp))


class Shapes:
    """All shapes of a plan."""

    def __init__(self, catalogue):
        self.catalogue, self._known, self._floors = catalogue, {}, {}

    def of(self, pool, reqs, names):
        """The shape of a claim."""
        key = (pool.name, frozenset((k, r) for k, r in reqs.items() if k != HOST), names)
        if key not in self._known:
            self._known[key] = Shape(self.catalogue.view(pool, reqs), names, reqs.get(TYPE))
        return self._known[key]

    def floor(self, shape, room):
        """The least room over a shape's options, resource by resource; `room(pool, kind)` says what one type has."""
        if shape not in self._floors:
            rooms = [room(shape.view.pool, k) for k in shape.kinds]
            keys = set.intersection(*map(set, rooms)) if rooms else ()
            self._floors[shape] = {k: min(r[k] for r in rooms) for k in keys}
        return self._floors[shape]


def close(a, b):
    """Equal prices up to rounding."""
    return abs(a - b) <= 1e-6 * max(1.0, abs(a), abs(b))
