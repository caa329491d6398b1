"""What launches have to keep to: the holder's deadline, one instance a claim, no more than the pods need."""

from collections import defaultdict

import windows
from rule import Rule

# Seconds: a holder's own deadline, from before its write of the Lease was sent; what clocks may drift in that time.
RENEW, DRIFT = 10, 0.05
# After how long EC2 shows what was launched; for how long a claim may have two instances.
CONSISTENT, DOUBLED = 60, 900
# What is on its way is held against the pods that have no place or had none so long ago; all that was launched within
# ten minutes against so many times what had no place within them (others may take a place that was made for a pod).
NEAR, SPAN, TIMES, ANEW = 120, 600, 2, 4
# A pod is looked at when it is marked, or after half a second; so many ordinals to come of a StatefulSet count at most.
SEEN, ORDINALS = 0.4, 20
# So late a watch may be with what it tells.
LATE = 30
# What is over when a node has changed so.
STEADIES = {"ready": "not-ready", "staying": "deleting"}
# Conditions of claims whose pods are to move.
MOVING = ("Drifted", "DisruptionReason")
# A StatefulSet that has been still for so long has all its pods.
STILL = 60
RESOURCES = ("cpu", "memory", "pods")


class Deadline(Rule):
    """INV-8: no CreateFleet is sent after the holder's own deadline."""

    def __init__(self, world):
        super().__init__(world)
        # Of each replica: (when its write was answered, until when it leads by it).
        self._held, self._any = defaultdict(list), False

    def after(self, event):
        replica, t = event["replica"], event["t"]
        if event["kind"] == "api" and event.get("resource") == "leases" and replica is not None:
            self._renewed(event)
        elif event["kind"] == "story" and event.get("event") == "starting":
            self._held.pop(replica, None)  # a new life, which has not led yet
        elif event.get("action") == "CreateFleet" and replica is not None and self._any:
            sent = ((event.get("result") or {}).get("sent") or {}).get("t", t)
            until = max((until for at, until in self._held[replica] if at <= sent), default=None)
            if until is None or sent > until + DRIFT:
                why = "never led" if until is None else f"led until {until:.6f}"
                self.world.violate("INV-8", t, f"replica {replica}, which {why}, sent CreateFleet at {sent}")

    def _renewed(self, event):
        spec = (event.get("sent") or {}).get("spec") or {}
        holder, term = spec.get("holderIdentity"), spec.get("leaseTransitions") or 0
        heard = event.get("code", 500) < 300 and not event.get("answerLost")
        if heard and term > 0 and holder and holder == event.get("by", holder):
            self._any = True
            self._held[event["replica"]].append((event["t"], event.get("asked", event["t"]) + RENEW))


class Doubled(Rule):
    """INV-7: no more instances than claims, for longer than a quarter of an hour in which nothing stands in the way.
    INV-12: no claim gets another instance while one of its own has lived for a minute, unless EC2 showed none."""

    def close(self):
        every = [i for i in self.world.instances.values() if i.ours]
        known = set().union(*(claim.tokens for claim in self.world.claims.values()))
        # Of a token that no claim ever had what it was made of: an end of its own does not make a launch another claim's.
        token = {i.id: i.token if i.token in known else i.token.rsplit("-", 1)[0] for i in every}
        for tokens, uids in families(self.world.claims.values(), set(token.values())):
            self._lasting([i for i in every if token[i.id] in tokens], max(1, len(uids)), min(tokens))
        for claim in self.world.claims.values():
            self._again(claim, [i for i in every if token[i.id] in claim.tokens])

    def _lasting(self, own, allowed, token):
        end, since, living = self.world.end, None, 0
        changes = sorted([(i.started, 1) for i in own] + [(i.ended, -1) for i in own if i.ended is not None])
        for t, change in [*changes, (end, -living)]:
            living += change
            if living > allowed and since is None:
                since = t
            elif (living <= allowed or t == end) and since is not None:
                lasted = self.world.windows.undisturbed(since, t)
                if lasted > DOUBLED:
                    self.world.violate("INV-7", t, f"{allowed} claim(s) of token {token} had more instances for {lasted:.0f} s")
                since = None

    def _again(self, claim, own):
        for later in own:
            looked = claim.since.get(later.token, later.started)
            if windows.touched(self.world.windows.blind, looked - windows.LOOK, looked):
                continue
            if any(i.started + CONSISTENT < later.started and (i.ended is None or i.ended > later.started) for i in own):
                self.world.violate("INV-12", later.started, f"claim {claim.name} got {later.id} though an earlier instance lived")


