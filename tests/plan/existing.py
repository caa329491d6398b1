"""Existing nodes of a workload and the pods that a plan puts on them (`existingNodes` of the answer)."""

from catalogue import HOST, attachable
from pods import PodClass, ports_clash
from requirements import Req, add, norm, resources, surely


class There:
    """An existing node as the rules between pods see it: like a claim's `Placed`, with labels that are known."""

    def __init__(self, raw, first, daemons):
        self.raw, self.name, self.index, self.counts = raw, raw["name"], ("node", raw["name"]), {}
        self.labels = {norm(k): Req(False, [v]) for k, v in (raw.get("labels") or {}).items()}
        self.labels.setdefault(HOST, Req(False, [self.name]))
        self.labels["metadata.name"] = Req(False, [self.name])  # what matchFields speak of
        self.taints = raw.get("taints") or []
        self.fargate = (raw.get("labels") or {}).get("eks.amazonaws.com/compute-type") == "fargate"
        self.standing = [PodClass.there(first + i, pod) for i, pod in enumerate(raw.get("pods") or ())]
        self.counts.update((cls, 1) for cls in self.standing)
        # Those of a DaemonSet that would run here, whether or not its pod stands already.
        self.daemon_ports = [p for d in daemons if not d.tolerates(self.taints) and _holds(d.filter, self.labels) for p in d.ports]

    def domains(self, key):
        """The value of a topology key, or None where the node lacks it."""
        if key == HOST:
            return frozenset([self.index])
        return self.labels[key].vals if key in self.labels else frozenset([None])

    def count(self, classes):
        """How many of its pods are of these classes."""
        return sum(n for c, n in self.counts.items() if c in classes)

    def admits(self, node_filter):
        """(surely, possibly) as a claim's shape says it."""
        return (_holds(node_filter, self.labels),) * 2

    def room(self):
        """What is allocatable less what is used, by all that stands and all that the plan puts here."""
        out = resources(self.raw.get("allocatable"))
        for part in (self.raw.get("used"), self.raw.get("daemonRequests")):
            add(out, resources(part), -1)
        for cls, count in self.counts.items():
            add(out, {} if cls.standing else cls.requests, -count)
        return out

    def could_take(self, cls, room):
        """Whether a pod that no rule binds to others could stand here with `room` left."""
        ports = self.daemon_ports + [p for other in self.counts for p in other.ports]
        return (not self.fargate and not cls.tolerates(self.taints) and _holds(cls.filter, self.labels)
                and (not cls.volumes or _holds(cls.volumes, self.labels))
                and not any(ports_clash(p, q) for p in cls.ports for q in ports)
                and all(need <= room.get(r, 0) for r, need in cls.requests.items() if need > 0 and (r in room or not attachable(r))))


class Existing:
    """Checks, node by node: room, taints, node selection, volumes, host ports; and that nothing is put on Fargate."""

    def __init__(self, report, workload, daemons):
        self.report = report
        self.nodes = {n["name"]: n for n in workload.get("existingNodes") or ()}
        self.there, self.standing = {}, []
        for raw in workload.get("existingNodes") or ():
            self.there[raw["name"]] = node = There(raw, len(workload["pods"]) + len(self.standing), daemons)
            self.standing += node.standing

    @staticmethod
    def nodes_of(plan):
        """[(pod, node)] of all pods that the plan puts on existing nodes."""
        return [(pod, entry["name"]) for entry in plan.get("existingNodes") or () for pod in entry["podNames"]]

    def check(self, plan, class_of):
        for entry in plan.get("existingNodes") or ():
            node = self.nodes.get(entry["name"])
            if self.report.expect(node, "PL-39", entry["name"], "no such node"):
                classes = [class_of[n] for n in entry["podNames"] if n in class_of]
                self._node(node, classes)
                for cls in classes:
                    counts = self.there[entry["name"]].counts
                    counts[cls] = counts.get(cls, 0) + 1

    def _node(self, node, classes):
        expect, name = self.report.expect, node["name"]
        labels = self.there[name].labels
        expect(not self.there[name].fargate or not classes, "PL-39", name, "a Fargate node takes no other pod")
        used = resources(node.get("used"))
        add(used, resources(node.get("daemonRequests")))
        for cls in classes:
            add(used, cls.requests)
            taint = cls.tolerates(node.get("taints") or [])
            expect(taint is None, "PL-39", name, f"its taint {taint} is not tolerated")
            expect(_holds(cls.filter, labels), "PL-39", name, f"the node selection {cls.filter.key} does not hold")
            expect(not cls.volumes or _holds(cls.volumes, labels), "PL-39", name, "a volume is not there")
        room = resources(node.get("allocatable"))
        for resource, amount in used.items():
            bounded = resource in room or not attachable(resource)
            expect(amount <= room.get(resource, 0) or not bounded or not classes, "PL-39", name,
                   f"{resource} {amount}, it has {room.get(resource, 0)}")
        ports = self.there[name].daemon_ports + [p for pod in node.get("pods") or () for p in pod.get("hostPorts") or ()]
        for port in (p for cls in classes for p in cls.ports):
            expect(not any(ports_clash(port, other) for other in ports), "PL-39", name, f"host port {port['port']} is taken twice")
            ports.append(port)


def _holds(node_filter, labels):
    return any(all(surely(op, values, labels.get(key)) for key, op, values in term) for term in node_filter.terms)
