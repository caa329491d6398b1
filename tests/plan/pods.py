"""Pods grouped by what scheduling can see of them, and the rules that concern one pod and one node."""

import copy
import json

from requirements import norm, possibly, resources, surely


class PodClass:
    """Pods that are equal in namespace, labels, requests and every constraint."""

    def __init__(self, index, raw):
        self.index, self.standing = index, False
        self.namespace = raw.get("namespace") or "default"
        self.labels = raw.get("labels") or {}
        self.requests = dict(resources(raw.get("requests")), pods=1)
        self.tolerations = raw.get("tolerations") or []
        affinity = raw.get("affinity") or {}
        self.filter = NodeFilter(raw.get("nodeSelector"), affinity.get("nodeAffinity"))
        self.volumes = volume_filter(_places(raw))
        self.blocked, self.to_come = raw.get("blocked"), bool(raw.get("toCome"))
        self.ports, self.priority = raw.get("hostPorts") or [], raw.get("priority") or 0
        self.preferred = [k for k, v in affinity.items() if v and v.get("preferredDuringSchedulingIgnoredDuringExecution")]
        self.preferred += [c for c in raw.get("topologySpreadConstraints") or () if c.get("whenUnsatisfiable") == "ScheduleAnyway"]
        self.spread = [c for c in raw.get("topologySpreadConstraints") or ()
                       if c.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]
        self.affinity = _required(affinity.get("podAffinity"))
        self.anti = _required(affinity.get("podAntiAffinity"))

    @classmethod
    def there(cls, index, raw):
        """A pod that stands on a node already: it binds others and is itself bound by nothing any more."""
        one = cls(index, raw)
        one.standing, one.spread, one.affinity = True, [], []
        return one

    def tolerates(self, taints):
        """The first taint that keeps the pod off a node, or None."""
        return next((t for t in taints if t.get("effect") in ("NoSchedule", "NoExecute")
                     and not any(tolerated(t, o) for o in self.tolerations)), None)


class NodeFilter:
    """nodeSelector and required node affinity: terms are alternatives, expressions of a term hold together."""

    def __init__(self, selector, affinity):
        base = [(norm(k), "In", [v]) for k, v in sorted((selector or {}).items())]
        required = (affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        if required is None:
            self.terms = [base]
        else:
            self.terms = [base + t for t in map(_expressions, required.get("nodeSelectorTerms") or ()) if t]
        self.key = json.dumps(self.terms)

    def first(self, count):
        """The filter of the first alternatives only."""
        out = copy.copy(self)
        out.terms, out.key = self.terms[:count], json.dumps(self.terms[:count])
        return out

    def holds(self, view, offering, test=surely):
        """Whether a pod may run on every node (`surely`) or on some node (`possibly`) this offering can become."""
        return any(all(test(op, values, view.state(key, offering.labels)) for key, op, values in term) for term in self.terms)


def _places(raw):
    """Places of a pod's volumes; for one that may be on no spot node (`offSpot`), each without spot."""
    places = raw.get("volumeTopology") or []
    if not raw.get("offSpot"):
        return places
    no_spot = {"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]}
    return [[*place, no_spot] for place in places or [[]]]


def volume_filter(places):
    """PersistentVolumes' node affinity: the node has to meet one of the places; None without volumes."""
    if not places:
        return None
    terms = [{"matchExpressions": place} for place in places]
    return NodeFilter(None, {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}})


def ports_clash(a, b):
    """Whether two host ports exclude each other: port and protocol, and the same address or one of them every address."""
    every = ("", "0.0.0.0", "::")
    ips = (a.get("ip") or "", b.get("ip") or "")
    return (a["port"], a.get("protocol") or "TCP") == (b["port"], b.get("protocol") or "TCP") and \
        (ips[0] == ips[1] or ips[0] in every or ips[1] in every)


def matching_types(node_filter, view, test=surely):
    """The names of the types of a view all of whose offerings (`surely`), or any of them (`possibly`), pass a node filter."""
    memo = view.memo
    if (node_filter.key, test) not in memo:
        every = all if test is surely else any
        memo[node_filter.key, test] = frozenset(
            k.name for k in view.catalogue.types.values()
            if view.nodes(k) and every(node_filter.holds(view, o, test) for o in view.nodes(k)))
    return memo[node_filter.key, test]


def tolerated(taint, toleration):
    """The Kubernetes rule: effect empty matches every effect, key empty with Exists every taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return bool(toleration.get("key")) and operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or "")


def selects(selector, labels):
    """Whether a label selector matches: nil matches nothing, the empty one everything."""
    if selector is None:
        return False
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    for e in selector.get("matchExpressions") or ():
        value, op = labels.get(e["key"]), e["operator"]
        known = value in (e.get("values") or ())
        if not {"In": known, "NotIn": value is None or not known, "Exists": value is not None, "DoesNotExist": value is None}[op]:
            return False
    return True


def with_label_keys(selector, match, mismatch, labels):
    """A selector with matchLabelKeys and mismatchLabelKeys filled from the pod's own labels."""
    extra = [{"key": k, "operator": op, "values": [labels[k]]}
             for keys, op in ((match, "In"), (mismatch, "NotIn")) for k in keys or () if k in labels]
    if selector is None or not extra:
        return selector
    return dict(selector, matchExpressions=(selector.get("matchExpressions") or []) + extra)


def group(workload):
    """(classes, {pod name: class})."""
    classes, by_key, of = [], {}, {}
    for raw in workload["pods"]:
        key = json.dumps({k: v for k, v in raw.items() if k not in ("name", "uid")}, sort_keys=True)
        if key not in by_key:
            by_key[key] = PodClass(len(classes), raw)
            classes.append(by_key[key])
        of[raw["name"]] = by_key[key]
    return classes, of


def _required(affinity):
    return (affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or []


def _expressions(term):
    fields = [("metadata.name", e["operator"], e.get("values") or []) for e in term.get("matchFields") or ()]
    return fields + [(norm(e["key"]), e["operator"], e.get("values") or []) for e in term.get("matchExpressions") or ()]
