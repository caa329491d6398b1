"""Reads an event log and replays it: pods, nodes, instances, claims, downtime and cost, from the events alone."""

import json
from bisect import bisect_left
from collections import defaultdict

import windows
from bounds import BOUNDS
from collecting import COLLECTING
from futile import FUTILE
from indexes import Indexes
from launching import LAUNCHING, families
from replicas import REPLICAS
from reserved import RESERVED
from rule import Rule
from unused import UNUSED


class Pod:
    """A pod's life as the log tells it."""

    def __init__(self, event, line):
        self.namespace, self.name, self.owner = event.get("namespace"), event["name"], event.get("owner")
        self.created, self.node, self.ready, self.gone, self.succeeded, self.down = line, None, False, False, False, False
        self.removed = False  # from the API server, which shows one that is gone with its machine for a while
        self.up, self.deleting, self.labels, self.requests = False, None, event.get("labels"), windows.total(event.get("requests"))

    @property
    def key(self):
        return f"{self.namespace}/{self.name}"

    @property
    def bound(self):
        return self.node is not None and not self.gone and not self.succeeded

    @property
    def pending(self):
        return self.node is None and not self.gone and not self.succeeded


class Instance:
    """An instance; paid from its first event to `ended`."""

    def __init__(self, event, number):
        self.number = number  # in the order in which instances came
        self.id, self.started, self.ended, self.facts = event["id"], event["t"], None, {}
        self.interrupted = None

    @property
    def token(self):
        """Its launch token; a launch that is made again with a new template has it with a suffix."""
        token = self.facts.get("token")
        while token and token.endswith("-r"):
            token = token[:-2]
        return token

    @property
    def ours(self):
        """Whether a launch of ours made it."""
        return not self.facts.get("beforehand") and self.facts.get("token") is not None

    def seconds(self, end):
        return max(0.0, (end if self.ended is None else self.ended) - self.started)


class Claim:
    """A NodeClaim after its last write."""

    def __init__(self, uid, name, t, number):
        self.number = number  # in the order in which claims came
        self.uid, self.name, self.token, self.provider_id, self.gone = uid, name, None, None, False
        self.tokens, self.since = set(), {}  # since: when each token came
        self.created, self.deleting, self.lost, self.ever = t, None, False, False
        self.pool, self.requests, self.capacity, self.spec, self.voluntary = None, {}, None, {}, False
        self.gone_at, self.moves = None, False
        self.strange, self.left = False, False  # left: another control plane made it and wrote its instance

    @property
    def instance(self):
        """The id in its providerID."""
        return self.provider_id.rsplit("/", 1)[-1] if self.provider_id else None


