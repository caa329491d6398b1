"""Look-ups of what a world holds, by what rules ask for: kept as events come, so that no rule has to look at everything again."""

from collections import defaultdict


class Indexes:
    """Pods by name, node and owner, nodes and claims by instance, claims and instances by token."""

    def __init__(self):
        self.alive = 0  # instances that have not ended
        self.waiting = {}  # pods without a node that are neither gone nor going
        self.workloads = defaultdict(Workload)  # by namespace and owner
        self._pods_named, self._pods_on = defaultdict(dict), defaultdict(dict)
        self._nodes_of, self._claims_of = defaultdict(dict), defaultdict(dict)
        self._claims_with, self._instances_with = defaultdict(dict), defaultdict(dict)

    # Pods. One that comes again under its uid is another.

    def pod_came(self, pod, before):
        if before is not None:
            self.pod_leaves(before)
            self._pods_named[before.namespace, before.name].pop(before, None)
            if _waits(before):
                self.waiting[before] = None  # it was never told to be gone
        self._pods_named[pod.namespace, pod.name][pod] = None
        self.pod_is(pod)

    def pod_leaves(self, pod):
        """It is about to change."""
        self.workloads[pod.namespace, pod.owner].count(pod, -1)
        self.waiting.pop(pod, None)
        self._pods_on[pod.node].pop(pod, None)

    def pod_is(self, pod):
        self.workloads[pod.namespace, pod.owner].count(pod, 1)
        if _waits(pod):
            self.waiting[pod] = None
        if pod.node is not None:
            self._pods_on[pod.node][pod] = None

    def pods_named(self, namespace, name):
        return list(self._pods_named.get((namespace, name), ()))

    def pods_on(self, node):
        return list(self._pods_on.get(node, ()))

    # Nodes: by the instance with which each joined last.

    def node_leaves(self, name, node):
        self._nodes_of[node["instance"]].pop(name, None)

    def node_is(self, name, node):
        self._nodes_of[node["instance"]][name] = node

    def nodes_of(self, instance):
        """{name: node}"""
        return self._nodes_of.get(instance, {})

    # Claims: by the instance that each has, and by every token that it ever had.

    def claim_leaves(self, claim):
        self._claims_of[claim.instance].pop(claim, None)

    def claim_is(self, claim):
        self._claims_of[claim.instance][claim] = None
        if claim.token is not None:
            self._claims_with[claim.token][claim] = None

    def claims_of(self, instance):
        """In the order in which they came."""
        return _in_order(self._claims_of.get(instance, ()))

    def claims_with(self, *tokens):
        """In the order in which they came."""
        return _in_order({claim: None for token in tokens for claim in self._claims_with.get(token, ())})

    # Instances: by token.

    def instance_is(self, instance, before, token):
        if before != token:
            self._instances_with[before].pop(instance, None)
        if token is not None:
            self._instances_with[token][instance] = None

    def instances_with(self, tokens):
        """In the order in which they came."""
        return _in_order({instance: None for token in tokens for instance in self._instances_with.get(token, ())})


class Workload:
    """How many pods of an owner there are, of those that were not removed from the API server."""

    def __init__(self):
        self.shown = self.healthy = self.expected_shown = self.expected_healthy = 0

    def count(self, pod, by):
        if pod.removed or pod.succeeded or pod.deleting is not None:
            return
        self.expected_shown += by
        self.shown += by if pod.up else 0
        self.expected_healthy += by if not pod.gone else 0
        self.healthy += by if pod.up and not pod.gone else 0


def _waits(pod):
    return pod.node is None and not pod.gone and pod.deleting is None


def _in_order(some):
    return sorted(some, key=lambda one: one.number) if len(some) > 1 else list(some)