class Needed(Rule):
    """INV-14: instances whose nodes are not Ready yet are for no more than the pods that had no place within two minutes
    before the oldest of their claims; all that live and were launched within ten minutes for no more than twice those
    that had none within ten. With the pods go twenty ordinals to come of a StatefulSet that is among them, a pod of each
    DaemonSet a node, and for each change of leaders a quarter of them, and the largest at least, once more: who takes over
    packs anew, and what fitted one way may not fit another."""

    def __init__(self, world):
        super().__init__(world)
        self._needs = defaultdict(list)  # uid of a pod: when it had no place, [from, until; None: to the end]
        self._shaky, self._on, self._launches, self._seen, self._ready = defaultdict(set), defaultdict(set), [], set(), set()
        self._went = {}  # when a pod that had its place was deleted
        self._sets = {}  # of each StatefulSet

    def after(self, event):
        kind, t = event["kind"], event["t"]
        if kind == "pod":
            self._pod(event)
        elif kind == "step":
            action = event["action"]
            if action["type"] == "scale" and action["kind"] == "StatefulSet":
                self._set(action["namespace"], f"StatefulSet/{action['name']}").scaled(t, action["replicas"])
        elif kind == "node" and event["change"] in ("cordoned", "deleting", "deleted", "not-ready"):
            self._shakes(event["name"], t, event["change"])
        elif kind == "node" and event["change"] in STEADIES:
            self._steadies(event["name"], t, STEADIES[event["change"]])
            if event["change"] == "ready":
                self._ready.add(self.world.nodes[event["name"]]["instance"])
        elif kind == "instance":
            self._instance(event)
        elif kind == "api" and event.get("resource") == "nodes" and _disrupted(event):
            self._shakes(event["name"], t, "tainted")
        elif kind == "api" and event.get("resource") == "nodes" and _open(event):
            self._steadies(event["name"], t, "tainted")
            self._steadies(event["name"], t, "cordoned")
        elif kind == "api" and event.get("resource") == "nodeclaims":
            self._claim(event, t)

    def close(self):
        for t, instances, ready in self._launches:
            coming = [(i, claims) for i, claims in instances if i.id not in ready]
            if not self._weigh(t, coming, NEAR, 1, "on their way"):
                self._weigh(t, instances, SPAN, TIMES, "of the last ten minutes")

    def _pod(self, event):
        uid, change, t = event["uid"], event["change"], event["t"]
        needs, pod = self._needs[uid], self.world.pods.get(uid)
        if pod and (pod.owner or "").startswith("StatefulSet/") and change in ("created", "ready"):
            self._set(pod.namespace, pod.owner).heard(t, pod.name, change)
        if change == "created":
            needs.append([t, None])
        elif change == "bound":
            self._on[event["node"]].add(uid)
            if needs and needs[-1][1] is None and not self._shaky[event["node"]]:
                needs[-1][1] = t
                if t - needs[-1][0] < SEEN and uid not in self._seen:
                    needs.pop()  # nobody has looked at it
        elif change == "unschedulable":
            self._seen.add(uid)
        elif change in ("deleted", "lost", "succeeded") and needs and needs[-1][1] is None:
            needs[-1][1] = t
        elif change == "deleted":
            self._went[uid] = t

    def _set(self, namespace, owner):
        return self._sets.setdefault((namespace, owner), StatefulSet())

    def _claim(self, event, t):
        claim = self.world.claims.get(event.get("uid") or event["name"])
        instance = claim and claim.instance
        if event["verb"] in ("delete", "lose"):
            self._of_instance_shakes(instance, t, "removed")
        elif _conditions(event) is not None and event.get("code", 200) < 300:
            for name in self._nodes_of(instance):
                if _moves(event):
                    self._shakes(name, t, "moves")
                else:
                    self._steadies(name, t, "moves")

    def _steadies(self, node, t, cause):
        """What made a node shaky is over: with the last of it its pods need no other place."""
        if cause not in self._shaky[node]:
            return
        self._shaky[node].discard(cause)
        for uid in self._on[node] if not self._shaky[node] else ():
            pod, needs = self.world.pods[uid], self._needs[uid]
            if not pod.gone and not pod.succeeded and needs and needs[-1][1] is None:
                needs[-1][1] = t

    def _shakes(self, node, t, cause):
        """A node goes, or may: its pods need a place elsewhere, and so may those that have just gone: who is told late
        does not know it."""
        self._shaky[node].add(cause)
        for uid in self._on[node]:
            pod, needs = self.world.pods[uid], self._needs[uid]
            if self._went.get(uid, -LATE) + LATE > t:
                needs.append([t, t])
            elif not pod.gone and not pod.succeeded and not (needs and needs[-1][1] is None):
                needs.append([t, None])

    def _nodes_of(self, id):
        return [name for name, node in self.world.nodes.items() if id and node["instance"] == id]

    def _of_instance_shakes(self, id, t, cause):
        for name in self._nodes_of(id):
            self._shakes(name, t, cause)

    def _instance(self, event):
        instance, t = self.world.instances[event["id"]], event["t"]
        if event["change"] in ("interrupted", "shutting-down", "terminated"):
            self._of_instance_shakes(instance.id, t, "ends")
        elif instance.ours and event["change"] == "pending":
            every = self.world.instances.values()
            recent = [i for i in every if i.ours and i.started > t - SPAN and i.ended is None and i.interrupted is None]
            self._launches.append((t, [(i, self._for(i)) for i in recent], set(self._ready)))

    def _for(self, instance):
        """The claims that it may be for, as they stand; none where it is on its way out."""
        base = instance.token.rsplit("-", 1)[0]
        claims = [c for c in self.world.claims.values() if instance.token in c.tokens or base in c.tokens]
        return [] if all(c.lost or c.gone or c.deleting is not None for c in claims) else claims

    def _weigh(self, t, instances, span, times, which):
        held, taken, nodes, begin = defaultdict(float), set(), 0, t
        for instance, claims in instances:
            if not claims or any(self._again(claim, instance, t) for claim in claims):
                continue
            claim = next((c for c in claims if c.uid not in taken), claims[0])
            taken.add(claim.uid)
            nodes, begin = nodes + 1, min(begin, claim.created)
            for resource in RESOURCES:
                held[resource] += claim.requests.get(resource, 0.0)
        need = self._need(begin - span, t, nodes)
        for resource in RESOURCES:
            if held[resource] > times * need[resource] * (1 + 1e-9):
                what = f"{nodes} instances {which} are for {held[resource]:g} {resource}, {need[resource]:g} had no place"
                self.world.violate("INV-14", t, what)
                return True
        return False

    def _again(self, claim, instance, t):
        """Whether its claim had to be launched for once more: its next token came before it landed, or after a look at EC2
        that showed nothing."""
        own = claim.since.get(instance.token)
        later = [at for at in claim.since.values() if own is not None and own < at <= t]
        return any(at < instance.started or windows.touched(self.world.windows.blind, at - windows.LOOK, at) for at in later)

    def _need(self, begin, t, nodes):
        need, sets, daemons, waiting = defaultdict(float), defaultdict(list), {}, []
        for uid, pod in self.world.pods.items():
            owner = pod.owner or ""
            if owner.startswith("DaemonSet/"):
                daemons[pod.namespace, owner] = pod
            elif any(first <= t and (last is None or last > begin) for first, last in self._needs[uid]):
                waiting.append(pod)
                if owner.startswith("StatefulSet/"):
                    sets[pod.namespace, owner].append(pod)
        leaders = sum(begin < at <= t for at in self.world.terms[1:])
        counted = [(pod, 1) for pod in waiting] + [(pod, nodes) for pod in daemons.values()]
        counted += [(pods[0], self._sets[key].to_come(len(pods), self.world.end)) for key, pods in sets.items()]
        for pod, times in counted:
            for resource in RESOURCES:
                need[resource] += times * _of(pod, resource)
        for resource in RESOURCES:
            largest = max((_of(pod, resource) for pod in waiting), default=0.0)
            need[resource] += leaders * max(largest, need[resource] / ANEW)
        return need