class World:
    """All that a log tells. Invariant violations are (id, t, what); `faults` are mistakes of the log itself."""

    def __init__(self):
        self.pods, self.nodes, self.instances, self.claims = {}, {}, {}, {}
        self.story, self.violations, self.faults = [], [], []
        self.end, self.term, self.evicted, self.down_seconds = 0.0, None, set(), 0.0
        self.index = Indexes()
        self._down, self._drained, self.line, self._last = defaultdict(list), set(), 0, None
        self._sharers, self._shared, self._acts = defaultdict(set), set(), []
        self._begun, self._holder, self._written = 0, "", set()
        self._says = None  # the term that the Lease says, None where it is not there
        self._put_back = None  # when the Lease was put back to a backup, None once somebody has written it
        self.windows, self.terms = windows.Windows(), []  # terms: when each began
        self.rules = [rule(self) for rule in (*LAUNCHING, *COLLECTING, *BOUNDS, *UNUSED, *FUTILE, *REPLICAS, *RESERVED)]
        self._before = [rule.before for rule in self.rules if type(rule).before is not Rule.before]
        self._after = [rule.after for rule in self.rules if type(rule).after is not Rule.after]

    # Reading

    def read(self, lines):
        """Replays the lines of a log."""
        kinds = []
        for self.line, text in enumerate(lines, 1):
            event = self._parse(text)
            if event is None:
                continue
            kinds.append(event["kind"])
            if self._last is not None and event["t"] < self._last:
                self.violate("INV-5", event["t"], f"line {self.line}: t goes back from {self._last}")
            self._last = event["t"]
            self.end = event["t"]
            try:
                for before in self._before:
                    before(event)
                getattr(self, f"_on_{event['kind']}", lambda _: None)(event)
                for after in self._after:
                    after(event)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                self.fault(f"{event['kind']} event without what it needs: {error!r}")
        if not kinds or kinds[0] != "start":
            self.faults.append("line 1: the log does not begin with a start event")
        if not kinds or kinds[-1] != "end" or kinds.count("end") > 1:
            self.faults.append(f"line {self.line}: the log does not end with its one end event")
        self._close()
        return self

    def _parse(self, text):
        try:
            event = json.loads(text)
        except json.JSONDecodeError as error:
            return self.fault(f"not JSON: {error.msg}")
        if not isinstance(event, dict):
            return self.fault("not an object")
        for field, kinds in (("t", (int, float)), ("kind", str), ("replica", (int, type(None))), ("term", (int, type(None)))):
            if field not in event or not isinstance(event[field], kinds) or isinstance(event[field], bool):
                return self.fault(f"{field} is missing or of the wrong type")
        if event["t"] < 0 or abs(round(event["t"], 6) - event["t"]) > 1e-9:
            return self.fault(f"t {event['t']} is negative or has more than 6 decimals")
        return event

    def fault(self, what):
        self.faults.append(f"line {self.line}: {what}")

    def violate(self, rule, t, what):
        self.violations.append((rule, t, what))

    # What happened

    def _on_story(self, event):
        self.story.append(event)

    def _on_step(self, event):
        action = event["action"]
        self.windows.step(event["t"], action)
        kind = action["kind"] if action["type"] == "delete" else None
        if kind == "Lease":
            self._says = None
        for claim in self.claims.values() if kind in ("NodeClaim", "NodePool") else ():
            if action["name"] == (claim.name if kind == "NodeClaim" else claim.pool) and claim.deleting is None:
                claim.deleting = event["t"]

    def _on_pod(self, event):
        change, uid = event["change"], event["uid"]
        if change == "created":
            pod = Pod(event, self.line)
            self.index.pod_came(pod, self.pods.get(uid))
            self.pods[uid] = pod
            return
        pod = self.pods.get(uid)
        if pod is None:
            return self.fault(f"pod {event.get('name')} {change} before it was created")
        self.index.pod_leaves(pod)
        try:
            self._pod_changes(pod, event, change, uid)
        finally:
            self.index.pod_is(pod)

    def _pod_changes(self, pod, event, change, uid):
        if change in ("ready", "not-ready"):
            pod.up = change == "ready"
        if change in ("evicted", "deleting") and pod.deleting is None:
            pod.deleting = event["t"]
        if change == "bound":
            self._bind(pod, event)
        elif change == "ready" and not pod.ready:
            pod.ready = True
            self._replaced(pod, event["t"])
        elif change == "evicted":
            self.evicted.add(uid)
            self._goes_down(pod, event["t"])
        elif change == "deleting" and (event["replica"] is not None or uid in self._drained):
            self._goes_down(pod, event["t"])
        elif change == "lost":
            self._goes_down(pod, event["t"])
            pod.gone = True
        elif change == "deleted":
            pod.gone = pod.removed = True
        elif change in ("succeeded", "failed"):
            pod.succeeded = True

    def _bind(self, pod, event):
        if pod.node is not None:
            self.violate("INV-4", event["t"], f"{pod.key} bound to {event['node']}, was on {pod.node}")
        if not self.nodes.get(event["node"], {}).get("here"):
            self.fault(f"{pod.key} bound to {event['node']}, which is not there")
        pod.node = event["node"]

    def _goes_down(self, pod, t):
        if (pod.owner or "").startswith("DaemonSet/"):
            return  # comes and goes with its node
        if pod.ready and not pod.down and not pod.gone and not pod.succeeded:
            pod.down = True
            owner = (pod.namespace, pod.owner) if pod.owner else ("", pod.key, pod.created)
            self._down[owner].append((self.line, t))

    def _replaced(self, pod, t):
        waiting = self._down.get((pod.namespace, pod.owner), [])
        begun = bisect_left(waiting, (pod.created,))  # they stand in the order of their lines
        if begun:
            self.down_seconds += t - waiting.pop(begun - 1)[1]

    def _on_node(self, event):
        if event["change"] not in ("joined", "ready", "not-ready", "cordoned", "deleting", "staying", "deleted", "labelled"):
            return
        node = self.nodes.get(event["name"])
        if node is None:
            node = self.nodes[event["name"]] = {"labels": {}, "instance": None, "here": False}
            self.index.node_is(event["name"], node)
        if event["change"] == "joined":
            self.index.node_leaves(event["name"], node)
            node.update(here=True, labels={}, instance=event.get("instance"), deleting=False)
            self.index.node_is(event["name"], node)
        elif event["change"] == "deleted":
            node["here"] = False
        elif event["change"] in ("deleting", "staying"):
            node["deleting"] = event["change"] == "deleting"
        elif event["change"] in ("ready", "not-ready"):
            node["ready"] = event["change"] == "ready"
        if event.get("labels") is not None:
            node["labels"] = event["labels"]

    def _on_instance(self, event):
        instance = self.instances.get(event["id"])
        if instance is None:
            instance = self.instances[event["id"]] = Instance(event, len(self.instances))
            self.index.alive += 1
        before = instance.token
        for field in ("instanceType", "zone", "capacityType", "pricePerHour", "beforehand", "token"):
            if event.get(field) is not None:
                instance.facts[field] = event[field]
        token = instance.token
        self.index.instance_is(instance, before, token)
        if event["change"] == "interrupted":
            instance.interrupted = event["t"]
        if instance.started == event["t"] and token and not instance.facts.get("looked at"):
            instance.facts["looked at"] = True
            if token not in self._written:
                self.violate("INV-11", event["t"], f"instance {instance.id} has token {token}, which no claim had")
        if event["change"] in ("shutting-down", "terminated") and instance.ended is None:
            instance.ended = event["t"]
            self.index.alive -= 1

    def _on_api(self, event):
        done = event.get("code", 0) < 300
        if event.get("resource") == "pods" and event["replica"] is not None and done:
            if event.get("subresource") == "eviction" or event["verb"] == "delete":
                self._drained.add(event.get("uid"))
        if event.get("resource") == "nodeclaims" and done:
            self._claim(event)
        if event.get("resource") != "leases":
            self._acted(event)
        elif done:
            gone = event["verb"] == "lose"
            self._says = None if gone else ((event.get("sent") or {}).get("spec") or {}).get("leaseTransitions") or 0
            if event["replica"] is not None:
                self._lease(event)
            self._put_back = event["t"] if event["verb"] == "restore" else None

    def _lease(self, event):
        spec = (event.get("sent") or {}).get("spec") or {}
        term, who = spec.get("leaseTransitions") or 0, spec.get("holderIdentity") or ""
        if term == 0:
            return  # vacant: nobody leads by it
        # Under way since before the backup came, and its sender was never told: no term begins.
        late = self._put_back is not None and event.get("answerLost") and event.get("asked", event["t"]) < self._put_back
        if not late and (term < self._begun or (term == self._begun and who not in ("", self._holder))):
            self.violate("INV-10", event["t"], f"term {term} of {who} after term {self._begun} of {self._holder}")
        if term > self._begun:
            self._begun, self._holder = term, who
            self.terms.append(event["t"])

    def _claim(self, event):
        uid = event.get("uid") or event["name"]
        told = event.get("claim")
        if uid not in self.claims:
            self.claims[uid] = Claim(uid, event["name"], event["t"], len(self.claims))
            self.index.claim_is(self.claims[uid])
            self.claims[uid].strange = event["replica"] is None and event["verb"] == "create"
            # It was there before the log begins, with its instance.
            self.claims[uid].left = event["verb"] == "patch" and bool((told or {}).get("providerID"))
        claim = self.claims[uid]
        claim.lost = event["verb"] == "lose" or claim.lost and event["verb"] != "restore"
        if event["verb"] == "delete" and claim.deleting is None:
            claim.deleting = event["t"]
        if event["verb"] == "restore":
            # As it was when the backup was made.
            claim.deleting, claim.voluntary = event["t"] if event.get("deleting") else None, False
        if told is None:
            if not claim.gone and (event["verb"] == "delete" or "claim" in event):
                claim.gone, claim.gone_at = True, event["t"]
            return
        claim.pool, claim.requests = told.get("nodePool"), windows.total([told.get("requests")])
        sent = event.get("sent") or {}
        claim.spec = (sent.get("spec") or {}) if event["verb"] == "create" else claim.spec
        claim.capacity = (sent.get("status") or {}).get("capacity") or claim.capacity
        claim.gone = bool(event.get("gone"))
        term = int(told["term"]) if str(told.get("term") or "").isdigit() else None
        refused = self._says is not None and self._says != term  # without a Lease there is nothing to refuse by
        if event["replica"] is not None and term is not None and term < self._begun and refused and (event["verb"] == "create" or told.get("token") != claim.token):
            self.violate("INV-9", event["t"], f"claim {event['name']} is written under term {term}, {self._begun} has begun")
        self._written |= {told.get("token")} - {None}
        claim.left |= claim.strange and event["replica"] is None and claim.provider_id is None and told.get("providerID") is not None
        self.index.claim_leaves(claim)
        claim.token, claim.provider_id = told.get("token"), told.get("providerID")
        self.index.claim_is(claim)
        claim.tokens |= {claim.token} - {None}
        claim.since.setdefault(claim.token, event["t"])
        claim.ever = claim.ever or claim.provider_id is not None
        if claim.provider_id:
            sharers = self._sharers[claim.provider_id]
            sharers.add(uid)
            pair = sorted(c.name for c in map(self.claims.get, sharers) if c.provider_id == claim.provider_id and not c.gone)
            if len(pair) > 1 and (claim.provider_id, len(pair)) not in self._shared:
                self._shared.add((claim.provider_id, len(pair)))
                self.violate("INV-1", event["t"], f"claims {', '.join(pair)} share {claim.provider_id}")

    def _on_aws(self, event):
        if event.get("action") == "CreateFleet":
            sent = (event.get("result") or {}).get("sent") or {"t": event["t"], "term": event["term"]}
            newest = max((term for t, term in self._acts if t < sent["t"]), default=None)
            if sent["term"] is None:
                self.violate("INV-2", event["t"], f"CreateFleet by replica {event['replica']} without a term")
            elif newest is not None and sent["term"] < newest:
                self.violate("INV-2", event["t"], f"CreateFleet under term {sent['term']} sent after term {newest} acted")
        self._acted(event)

    def _acted(self, event):
        if event["replica"] is not None and event["term"] is not None:
            if self.term is None or event["term"] > self.term:
                self.term = event["term"]
                self._acts.append((event["t"], event["term"]))

    # The end

    def _close(self):
        self.down_seconds += sum(self.end - t for queue in self._down.values() for _, t in queue)
        live = [i for i in self.instances.values() if i.ended is None and not i.facts.get("beforehand")]
        claims = [c for c in self.claims.values() if not c.gone]
        of_token = defaultdict(list)
        for instance in live:
            of_token[instance.token].append(instance.id)
        for tokens, uids in families(self.claims.values(), of_token.keys() - {None}):
            held = sorted(id for token in tokens for id in of_token.get(token, ()))
            if len(held) > max(1, len(uids)):
                self.violate("INV-1", self.end, f"{len(held)} instances for {max(1, len(uids))} claim(s) of token {min(tokens)}: {', '.join(held)}")
        for rule in self.rules:
            rule.close()
        owned, awaited = {c.instance for c in claims}, {c.token for c in claims if c.provider_id is None and c.token}
        for instance in sorted(live, key=lambda i: i.id):
            if instance.id not in owned and instance.facts.get("token") not in awaited:
                self.violate("INV-3", self.end, f"instance {instance.id} has no claim")

    def present(self):
        """{name: node} at the end."""
        return {name: node for name, node in self.nodes.items() if node["here"]}
