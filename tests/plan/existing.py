"""Existing nodes of a workload and the pods that a plan puts on them (`existingNodes` of the answer)."""

from catalogue import HOST, attachable
from pods import ports_clash
from requirements import Req, add, norm, resources, surely


class Existing:
    """Checks, node by node: room, taints, node selection, volumes, host ports; and that nothing is put on Fargate."""

    def __init__(self, report, workload):
        self.report = report
        self.nodes = {n["name"]: n for n in workload.get("existingNodes") or ()}

    @staticmethod
    def nodes_of(plan):
        """[(pod, node)] of all pods that the plan puts on existing nodes."""
        return [(pod, entry["name"]) for entry in plan.get("existingNodes") or () for pod in entry["podNames"]]

    def check(self, plan, class_of):
        for entry in plan.get("existingNodes") or ():
            node = self.nodes.get(entry["name"])
            if self.report.expect(node, "PL-39", entry["name"], "no such node"):
                self._node(node, [class_of[n] for n in entry["podNames"] if n in class_of])

    def _node(self, node, classes):
        expect, name = self.report.expect, node["name"]
        labels = {norm(k): Req(False, [v]) for k, v in (node.get("labels") or {}).items()}
        labels.setdefault(HOST, Req(False, [name]))
        fargate = (node.get("labels") or {}).get("eks.amazonaws.com/compute-type") == "fargate"
        expect(not fargate or not classes, "PL-39", name, "a Fargate node takes no other pod")
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
        ports = [p for pod in node.get("pods") or () for p in pod.get("hostPorts") or ()]
        for port in (p for cls in classes for p in cls.ports):
            expect(not any(ports_clash(port, other) for other in ports), "PL-39", name, f"host port {port['port']} is taken twice")
            ports.append(port)


def _holds(node_filter, labels):
    return any(all(surely(op, values, labels.get(key)) for key, op, values in term) for term in node_filter.terms)
