"""What users have bounded: pods that may be away, capacity of a pool, nodes of a pool that go at once.

Reads PodDisruptionBudgets and NodePools where the log has them: a line `rules` of that resource, which names the owners of
the pods that a budget covers; or an `api` line with the object after the write as `object` (null when it is gone), and
pods' `labels` at `created`. A step that deletes one ends it too.
"""

import heapq
import math
from collections import defaultdict
from fractions import Fraction

import windows
from launching import MOVING
from rule import Rule

# Seconds for which what has been lowered meanwhile does not count: who acts has to hear of it. How wrong clocks may be.
HEARD, CLOCKS = 60, 90


class Objects(Rule):
    """The objects of a resource as they stand, and as they stood."""

    RESOURCE, KIND = "", ""

    def __init__(self, world):
        super().__init__(world)
        self.kept = {}  # (namespace, name): [(t, spec or None)]

    def before(self, event):
        if event["kind"] == "step":
            action = event["action"]
            gone = action["type"] == "delete" and action["kind"] == self.KIND
            for key in [k for k in self.kept if gone and action["name"] == k[1] and k[0] in (None, action["namespace"])]:
                self.kept[key].append((event["t"], None))
        elif event.get("resource") == self.RESOURCE and event.get("code", 200) < 300:
            told = event["kind"] == "rules" or event["kind"] == "api" and "object" in event
            if told:
                spec = _rules(event) if event["kind"] == "rules" else (event["object"] or {}).get("spec")
                self.kept.setdefault((event.get("namespace"), event["name"]), []).append((event["t"], spec))

    def lately(self, key, since):
        """All forms that an object had since then, the one that it had then among them."""
        forms = self.kept.get(key, [])
        first = max((i for i, (t, _) in enumerate(forms) if t <= since), default=0)
        return [spec for _, spec in forms[first:]]


class Evictions(Objects):
    """INV-15: no eviction, deletion of a pod or end of an instance of its own accord takes a budget below what it needs.

    An eviction is the API server's to allow: a pod whose machine is gone counts for as long as it is shown to be ready.
    """

    RESOURCE, KIND = "poddisruptionbudgets", "PodDisruptionBudget"

    def __init__(self, world):
        super().__init__(world)
        self.scales = {}  # (namespace, owner): every number of pods that it has been scaled to, the one in force last
        self.first = {}  # (namespace, name) of a StatefulSet: how many it had at first
        self.unwell = set()  # claims by name whose nodes are repaired by force, whatever budgets say

    def before(self, event):
        super().before(event)
        _repaired(event, self.unwell)
        self._scaled_to(event)
        if event["replica"] is None or not self.kept:
            return
        done = event.get("code") in (200, 201, "OK")
        if event["kind"] == "api" and event.get("resource") == "pods" and done:
            if event.get("subresource") == "eviction" or event["verb"] == "delete":
                here = [p for p in self.world.index.pods_named(event["namespace"], event["name"]) if p.up and not p.gone]
                went = [p for p in here if p.deleting in (None, event["t"])]
                self._leave(went, event, event["verb"] == "delete", _healthy if event["verb"] == "delete" else _shown)
        elif event.get("action") == "TerminateInstances" and done:
            for id in (event.get("result") or {}).get("instances") or []:
                on = [name for name, node in self.world.index.nodes_of(id).items() if node["here"]]
                self._leave([p for name in on for p in self.world.index.pods_on(name) if _healthy(p)], event, True, _healthy)

    def _scaled_to(self, event):
        action = event["action"] if event["kind"] == "step" else {"type": None}
        if event["kind"] == "rules" and event["resource"] == "statefulsets":
            self.first[event.get("namespace"), event["name"]] = event.get("replicas", 1)
        elif action["type"] == "scale":
            namespace, name, replicas = action["namespace"], action["name"], action["replicas"]
            first = self.first.get((namespace, name), replicas)
            self.scales.setdefault((namespace, f"{action['kind']}/{name}"), [first]).append(replicas)
        elif action["type"] == "restore":
            for all in self.scales.values():
                all.append(min(all))  # it may want again what it wanted before

    def _left(self, spec, namespace, pods, counts):
        """How many of the pods of a budget stay, and of how many it is a share: what workloads want, though some that are
        to go are still there."""
        if spec.get("covers") is None:
            matching = [p for p in self.world.pods.values() if p.namespace == namespace and not p.removed and _selects(spec, p)]
            going = [p for p in matching if p in pods]
            left = sum(counts(p) and p not in pods for p in matching)
            there = [p.owner for p in matching if _expected(p, counts) or p in pods]
            numbers = {owner: there.count(owner) for owner in set(there)}
        else:
            workloads = {owner: self.world.index.workloads[namespace, owner] for owner in spec["covers"]}
            going = [p for p in pods if p.namespace == namespace and not p.removed and p.owner in workloads]
            left = sum(w.shown if counts is _shown else w.healthy for w in workloads.values()) - sum(map(counts, going))
            numbers = {owner: w.expected_shown if counts is _shown else w.expected_healthy for owner, w in workloads.items()}
            for pod in going:
                numbers[pod.owner] += not _expected(pod, counts)
        wanted = {owner: self.scales.get((namespace, owner), [number])[-1] for owner, number in numbers.items()}
        return left, sum(min(number, wanted[owner]) for owner, number in numbers.items() if number)

    def _leave(self, pods, event, by_force, counts):
        for pod in pods:
            if (pod.owner or "").startswith("DaemonSet/") or by_force and self._has_to(pod):
                continue
            for (namespace, name), forms in self.kept.items():
                spec = forms[-1][1]
                if spec is None or namespace != pod.namespace or not _selects(spec, pod):
                    continue
                left, expected = self._left(spec, namespace, pods, counts)
                need = _needed(spec, expected)
                if left < need:
                    what = f"{pod.key} goes by {event.get('action') or event['verb']}, {left} of budget {namespace}/{name} are left, it needs {need}"
                    self.world.violate("INV-15", event["t"], what)

    def _has_to(self, pod):
        """Whether its node goes whatever budgets say: EC2 takes it, it has a grace period, or it is collected."""
        id = self.world.nodes.get(pod.node, {}).get("instance")
        instance = self.world.instances.get(id)
        claims = [c for c in self.world.index.claims_of(id) if not c.gone]
        forced = any((c.spec or {}).get("terminationGracePeriod") or c.name in self.unwell for c in claims) or not claims
        return forced or instance is None or instance.interrupted is not None


