"""INV-18: launches that no pod uses have a bound.

A node is unused when it ends and no pod but DaemonSets' ever ran on it, although it was ready for a while (or its time was over),
while a pod that waited when its claim was made, and that the claim asks for enough to hold, waits still. Of those that were made after
the first of a pool had ended, no more than eight an hour may be for each owner of such pods.
"""

from collections import defaultdict

from bounds import _seconds
from rule import Rule

AN_HOUR, HOUR, READY = 8, 3600, 15


class Unused(Rule):
    """Counts, of each pool, nodes that were launched again and not used again."""

    def __init__(self, world):
        super().__init__(world)
        self._made = {}  # claim's uid: after which line it was made, and what it asked for
        self._ready = {}  # instance: when its node was first ready
        self._on = defaultdict(int)  # instance: pods bound to it that have not failed
        self._used = set()  # instances on which a pod was ready, or has come to its end
        self._first, self._again = {}, defaultdict(list)

    def after(self, event):
        kind, change = event["kind"], event.get("change")
        if kind == "api" and event.get("resource") == "nodeclaims" and event["verb"] == "create" and event["replica"] is not None:
            claim = self.world.claims.get(event.get("uid") or event["name"])
            if claim is not None and event.get("code", 500) < 300:
                self._made.setdefault(claim.uid, (self.world.line, claim.requests))
        elif kind == "node" and change == "ready":
            self._ready.setdefault(self.world.nodes[event["name"]]["instance"], event["t"])
        elif kind == "pod" and change in ("bound", "failed", "ready", "succeeded"):
            self._pod(self.world.pods.get(event["uid"]), change)
        elif kind == "instance" and change == "shutting-down":
            self._ended(self.world.instances[event["id"]], event["t"])

    def _pod(self, pod, change):
        if pod is None or pod.node is None or _daemon(pod):
            return
        instance = self.world.nodes.get(pod.node, {}).get("instance")
        if change in ("ready", "succeeded"):
            self._used.add(instance)
        else:
            self._on[instance] += 1 if change == "bound" else -1

    def _ended(self, instance, t):
        claim = next((c for c in self.world.index.claims_of(instance.id) if c.uid in self._made), None)
        if claim is None or instance.id in self._used or self._on[instance.id] > 0 or instance.interrupted is not None:
            return
        line, requests = self._made.pop(claim.uid)
        expired = claim.created + _seconds((claim.spec or {}).get("expireAfter")) <= t
        if not expired and t - self._ready.get(instance.id, t) < READY:
            return
        # Who waits now and was there waited then: what ends a wait ends it for good.
        waited = [p for p in self.world.index.waiting if p.created < line and not _daemon(p) and _within(p, requests)]
        owners = {(p.namespace, p.owner or p.name) for p in waited}
        if not owners:
            return
        first = self._first.setdefault(claim.pool, t)
        if claim.created <= first:
            return
        self._again[claim.pool].append((t, owners))
        lately = [own for at, own in self._again[claim.pool] if t - at < HOUR]
        most = AN_HOUR * len(set().union(*lately))
        if len(lately) > most:
            self.world.violate("INV-18", t, f"{len(lately)} nodes of pool {claim.pool} were not used within an hour, {most} may be")


def _daemon(pod):
    return (pod.owner or "").startswith("DaemonSet/")


def _within(pod, requests):
    return all(pod.requests.get(name, 0) <= requests.get(name, 0) for name in ("cpu", "memory"))


UNUSED = (Unused,)