class StatefulSet:
    """How many pods a StatefulSet may ever have had, as far as the log tells."""

    def __init__(self):
        self._bare, self._names, self._at, self._sizes, self._known = set(), set(), 0.0, [], None

    def heard(self, t, name, change):
        self._at = t
        self._names.add(name)
        (self._bare.add if change == "created" else self._bare.discard)(name)

    def scaled(self, t, replicas):
        self._look(t)
        self._sizes.append(replicas)

    def _look(self, t):
        """What it began with is known when all its pods were Ready for a while before it was scaled first."""
        if self._known is None:
            self._known = not self._bare and t - self._at >= STILL

    def to_come(self, waiting, end):
        """Ordinals besides those that wait."""
        self._look(end)
        most = max([len(self._names), *self._sizes]) if self._known else ORDINALS + waiting
        return min(ORDINALS, max(0, most - waiting))


def _of(pod, resource):
    return 1.0 if resource == "pods" else pod.requests.get(resource, 0.0)


def _conditions(event):
    """All conditions of a claim as they are written; nothing where they are not."""
    return ((event.get("sent") or {}).get("status") or {}).get("conditions")


def _moves(event):
    """Whether a claim says that it drifts, or that a command holds it: what its pods need is launched before its node goes."""
    return any(one.get("type") in MOVING and one.get("status") == "True" for one in _conditions(event))


def _open(event):
    """Whether a Node is written with neither the taint of disruption nor a cordon."""
    spec = (event.get("sent") or {}).get("spec")
    return event.get("code", 200) < 300 and spec is not None and not spec.get("unschedulable")


def _disrupted(event):
    spec = (event.get("sent") or {}).get("spec") or {}
    return any(taint.get("key") == "karpenter.sh/disrupted" for taint in spec.get("taints") or [])


def families(claims, tokens):
    """Tokens that belong together, because a claim had several of them or several claims one, with those claims."""
    groups = [({t}, set()) for t in tokens]
    for claim in claims:
        joined = [g for g in groups if g[0] & claim.tokens]
        if joined:
            rest = [g for g in groups if not g[0] & claim.tokens]
            groups = [*rest, (claim.tokens.union(*(g[0] for g in joined)), {claim.uid}.union(*(g[1] for g in joined)))]
    return groups


LAUNCHING = (Deadline, Doubled, Needed)