class Changed:
    """Claims of which something may have changed since they were last taken: what was written of them, their instance or its Node."""

    def __init__(self, world):
        self.world, self._claims = world, {}

    def before(self, event):
        self._node(event)

    def after(self, event):
        kind, index = event["kind"], self.world.index
        if kind == "api" and event.get("resource") == "nodeclaims":
            claim = self.world.claims.get(event.get("uid") or event["name"])
            if claim is not None:
                self._claims[claim] = None
        elif kind == "instance":
            self._claims.update(dict.fromkeys(index.claims_of(event["id"])))
        elif kind == "step" and event["action"]["type"] == "delete":
            self._claims.update(dict.fromkeys(self.world.claims.values()))
        else:
            self._node(event)

    def _node(self, event):
        node = self.world.nodes.get(event.get("name")) if event["kind"] == "node" else None
        if node is not None:
            self._claims.update(dict.fromkeys(self.world.index.claims_of(node["instance"])))

    def taken(self):
        claims, self._claims = self._claims, {}
        return claims


class Held:
    """Claims of a pool, and the sum of their capacities."""

    def __init__(self):
        self.claims, self.sums = {}, {}

    def take(self, claim):
        amounts = {resource: Fraction(amount) for resource, amount in windows.total([claim.capacity]).items()}
        self.claims[claim] = amounts
        for resource, amount in amounts.items():
            self.sums[resource] = self.sums.get(resource, 0) + amount

    def without(self, claim):
        for resource, amount in self.claims.pop(claim, {}).items():
            self.sums[resource] -= amount


class Living:
    """How many claims of a pool a budget is a share of, and how many of them go of our own accord."""

    def __init__(self):
        self._firm, self._runs, self._going, self._until, self._ends = set(), set(), set(), {}, []

    def take(self, claim, until, goes):
        """`until`: when it ceased to count; `goes`: as `_goes` has it."""
        if until == math.inf:
            self._firm.add(claim)
        elif until is not None:
            self._until[claim.uid] = until
            heapq.heappush(self._ends, (until, claim.uid))
        if goes is not None:
            self._runs.add(claim)
        if goes:
            self._going.add(claim)

    def without(self, claim):
        for some in (self._firm, self._runs, self._going):
            some.discard(claim)
        self._until.pop(claim.uid, None)

    def count(self, claim, t):
        """All that count at a time, and those that go once this one does."""
        while self._ends and not self._ends[0][0] > t - HEARD:
            until, ended = heapq.heappop(self._ends)
            if self._until.get(ended) == until:
                del self._until[ended]
        also = claim in self._runs and claim not in self._going
        return len(self._firm) + len(self._until), len(self._going) + also


