"""What the workload file offers: pools, instance types, offerings, and every node an option could become."""

from requirements import Req, add, norm, requirement_set, resources

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOST = "kubernetes.io/hostname"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
NODE_POOL = "karpenter.sh/nodepool"
TYPE = "node.kubernetes.io/instance-type"
FAMILY = "karpenter.k8s.aws/instance-family"


def attachable(resource):
    """Whether a resource counts the volumes that a CSI driver attaches to a node."""
    return resource.startswith("attachable-volumes-csi-")


class Offering:
    """One instance type in one zone with one capacity type: `labels` is what the type and the offering say together."""

    __slots__ = ("zone", "capacity_type", "price", "available", "labels", "reserved")

    def __init__(self, kind_labels, raw):
        own = requirement_set(raw.get("requirements"))
        for key, field in ((ZONE, "zone"), (CAPACITY_TYPE, "capacityType")):
            if raw.get(field) is not None:
                own.setdefault(key, Req(False, [raw[field]]))
        self.labels = dict(kind_labels)
        for key, req in own.items():
            both = req.meet(self.labels[key]) if key in self.labels else req
            self.labels[key] = req if both.empty() else both
        self.zone = _single(self.labels.get(ZONE))
        self.capacity_type = _single(self.labels.get(CAPACITY_TYPE))
        self.price = float(raw["price"])
        self.reserved = raw.get("reservationCapacity")
        self.available = bool(raw.get("available", True)) and self.reserved != 0


class InstanceType:
    """A type of the catalogue, its allocatable computed here: capacity less overhead, memory less huge pages."""

    def __init__(self, raw):
        self.name, self.uncommon = raw["name"], bool(raw.get("uncommon"))
        self.labels = requirement_set(raw.get("requirements"))
        self.labels.setdefault(TYPE, Req(False, [self.name]))
        self.capacity = resources(raw.get("capacity"))
        self.allocatable = dict(self.capacity)
        for part in (raw.get("overhead") or {}).values():
            add(self.allocatable, resources(part), -1)
        huge = sum(v for k, v in self.capacity.items() if k.startswith("hugepages-"))
        if "memory" in self.allocatable:
            self.allocatable["memory"] -= huge
        self.allocatable = {k: max(v, 0) for k, v in self.allocatable.items()}
        # What a CSI driver attaches is bounded only where a bound is named.
        self.allocatable.update(resources(raw.get("attachments")))
        self.offerings = [Offering(self.labels, o) for o in raw.get("offerings") or ()]
        family = self.labels.get(FAMILY)
        self.family = _single(family) if family else self.name.split(".")[0]


class Pool:
    """A NodePool: `given` are labels its nodes carry for certain, `reqs` its requirements."""

    def __init__(self, raw):
        self.name = raw["name"]
        self.given = {norm(k): Req(False, [v]) for k, v in (raw.get("labels") or {}).items()}
        self.given[NODE_POOL] = Req(False, [self.name])
        self.reqs = requirement_set(raw.get("requirements"))
        self.min_values = [(norm(r["key"]), r["minValues"]) for r in raw.get("requirements") or () if r.get("minValues")]
        self.taints = raw.get("taints") or []
        self.limits, self.usage = resources(raw.get("limits")), resources(raw.get("usage"))
        self.weight = raw.get("weight") or 0
        self.policy = raw.get("policy") or "cost"
        self.min_nodes = raw.get("minNodes") or 0


class Catalogue:
    """All types and pools, and the views of them that claims take."""

    def __init__(self, workload):
        self.types = {t["name"]: InstanceType(t) for t in workload["instanceTypes"]}
        self.pools = {p["name"]: Pool(p) for p in workload["nodePools"]}
        self.well_known = {norm(k) for k in workload.get("wellKnownLabels") or ()}
        self.well_known |= {ZONE, REGION, CAPACITY_TYPE, NODE_POOL, TYPE, "kubernetes.io/arch", "kubernetes.io/os"}
        self.described = {k for t in self.types.values() for k in t.labels}
        self.described |= {k for t in self.types.values() for o in t.offerings for k in o.labels}
        self._views = {}

    def view(self, pool, reqs):
        """What a claim of `pool` with these requirements can become. A claim's list of types is not part of a view."""
        kept = {k: r for k, r in reqs.items() if k not in (TYPE, HOST)}
        key = (pool.name, frozenset(kept.items()))
        if key not in self._views:
            self._views[key] = View(self, pool, kept)
        return self._views[key]


class View:
    """A pool narrowed by a claim's requirements: per type, the offerings that agree."""

    def __init__(self, catalogue, pool, reqs):
        self.catalogue, self.pool, self.reqs = catalogue, pool, reqs
        self._nodes, self._price, self._domains = {}, {}, {}
        self.memo = {}

    def state(self, key, labels):
        """The values a node's label may take; None when the node does not carry it."""
        told, given = labels.get(key), self.pool.given.get(key)
        asked, claimed = self.pool.reqs.get(key), self.reqs.get(key)
        if told is None and given is None:
            if asked is None and not (key == REGION and claimed):
                return None
            if key in self.catalogue.well_known and key in self.catalogue.described:
                return None
        if told is not None and not told.comp and not told.vals:
            return None
        out = None
        for req in (told, given, asked, claimed):
            if req is not None:
                out = req if out is None else out.meet(req)
        if not out.comp and not out.vals and (asked or claimed) and _only_absent(asked, claimed) and told is None and given is None:
            return None
        return out

    def agrees(self, labels):
        """Whether a node with these labels satisfies the claim and its pool."""
        for key in self.reqs.keys() | self.pool.reqs.keys():
            if key in (TYPE, HOST):
                if key == TYPE and key in self.pool.reqs and labels[TYPE].meet(self.pool.reqs[key]).empty():
                    return False
                continue
            state = self.state(key, labels)
            if state is None:
                if not all(r.absent_ok() for r in (self.reqs.get(key), self.pool.reqs.get(key)) if r is not None):
                    return False
            elif state.empty():
                return False
        return True

    def compatible(self, kind):
        """Whether some offering of the type agrees, available or not."""
        return any(self.agrees(o.labels) for o in kind.offerings) if kind.offerings else self.agrees(kind.labels)

    def nodes(self, kind):
        """The available offerings of a type that agree with the requirements."""
        if kind.name not in self._nodes:
            self._nodes[kind.name] = [o for o in kind.offerings if o.available and self.agrees(o.labels)]
        return self._nodes[kind.name]

    def price(self, kind):
        """The cheapest of them; None when there is none."""
        if kind.name not in self._price:
            self._price[kind.name] = min((o.price for o in self.nodes(kind)), default=None)
        return self._price[kind.name]

    def domains(self, kind, key):
        """The values of a topology key that this type's nodes may have; None stands for a node without it, "*" for any."""
        if (kind.name, key) not in self._domains:
            found = set()
            for offering in self.nodes(kind):
                state = self.state(key, offering.labels)
                found |= {None} if state is None else {"*"} if state.comp else state.vals
            self._domains[kind.name, key] = frozenset(found)
        return self._domains[kind.name, key]


def largest(kinds):
    """The most of every resource over a claim's options, and one node: what the claim may take of its pool's limits."""
    out = {"nodes": 1}
    for kind in kinds:
        for resource, value in kind.capacity.items():
            out[resource] = max(out.get(resource, 0), value)
    return out


def _only_absent(*reqs):
    return all(r.absent_ok() for r in reqs if r is not None)


def _single(req):
    return next(iter(req.vals)) if req is not None and not req.comp and len(req.vals) == 1 else None
