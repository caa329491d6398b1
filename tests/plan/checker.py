"""Verifies the answer of `plan --workload FILE --json` against the workload file, from the Kubernetes rules alone.

    result = check(workload, plan)      # both as parsed JSON
    result.violations                   # [(rule, what it concerns, what is wrong)]

PL-1  a pod stands in more than one place          PL-15 a pod's node selector or affinity fails on a possible node
PL-2  a pod stands nowhere                         PL-16 a taint is not tolerated
PL-3  a pod that the workload does not have        PL-17 a pool's limit is passed with the largest options
PL-4  counts disagree                              PL-18 fewer distinct values than minValues
PL-5  the answer's shape                           PL-19 the price of a claim
PL-6  an unknown pool                              PL-20 the cheapest type, zone or capacity type
PL-7  options unknown, doubled or none             PL-21 expectedHourlyPrice
PL-8  options not cheapest first                   PL-22 totalCheapestHourlyPrice
PL-9  requirements incomplete or outside the pool  PL-23 topology spread
PL-10 a requirement that means nothing             PL-24 pod affinity
PL-11 an option against the requirements           PL-25 pod anti-affinity
PL-12 an option without an available offering      PL-26 a rule holds only for some of an open claim's nodes
PL-13 an option too small                          PL-27 a pod left over that a fresh node would hold
PL-14 the claim's requests                         PL-28 a claim without pods
PL-33 a possible node is not where a volume is     PL-34 more volumes than an option attaches
PL-35 a pod placed that nothing can serve          PL-36 host ports that clash on a node
PL-37 minValues of a claim that it does not keep   PL-38 a node group's claim without all its types
PL-39 an existing node that does not suit its pods  PL-40 (policy cost): more than half of a workload on a node
PL-41 a lighter pool where a heavier one would do  PL-42 a lower priority where a higher one waits
PL-43 a new node where one that is there would do  PL-44 reasons that do not say why
PL-50 more instances than a capacity reservation has
PL-30, PL-31, PL-32 (policy cost): 15 types, 5 families, 1.25 times the cheapest
"""

import blast
import order
import policy
import reasons
import reserved
from catalogue import HOST, TYPE, Catalogue, attachable, largest
from existing import Existing
from pods import PodClass, group, matching_types, ports_clash
from requirements import add, norm, quantity, requirement_set
from shape import Shapes, close
from topology import Placed, Topology


class Report:
    """What was found, and how much was looked at."""

    def __init__(self):
        self.violations, self.checks = [], 0

    def add(self, rule, subject, what):
        self.violations.append((rule, str(subject), what))

    def checked(self, times=1):
        self.checks += times

    def expect(self, holds, rule, subject, what):
        self.checks += 1
        if not holds:
            self.add(rule, subject, what() if callable(what) else what)
        return holds


def check(workload, plan, policy_cost=False, order=False, stem=None):
    """The report on a plan. `order`: spread need only hold in some order of binding. `stem`: the file's name."""
    return Check(workload, plan, policy_cost, order, stem).run()


class Claim:
    """One entry of nodeClaims, resolved as far as it can be."""

    def __init__(self, index, raw):
        self.index, self.raw, self.name = index, raw, f"nodeClaims[{index}]"
        self.pool, self.reqs, self.shape, self.counts = None, {}, None, {}
        self.needs = {}