class Limits(Objects):
    """INV-16: the capacity of a pool's claims that are not on their way out is within its limits when it becomes known. What is
    to be replaced (Drifted, DisruptionReason) is on its way out: what replaces it comes first."""

    RESOURCE, KIND = "nodepools", "NodePool"

    def __init__(self, world):
        super().__init__(world)
        self._pools, self._of, self._changed = defaultdict(Held), {}, Changed(world)

    def after(self, event):
        self._changed.after(event)
        if event["kind"] != "api" or event.get("resource") != "nodeclaims" or not self.kept:
            return
        claim = self.world.claims.get(event.get("uid") or event.get("name"))
        if claim is None or event.get("code", 500) >= 300:
            return
        status = (event.get("sent") or {}).get("status") or {}
        if status.get("conditions") is not None:
            claim.moves = any(one.get("type") in MOVING and one.get("status") == "True" for one in status["conditions"])
        if not status.get("capacity"):
            return
        for changed in self._changed.taken():
            self._count(changed)
        pool = self._pools[claim.pool]
        if claim not in pool.claims:
            return
        held = {**pool.sums, "nodes": len(pool.claims)}
        limits = [(spec or {}).get("limits") or {} for spec in self.lately((None, claim.pool), claim.created - HEARD)]
        for resource in {r for one in limits for r in one}:
            most = max(windows.number(one[resource]) if resource in one else math.inf for one in limits)
            if float(held.get(resource, 0)) > most:
                what = f"{claim.name} brings pool {claim.pool} to {float(held[resource]):g} {resource}, its limit is {most:g}"
                self.world.violate("INV-16", event["t"], what)

    def _count(self, claim):
        """Counts a claim with its pool, if it is not on its way out."""
        if claim in self._of:
            self._of.pop(claim).without(claim)
        if not claim.gone and claim.deleting is None and not claim.moves and self._stays(claim):
            self._of[claim] = self._pools[claim.pool]
            self._of[claim].take(claim)

    def _stays(self, claim):
        """Whether EC2 neither takes its instance nor has ended it."""
        instance = self.world.instances.get(claim.instance)
        return instance is None or instance.interrupted is None and instance.ended is None


class Budgets(Objects):
    """INV-17: no more nodes of a pool go at once of our own accord than its budgets allow."""

    RESOURCE, KIND = "nodepools", "NodePool"

    def __init__(self, world):
        super().__init__(world)
        self.unwell, self.in_blocks, self.left, self.mended = set(), set(), set(), set()
        self._pools, self._of, self._changed = defaultdict(Living), {}, Changed(world)

    def after(self, event):
        self._changed.after(event)

    def before(self, event):
        super().before(event)
        self._changed.before(event)
        _repaired(event, self.unwell, self.mended)
        self._block(event)
        if event["kind"] != "api" or event.get("resource") != "nodeclaims" or event["verb"] != "delete" or event["replica"] is None:
            return
        claim = self.world.claims.get(event.get("uid") or event["name"])
        if not self.kept or claim is None or event.get("code", 500) >= 300 or claim.deleting is not None or not self._voluntary(claim, event["t"]):
            return
        claim.voluntary = True
        forms = self.lately((None, claim.pool), event["t"] - HEARD)
        if not forms or None in forms:
            return  # no such pool any more: all of it goes
        for changed in self._changed.taken():
            if changed in self._of:
                self._of[changed].without(changed)
            self._of[changed] = self._pools[changed.pool]
            self._of[changed].take(changed, self._counts(changed), self._goes(changed))
        total, going = self._pools[claim.pool].count(claim, event["t"])
        reasons = ("Unhealthy",) if claim.name in self.mended else ("Underutilized", "Empty", "Drifted")
        most = max(_allowed(spec, total, reasons) for spec in forms)
        if going > most:
            what = f"{going} of {total} nodes of pool {claim.pool} go at once with {claim.name}, {most} may"
            self.world.violate("INV-17", event["t"], what)

    def _block(self, event):
        """Nodes in a capacity block go all at once before EC2 ends it, whatever budgets say."""
        written = (event.get("sent") or {}).get("metadata") or {} if event.get("resource") == "nodeclaims" else {}
        if (written.get("labels") or {}).get("karpenter.k8s.aws/capacity-reservation-type") == "capacity-block":
            self.in_blocks.add(event["name"])
        if ((written.get("annotations") or {}).get("dovetail.dev/end-reason") or "").startswith("overprovisioned "):
            self.left.add(event["name"])  # its static pool asks for fewer
        if event.get("name") in self.in_blocks and ((written.get("annotations") or {}).get("dovetail.dev/end-reason") or "").startswith("expired "):
            self.left.add(event["name"])

    def _counts(self, claim):
        """Since when it has not been one of those that a budget is a share of, as far as who acts may know: it runs, or its Node is
        shown to be Ready. Infinite while it is one, none where it never was."""
        shown = any(n["here"] and n.get("ready") for n in self.world.index.nodes_of(claim.instance).values())
        if shown and not claim.gone:
            return math.inf
        instance = self.world.instances.get(claim.instance)
        if instance is None or claim.gone and claim.gone_at is None:
            return None
        ended = math.inf if instance.ended is None else instance.ended
        return min(ended, claim.gone_at) if claim.gone else ended

    def _goes(self, claim):
        """Whether it runs: True where it goes of our own accord, None where it does not run."""
        instance = self.world.instances.get(claim.instance)
        if claim.gone or instance is None or instance.ended is not None:
            return None
        return claim.voluntary and claim.deleting is not None

    def _voluntary(self, claim, t):
        """Whether its node stands and could have stayed: it has not expired, is Ready, and neither EC2 nor the operator takes it."""
        instance = self.world.instances.get(claim.instance)
        node = next((n for n in self.world.index.nodes_of(claim.instance).values() if n["here"]), None)
        if instance is None or node is None or instance.ended is not None or instance.interrupted is not None:
            return False
        if claim.name in self.unwell or claim.name in self.left:
            return False
        expires = _seconds((claim.spec or {}).get("expireAfter"))
        return node.get("ready", False) and not node.get("deleting") and t < claim.created + expires - CLOCKS


