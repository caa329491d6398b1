"""What launches have to keep to: the holder's deadline, one instance a claim, no more than the pods need."""

from bisect import bisect_right
from collections import defaultdict

import windows
from rule import Rule
from weighing import LaunchLog, PodsWithoutPlace, RESOURCES

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


class Deadline(Rule):
    """INV-8: no CreateFleet is sent after the holder's own deadline."""

    def __init__(self, world):
        super().__init__(world)
        # Of each replica: when its writes were answered, and until when it leads by the best of those so far.
        self._held, self._any = defaultdict(lambda: ([], [])), False

    def after(self, event):
        replica, t = event["replica"], event["t"]
        if event["kind"] == "api" and event.get("resource") == "leases" and replica is not None:
            self._renewed(event)
        elif event["kind"] == "story" and event.get("event") == "starting":
            self._held.pop(replica, None)  # a new life, which has not led yet
        elif event.get("action") == "CreateFleet" and replica is not None and self._any:
            sent = ((event.get("result") or {}).get("sent") or {}).get("t", t)
            answered, best = self._held[replica]
            heard = bisect_right(answered, sent)
            until = best[heard - 1] if heard else None
            if until is None or sent > until + DRIFT:
                why = "never led" if until is None else f"led until {until:.6f}"
                self.world.violate("INV-8", t, f"replica {replica}, which {why}, sent CreateFleet at {sent}")

    def _renewed(self, event):
        spec = (event.get("sent") or {}).get("spec") or {}
        holder, term = spec.get("holderIdentity"), spec.get("leaseTransitions") or 0
        heard = event.get("code", 500) < 300 and not event.get("answerLost")
        if heard and term > 0 and holder and holder == event.get("by", holder):
            self._any = True
            answered, best = self._held[event["replica"]]
            answered.append(event["t"])
            best.append(max([event.get("asked", event["t"]) + RENEW, *best[-1:]]))


class Doubled(Rule):
    """INV-7: no more instances than claims, for longer than a quarter of an hour in which nothing stands in the way.
    INV-12: no claim gets another instance while one of its own has lived for a minute, unless EC2 showed none."""

    def close(self):
        every = [i for i in self.world.instances.values() if i.ours]
        known = set().union(*(claim.tokens for claim in self.world.claims.values()))
        # Of a token that no claim ever had what it was made of: an end of its own does not make a launch another claim's.
        of = defaultdict(list)
        for instance in every:
            of[instance.token if instance.token in known else instance.token.rsplit("-", 1)[0]].append(instance)
        for tokens, uids in families(self.world.claims.values(), set(of)):
            self._lasting(_with(of, tokens), max(1, len(uids)), min(tokens))
        # Of a call for several claims each has its own instance, which is written on it.
        owners = defaultdict(list)
        for claim in self.world.claims.values():
            owners[claim.instance].append(claim)
        for claim in self.world.claims.values():
            def is_own(one):
                others = [other.uid for other in owners[one.id] if one.token in other.tokens]
                return not others or claim.uid in others
            self._again(claim, [one for one in _with(of, claim.tokens) if is_own(one)])

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
        self._shaky, self._on, self._seen, self._launches = defaultdict(set), defaultdict(set), set(), LaunchLog(world, SPAN)
        self._went = {}  # when a pod that had its place was deleted
        self._sets = {}  # of each StatefulSet

    def after(self, event):
        kind, t = event["kind"], event["t"]
        if kind == "pod":
            self._pod(event)
        elif kind == "step":
            self._launches.step()
            action = event["action"]
            if action["type"] == "scale" and action["kind"] == "StatefulSet":
                self._set(action["namespace"], f"StatefulSet/{action['name']}").scaled(t, action["replicas"])
        elif kind == "node" and event["change"] in ("cordoned", "deleting", "deleted", "not-ready"):
            self._shakes(event["name"], t, event["change"])
        elif kind == "node" and event["change"] in STEADIES:
            self._steadies(event["name"], t, STEADIES[event["change"]])
            if event["change"] == "ready":
                self._launches.ready(self.world.nodes[event["name"]]["instance"])
        elif kind == "rules" and event.get("resource") in ("capacitybuffers", "provisioningrequests", "verticalpodautoscalers"):
            self._launches.buffers = True
        elif kind == "rules" and event.get("replicas") is not None:
            self._launches.static.add(event["name"])
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
        waiting = PodsWithoutPlace(self.world.pods, self._needs, NEAR)
        for t, coming, recent in self._launches.replayed():
            if not self._weigh(waiting, t, coming, NEAR, 1, "on their way"):
                self._weigh(waiting, t, recent, SPAN, TIMES, "of the last ten minutes")

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
        if claim:
            self._launches.claim(claim)
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
        return list(self.world.index.nodes_of(id)) if id else []

    def _of_instance_shakes(self, id, t, cause):
        for name in self._nodes_of(id):
            self._shakes(name, t, cause)

    def _instance(self, event):
        instance, t = self.world.instances[event["id"]], event["t"]
        if event["change"] in ("interrupted", "shutting-down", "terminated"):
            self._of_instance_shakes(instance.id, t, "ends")
        self._launches.instance(instance)
        if instance.ours and event["change"] == "pending":
            self._launches.launched(t)

    def _weigh(self, waiting, t, launched, span, times, which):
        held, nodes, oldest = launched.weight()
        begin = min(t, oldest) - span
        leaders = sum(begin < at <= t for at in self.world.terms[1:])
        need = waiting.need(begin, t, nodes, self._to_come)

        def too_much(largest):
            for resource, have, wants, most in zip(RESOURCES, held, need, largest):
                wants += leaders * max(most, wants / ANEW)
                if have > times * wants * (1 + 1e-9):
                    return f"{nodes} instances {which} are for {have:g} {resource}, {wants:g} had no place"
            return None

        # The largest pod can only add to what is needed.
        if too_much([0.0] * len(RESOURCES)) is None:
            return False
        what = too_much(waiting.largest(begin, t) if leaders else [0.0] * len(RESOURCES))
        if what is not None:
            self.world.violate("INV-14", t, what)
        return what is not None

    def _to_come(self, key, waiting):
        """How many ordinals to come of a StatefulSet count beside those that wait."""
        return self._sets[key].to_come(waiting, self.world.end)


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


def _with(of, tokens):
    """The instances of some tokens, in the order in which they came."""
    return sorted((instance for token in tokens for instance in of.get(token, ())), key=lambda one: one.number)


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
    groups = {token: ({token}, set()) for token in tokens}
    for claim in claims:
        joined = list({id(group): group for group in map(groups.get, claim.tokens) if group}.values())
        if not joined:
            continue
        largest = max(joined, key=lambda group: len(group[0]))
        news = claim.tokens.union(*(group[0] for group in joined if group is not largest))
        largest[0].update(news)
        largest[1].update({claim.uid}, *(group[1] for group in joined if group is not largest))
        groups.update(dict.fromkeys(news, largest))
    return list({id(group): group for group in groups.values()}.values())


LAUNCHING = (Deadline, Doubled, Needed)