class Check:
    """One run over one plan."""

    TOP = {"workload": str, "pods": int, "solveMs": (int, float), "loadMs": (int, float), "wallMs": (int, float),
           "scheduledPods": int, "unscheduled": dict, "numNodeClaims": int, "totalCheapestHourlyPrice": (int, float),
           "expectedHourlyPrice": (int, float), "peakRssKiB": (int, float), "nodeClaims": list}
    CLAIM = {"nodePool": str, "podNames": list, "requests": dict, "requirements": list, "instanceTypeOptions": list,
             "cheapestType": str, "cheapestZone": str, "cheapestCapacityType": str, "price": (int, float)}

    def __init__(self, workload, plan, policy_cost, order, stem):
        self.workload, self.plan, self.policy_cost, self.order, self.stem = workload, plan, policy_cost, order, stem
        self.best_effort = workload.get("minValuesPolicy") == "BestEffort"
        self.report = Report()
        self.catalogue = Catalogue(workload)
        self.classes, self.class_of = group(workload)
        self.shapes, self._daemons, self._views = Shapes(self.catalogue), {}, {}
        daemons = workload.get("daemonPods") or workload.get("daemonSets") or workload.get("daemons") or ()
        self.daemons = [PodClass(i, d) for i, d in enumerate(daemons)]
        self.existing = Existing(self.report, workload, self.daemons)
        self.to_come = {}
        for name in (n for n, cls in self.class_of.items() if cls.to_come):
            add(self.to_come, self.class_of[name].requests)

    def run(self):
        if not self._shape():
            return self.report
        claims = [Claim(i, raw) for i, raw in enumerate(self.plan["nodeClaims"])]
        self._pods(claims)
        self.existing.check(self.plan, self.class_of)
        for claim in claims:
            self._claim(claim)
        known = [c for c in claims if c.shape]
        self._totals(claims)
        self._limits(known)
        reserved.check(self.report, self.catalogue, known)
        self.reserved = reserved.left(self.catalogue, known)
        placed = [Placed(c.index, c.name, c.shape, c.counts) for c in known]
        placed += self.existing.there.values()
        topology = Topology(self.report, self.catalogue, self.workload, self.classes + self.existing.standing, placed, self.order, self.holds)
        topology.check()
        order.check(self, topology, known)
        reasons.check(self.report, plan=self.plan, pools=self.catalogue.pools, class_of=self.class_of)
        if self.policy_cost:
            policy.check(self.report, self.catalogue, known, self)
            blast.check(self, known)
        return self.report

    # The answer as a whole

    def _shape(self):
        fine = self._fields(self.plan, self.TOP, "plan")
        for i, raw in enumerate(self.plan.get("nodeClaims") or ()):
            fine = self._fields(raw, self.CLAIM, f"nodeClaims[{i}]") and fine
        return fine

    def _fields(self, raw, table, name):
        fine = True
        if not self.report.expect(isinstance(raw, dict), "PL-5", name, "not an object"):
            return False
        for field, kind in table.items():
            value = raw.get(field)
            good = isinstance(value, kind) and not isinstance(value, bool)
            fine = self.report.expect(good, "PL-5", name, f"{field}: missing or of the wrong type") and fine
        return fine

    def _pods(self, claims):
        seen = {}
        least = {name: pool.min_nodes for name, pool in self.catalogue.pools.items() if pool.policy == "node-groups"}
        for claim in claims:
            spare = claims and sum(c.raw["nodePool"] == claim.raw["nodePool"] for c in claims) <= least.get(claim.raw["nodePool"], 0)
            self.report.expect(claim.raw["podNames"] or spare, "PL-28", claim.name, "no pods")
            for name in claim.raw["podNames"]:
                cls = self.class_of.get(name)
                if not self.report.expect(cls and not cls.to_come, "PL-3", name, f"in {claim.name}, not in the workload or still to come"):
                    continue
                self.report.expect(not cls.blocked, "PL-35", name, f"placed although {cls.blocked}")
                self.report.expect(name not in seen, "PL-1", name, lambda: f"in {seen[name]} and in {claim.name}")
                seen[name] = claim.name
                claim.counts[cls] = claim.counts.get(cls, 0) + 1
        for name, reason in self.plan["unscheduled"].items():
            if self.report.expect(name in self.class_of, "PL-3", name, "unscheduled, not in the workload"):
                self.report.expect(name not in seen, "PL-1", name, lambda: f"in {seen[name]} and unscheduled")
                self.report.expect(bool(reason), "PL-5", name, "unscheduled without a reason")
        for name, node in self.existing.nodes_of(self.plan):
            cls = self.class_of.get(name)
            if self.report.expect(cls and not cls.to_come, "PL-3", name, f"on {node}, not in the workload or still to come"):
                self.report.expect(name not in seen, "PL-1", name, lambda: f"in {seen[name]} and on {node}")
                self.report.expect(not cls.blocked, "PL-35", name, f"placed although {cls.blocked}")
                seen[name] = node
        for name in (n for n, cls in self.class_of.items() if not cls.to_come):
            self.report.expect(name in seen or name in self.plan["unscheduled"], "PL-2", name, "nowhere in the plan")

    def _totals(self, claims):
        plan, expect = self.plan, self.report.expect
        names = {self.workload.get("name"), self.stem} - {None}
        expect(not names or plan["workload"] in names, "PL-5", "workload", f"{plan['workload']!r}, not one of {sorted(names)}")
        placed = sum(len(c.raw["podNames"]) for c in claims) + len(self.existing.nodes_of(plan))
        waiting = sum(not cls.to_come for cls in self.class_of.values())
        for field, value in (("pods", waiting), ("scheduledPods", placed), ("numNodeClaims", len(claims))):
            expect(plan[field] == value, "PL-4", field, f"{plan[field]}, counted {value}")
        total = sum(c.raw["price"] for c in claims)
        expect(close(plan["totalCheapestHourlyPrice"], total), "PL-22", "totalCheapestHourlyPrice",
               f"{plan['totalCheapestHourlyPrice']}, the claims' prices sum to {total}")
        mean = sum(c.shape.mean for c in claims if c.shape)
        expect(close(plan["expectedHourlyPrice"], mean), "PL-21", "expectedHourlyPrice",
               f"{plan['expectedHourlyPrice']}, the mean of the options' cheapest sums to {mean}")

    # One claim

    def _claim(self, claim):
        claim.pool = self.catalogue.pools.get(claim.raw["nodePool"])
        if not self.report.expect(claim.pool, "PL-6", claim.name, f"pool {claim.raw['nodePool']!r} does not exist"):
            return
        self._requirements(claim)
        claim.shape = self.shapes.of(claim.pool, claim.reqs, tuple(claim.raw["instanceTypeOptions"]))
        for cls, count in claim.counts.items():
            add(claim.needs, cls.requests, count)
        self.report.checked(4 * len(claim.shape.names))
        for rule, what in claim.shape.wrong:
            self.report.add(rule, claim.name, what)
        self._fits(claim)
        self._requests(claim)
        self._prices(claim)
        self._pod_rules(claim)
        self._min_values(claim)

    def _requirements(self, claim):
        expect, pool = self.report.expect, claim.pool
        for raw in claim.raw["requirements"]:
            try:
                for key, req in requirement_set([raw]).items():
                    claim.reqs[key] = claim.reqs[key].meet(req) if key in claim.reqs else req
            except (ValueError, KeyError, TypeError) as error:
                self.report.add("PL-10", claim.name, f"requirement {raw}: {error}")
        for key, req in pool.reqs.items():
            if expect(key in claim.reqs, "PL-9", claim.name, f"the pool's requirement on {key} is missing"):
                expect(claim.reqs[key].within(req), "PL-9", claim.name, lambda: f"{key} {claim.reqs[key]}, the pool has {req}")
        for key, req in pool.given.items():
            if key in claim.reqs:
                expect(req.within(claim.reqs[key]), "PL-9", claim.name, lambda: f"{key} {claim.reqs[key]}, the pool's label is {req}")
        for key, req in claim.reqs.items():
            known = key in pool.reqs or key in pool.given or key in self.catalogue.well_known or key in self.catalogue.described
            expect(known or key == HOST or req.absent_ok(), "PL-10", claim.name, f"no pool or type gives a node the label {key}")

    def _fits(self, claim):
        floor = self.shapes.floor(claim.shape, self.room)
        self.report.checked(len(claim.shape.kinds) * len(claim.needs))
        if all(need <= floor.get(r, 0) for r, need in claim.needs.items()):
            return
        for kind in claim.shape.kinds:
            short = self.too_small(claim.pool, kind, claim.needs) and self.too_small(claim.pool, kind, claim.needs, claim.shape.view)
            if short:
                self.report.add("PL-34" if attachable(short[0]) else "PL-13", claim.name, f"{kind.name} holds {short[1]} {short[0]}, its pods need {short[2]}")

    def room(self, pool, kind):
        """Allocatable of a type less the pool's daemons."""
        if not self.daemons:
            return kind.allocatable
        if (pool.name, kind.name) not in self._daemons:
            self._daemons[pool.name, kind.name] = self._beside_daemons(pool, kind, self.catalogue.view(pool, {}))
        return self._daemons[pool.name, kind.name]

    def _beside_daemons(self, pool, kind, view):
        """Allocatable of a type less the daemons of a view of it: one that fits on none of its nodes is on none."""
        out = dict(kind.allocatable)
        for daemon in self.daemons:
            fits = all(need <= kind.allocatable.get(r, 0) for r, need in daemon.requests.items() if not attachable(r))
            if fits and not daemon.tolerates(pool.taints) and any(daemon.filter.holds(view, o) for o in view.nodes(kind)):
                add(out, daemon.requests, -1)
        return out

    def too_small(self, pool, kind, needs, view=None):
        """(resource, room, need) of the first resource that a type lacks, or None."""
        room = self._beside_daemons(pool, kind, view) if view else self.room(pool, kind)
        bounded = ((r, n) for r, n in needs.items() if n > 0 and (r in room or not attachable(r)))
        return next(((r, room.get(r, 0), n) for r, n in bounded if n > room.get(r, 0)), None)

    def fresh(self, cls, pool, freed=None, alternatives=None):
        """The types of which a pool could open one more node for a pod that no rule binds to others, within its limits less `freed`;
        `alternatives`: by the first so many of its node selection."""
        if cls.tolerates(pool.taints):
            return []
        view, used = self.catalogue.view(pool, {}), dict(self.used[pool.name])
        add(used, freed or {}, -1)
        narrowed = [(v, names) for v, names, i in self._narrowed(cls, pool) if alternatives is None or i < alternatives]
        kinds = [k for k in self.catalogue.types.values()
                 if any(any(reserved.open_to(o, self.reserved) for o in v.nodes(k)) and (names is None or names.has(k.name)) for v, names in narrowed)
                 and not self.too_small(pool, k, cls.requests) and not self.daemon_clash(cls, view, k)
                 and all(used.get(r, 0) + largest([k]).get(r, 0) <= limit for r, limit in pool.limits.items())]
        return kinds if self.best_effort or self._enough_values(kinds, pool) else []

    def _narrowed(self, cls, pool):
        """[(view, names of types or None, which alternative)] of a pool for each of a pod's node selection and of its volumes' places."""
        if (cls, pool) not in self._views:
            out = []
            for i, term in enumerate(cls.filter.terms):
                for place in cls.volumes.terms if cls.volumes else [[]]:
                    reqs = requirement_set([{"key": k, "operator": op, "values": values} for k, op, values in term + place])
                    fresh = all(r.absent_ok() for k, r in reqs.items() if k in (HOST, "metadata.name"))
                    names = [r for r in (reqs.get(TYPE), pool.reqs.get(TYPE)) if r is not None]
                    if fresh:
                        out.append((self.catalogue.view(pool, reqs), names[0].meet(names[-1]) if names else None, i))
            self._views[cls, pool] = out
        return self._views[cls, pool]

    @staticmethod
    def _enough_values(kinds, pool):
        """Whether types reach a pool's minValues: no pin of zone or capacity type changes what their own labels say."""
        return all(len(frozenset().union(*(k.labels[key].vals for k in kinds if key in k.labels and not k.labels[key].comp))) >= least
                   for key, least in pool.min_values)

    def holds(self, cls, pool, kind):
        """Whether a new node of a type holds a pod of a class beside the DaemonSets of the pool."""
        return not self.too_small(pool, kind, cls.requests) and not self.daemon_clash(cls, self.catalogue.view(pool, {}), kind)

    def daemon_clash(self, cls, view, kind):
        """Whether a DaemonSet of the nodes of a type takes a host port that a pod asks for."""
        if not cls.ports:
            return False
        here = [d for d in self.daemons if d.ports and not d.tolerates(view.pool.taints) and any(d.filter.holds(view, o) for o in view.nodes(kind))]
        return any(ports_clash(p, q) for p in cls.ports for d in here for q in d.ports)

    def _requests(self, claim):
        for resource, need in claim.needs.items():
            told = claim.raw["requests"].get(resource)
            if attachable(resource):
                self.report.expect(told is None, "PL-14", claim.name, f"{resource} is told, which is no resource of a node")
                continue
            if told is None:
                self.report.expect(resource == "pods" or need == 0, "PL-14", claim.name, f"{resource} is missing, pods need {need}")
                continue
            try:
                value = quantity(told) if isinstance(told, str) else None
            except ValueError:
                value = None
            more = value is not None and self.to_come and need <= value <= need + self.to_come.get(resource, 0)
            good = value is not None and (value == need or more or (self.daemons and value >= need))
            self.report.expect(good, "PL-14", claim.name, f"{resource} {told!r}, its pods need {need}")

    def _prices(self, claim):
        shape, raw, expect = claim.shape, claim.raw, self.report.expect
        if shape.least is None:
            return
        expect(close(raw["price"], shape.least), "PL-19", claim.name, f"price {raw['price']}, the cheapest that agrees is {shape.least}")
        said = (raw["cheapestType"], raw["cheapestZone"], raw["cheapestCapacityType"])
        expect(said in shape.cheapest, "PL-20", claim.name, lambda: f"cheapest {said}, it is {sorted(shape.cheapest, key=str)[:3]}")

    def _pod_rules(self, claim):
        for cls, count in claim.counts.items():
            taint = cls.tolerates(claim.pool.taints)
            self.report.expect(taint is None, "PL-16", claim.name, f"{count} pods do not tolerate {taint}")
            self.report.checked(len(claim.shape.kinds))
            if not claim.shape.admits(cls.filter)[0]:
                bad = min(claim.shape.kind_names - matching_types(cls.filter, claim.shape.view))
                self.report.add("PL-15", claim.name, f"{bad}: the node selection {cls.filter.key} of {count} pods does not hold for "
                                "every node it could become")
            if cls.volumes and not claim.shape.admits(cls.volumes)[0]:
                self.report.add("PL-33", claim.name, f"the volumes of {count} pods can only be where {cls.volumes.key}, and not every "
                                "node it could become is there")
        self._ports(claim)
        if claim.pool.policy == "node-groups":
            types = {k.name for k in self.catalogue.types.values() if self.catalogue.view(claim.pool, {}).nodes(k)}
            missing = types - set(claim.shape.names)
            self.report.expect(not missing, "PL-38", claim.name, lambda: f"a node of the group may become {min(missing)}")

    def _ports(self, claim):
        """A host port is taken once on a node; its DaemonSets take theirs."""
        view = self.catalogue.view(claim.pool, {})
        here = [d for d in self.daemons if d.ports and not d.tolerates(claim.pool.taints)
                and any(d.filter.holds(view, o) for k in claim.shape.kinds for o in view.nodes(k))]
        taken = [p for d in here for p in d.ports]
        for cls, count in claim.counts.items():
            for port in cls.ports * count:
                self.report.checked()
                if any(ports_clash(port, other) for other in taken):
                    self.report.add("PL-36", claim.name, f"host port {port['port']} is taken twice")
                    return
                taken.append(port)

    def _min_values(self, claim):
        for raw in claim.raw["requirements"]:
            if raw.get("minValues"):
                found = claim.shape.values(norm(raw["key"]))
                self.report.expect(len(found) >= raw["minValues"], "PL-37", claim.name,
                                   lambda: f"{len(found)} values of {raw['key']}, its own minValues {raw['minValues']}")
        if self.best_effort:
            return
        for key, least in claim.pool.min_values:
            found = claim.shape.values(key)
            self.report.expect(len(found) >= least, "PL-18", claim.name, lambda: f"{len(found)} values of {key}, minValues {least}")

    # Pools and pods left over

    def _limits(self, claims):
        self.used = {name: dict(pool.usage) for name, pool in self.catalogue.pools.items()}
        self.placed = dict.fromkeys(self.catalogue.pools, 0)
        for claim in claims:
            add(self.used[claim.pool.name], claim.shape.largest)
            self.placed[claim.pool.name] += sum(claim.counts.values())
        for name, pool in self.catalogue.pools.items():
            for resource, limit in pool.limits.items():
                used = self.used[name].get(resource, 0)
                self.report.expect(used <= limit, "PL-17", name, f"{resource} {used} with the largest options, the limit is {limit}")