def _repaired(event, by_force, gently=None):
    """Notes a claim whose node is repaired: by force where a deadline is written with the reason, else within budgets."""
    written = ((event.get("sent") or {}).get("metadata") or {}).get("annotations") or {}
    if event.get("resource") == "nodeclaims" and (written.get("dovetail.dev/end-reason") or "").startswith("unhealthy "):
        if written.get("karpenter.sh/nodeclaim-termination-timestamp"):
            by_force.add(event["name"])
        elif gently is not None:
            gently.add(event["name"])


def _shown(pod):
    return pod.up and pod.deleting is None and not pod.removed and not pod.succeeded


def _healthy(pod):
    return _shown(pod) and not pod.gone


def _expected(pod, counts):
    here = not pod.gone or counts is _shown
    return here and pod.deleting is None and not pod.succeeded


def _rules(event):
    """A spec of what a line `rules` has. Where a pool's nodes go by a time of their own, budgets bound nothing."""
    budgets = [] if event.get("ttl") else event.get("budgets")
    return {**{f: event.get(f) for f in ("limits", "minAvailable", "maxUnavailable", "covers")}, "disruption": {"budgets": budgets}}


def _selects(spec, pod):
    """Whether a budget is for a pod; a selector of kinds that are not known here selects nothing."""
    if spec.get("covers") is not None:
        return pod.owner in spec["covers"]
    selector, labels = spec.get("selector"), pod.labels
    if selector is None or labels is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    kinds = {
        "In": lambda one: labels.get(one["key"]) in one.get("values", []),
        "NotIn": lambda one: labels.get(one["key"]) not in one.get("values", []),
        "Exists": lambda one: one["key"] in labels,
        "DoesNotExist": lambda one: one["key"] not in labels,
    }
    return all(kinds.get(one["operator"], lambda _: False)(one) for one in selector.get("matchExpressions") or [])


def _scaled(value, of):
    text = str(value)
    return math.ceil(int(text[:-1]) * of / 100) if text.endswith("%") else int(text)


def _needed(spec, expected):
    """How many pods a budget wants healthy of so many."""
    if spec.get("maxUnavailable") is not None:
        return max(0, expected - _scaled(spec["maxUnavailable"], expected))
    return _scaled(spec["minAvailable"], expected) if spec.get("minAvailable") is not None else 0


def _allowed(spec, total, reasons):
    """How many nodes of so many may go for the reason that is bounded least; budgets that come and go by a schedule are left out."""
    budgets = (spec.get("disruption") or {}).get("budgets")
    budgets = [{"nodes": "10%"}] if budgets is None else budgets
    def of(reason):
        own = [b for b in budgets if not b.get("schedule") and (not b.get("reasons") or reason in b["reasons"])]
        return min((_scaled(b.get("nodes", "10%"), total) for b in own), default=math.inf)
    return max(of(reason) for reason in reasons)


def _seconds(duration):
    units = {"h": 3600, "m": 60, "s": 1}
    text, out, digits = str(duration), 0.0, ""
    if duration is None or text == "Never":
        return math.inf
    for letter in text:
        if letter in units:
            out, digits = out + float(digits) * units[letter], ""
        else:
            digits += letter
    return out


BOUNDS = (Evictions, Limits, Budgets)
