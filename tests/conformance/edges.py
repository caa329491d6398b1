"""Cases of what clients write without meaning it, and of values at the edge of their form: nulls, managedFields, times, integers
written as fractions, quantities, budgets beyond what fits."""

import copy

from lives import node, pod
from objects import CLAIMS, MAPS, POOLS, claim, config_map, pool
from rules import CLASSES, changed, node_class

LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
    "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "d"}}, "template": {
        "metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}},
}
BUDGET = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "none"}}}}


def dry(path):
    return f"{path}?dryRun=All"


def nulls_are_as_good_as_nothing(it):
    maps = f"{it.space()}/{MAPS}"
    nulls = {"labels": None, "annotations": None, "finalizers": None, "ownerReferences": None, "managedFields": None, "creationTimestamp": None}
    it.do("of a map", "POST", maps, config_map("a", **nulls), expect=201)
    it.do("a member of a map", "POST", dry(maps), config_map("b", {"a": None}), only_reason=True)
    it.do("a label", "POST", dry(maps), config_map("b", labels={"a": None}), only_reason=True)
    it.do("an annotation", "POST", dry(maps), config_map("b", annotations={"a": None}), only_reason=True)
    body = changed(DEPLOYMENT, "spec.template.metadata.creationTimestamp", 0)
    for path in ("spec.template.metadata.creationTimestamp", "spec.strategy", "spec.template.spec.affinity", "spec.template.spec.tolerations",
                 "spec.template.spec.containers.0.resources", "status", "spec.template.spec.volumes", "spec.replicas"):
        place = body
        *way, last = path.split(".")
        for part in way:
            place = place[int(part)] if part.isdigit() else place.setdefault(part, {})
        place[last] = None
    it.do("of a deployment", "POST", dry(f"/apis/apps/v1/namespaces/{it.ns}/deployments"), body, expect=201, only=["spec"])
    it.do("of a pool", "POST", POOLS, pool("nulls", weight=None, limits=None, disruption=None) | {"status": None}, only_reason=True)
    it.do("of a pool's template", "POST", dry(POOLS), changed(pool("nulls-2"), "spec.template", pool("x")["spec"]["template"] | {"metadata": None}), only_reason=True)
    for member in ("taints", "startupTaints", "expireAfter", "terminationGracePeriod", "requirements"):
        body = copy.deepcopy(pool("nulls-3"))
        body["spec"]["template"]["spec"][member] = None
        it.do(f"a pool's {member}", "POST", dry(POOLS), body, only_reason=True)
    for member in ("tags", "kubelet", "userData", "metadataOptions", "instanceProfile", "blockDeviceMappings", "role"):
        body = node_class("nulls-4")
        body["spec"][member] = None
        it.do(f"a class's {member}", "POST", dry(CLASSES), body, only_reason=True)
    it.do("of a claim", "POST", dry(CLAIMS), changed(claim("nulls-5", **nulls), "spec", claim("x")["spec"] | {"taints": None, "resources": None}), only_reason=True)
    it.do("of a claim's resources", "POST", dry(CLAIMS), changed(claim("nulls-6"), "spec.resources", {"requests": None}), only_reason=True)
    it.do("a null among items", "POST", dry(POOLS), changed(pool("nulls-7"), "spec.template.spec.requirements", [None]), only_reason=True)
    it.do("a null among values", "POST", dry(POOLS), changed(pool("nulls-8"), "spec.template.spec.requirements.0.values", [None]), only_reason=True)
    it.do("merged into a pool", "PATCH", f"{POOLS}/nulls", {"spec": {"weight": None, "limits": {"cpu": None}}}, "merge", only_reason=True)


def managed_fields_that_clients_write_are_taken_or_dropped(it):
    maps = f"{it.space()}/{MAPS}"
    own = lambda **more: {"manager": "helm", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:a": {}}}} | more
    it.do("as they were read", "POST", maps, config_map("a", managedFields=[own()]), only_reason=True)
    for label, entry in (
        ("no type", own(fieldsType=None)), ("another type", own(fieldsType="FieldsV2")), ("no operation", own(operation=None)),
        ("another operation", own(operation="Guess")), ("no manager", own(manager=None)), ("a time that is none", own(time="noon")),
        ("fields that are a list", own(fieldsV1=[])), ("fields that make no sense", own(fieldsV1={"x:data": {}})), ("no fields", own(fieldsV1=None)),
        ("an empty entry", {}), ("another version", own(apiVersion="v9")), ("a subresource", own(subresource="status")), ("a null", None),
    ):
        it.do(label, "POST", dry(maps), config_map("b", managedFields=[entry]), only_reason=True)
    for name, list_of in (("none", []), ("an-empty-one", [{}]), ("a-null", [None]), ("an-odd-one", [own(fieldsV1=[])])):
        it.quiet("POST", maps, config_map(name))
        it.do(f"put with {name}", "PUT", f"{maps}/{name}", config_map(name, {"b": "2"}, managedFields=list_of), only_reason=True)
        it.quiet("POST", maps, config_map(f"m-{name}"))
        it.do(f"merged with {name}", "PATCH", f"{maps}/m-{name}", {"metadata": {"managedFields": list_of}, "data": {"b": "2"}}, "merge", only_reason=True)
    it.quiet("POST", maps, config_map("nulled"))
    it.do("merged with a null", "PATCH", f"{maps}/nulled", {"metadata": {"managedFields": None}, "data": {"b": "2"}}, "merge", only_reason=True)
    it.do("put without", "PUT", f"{maps}/nulled", config_map("nulled", {"c": "3"}), only_reason=True)
    it.do("of ours", "POST", POOLS, pool("managed") | {"metadata": {"name": "managed", "managedFields": [own(apiVersion="karpenter.sh/v1", fieldsV1={"f:spec": {"f:weight": {}}})]}}, only_reason=True)


def times_have_one_form(it):
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{it.ns}/leases"
    maps = f"{it.space()}/{MAPS}"
    it.quiet("POST", leases, LEASE)
    for number, when in enumerate((
        "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00.000000+02:00",
        "2026-01-01T00:00:00.9999999Z", "2026-01-01t00:00:00.000000z", "2026-01-01 00:00:00Z", "2026-01-01T00:00:00", "2026-01-01", "noon", "", 5, None,
        "2026-02-30T00:00:00.000000Z", "2026-01-01T24:00:00.000000Z", "2026-01-01T00:00:60.000000Z", "0001-01-01T00:00:00.000000Z",
        "9999-12-31T23:59:59.999999Z", "10000-01-01T00:00:00.000000Z", "1969-12-31T23:59:59.000000Z", "2026-1-1T00:00:00.000000Z", "2026-01-01T00:00:00.000000+14:00",
        "2026-01-01T00:00:00.000000+25:00", "2026-01-01T00:00:00,5Z",
    )):
        it.do(f"of a Lease {number} {when}", "PATCH", dry(f"{leases}/l"), {"spec": {"renewTime": when}}, "merge", only_reason=True, only=["spec"])
    for number, when in enumerate((
        "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "2026-01-01T02:00:00+02:00", "2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00", "2026-01-01",
        "tomorrow", "", 5, None, "2026-13-01T00:00:00Z", "0000-01-01T00:00:00Z", "2026-01-01T00:00:60Z",
    )):
        taint = {"spec": {"taints": [{"key": "a", "effect": "NoExecute", "timeAdded": when}]}}
        it.do(f"of a taint {number} {when}", "POST", dry("/api/v1/nodes"), node("edges") | taint, only_reason=True, only=["metadata.name"])
        it.do(f"of creation {number} {when}", "POST", dry(maps), config_map("a", creationTimestamp=when), only_reason=True, only=["metadata.name"])
    it.quiet("POST", CLAIMS, claim("times"))
    for number, when in enumerate(("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "2026-01-01T02:00:00+02:00", "2026-01-01", "noon", "", None, 5, "2026-02-30T00:00:00Z")):
        condition = {"status": {"conditions": [{"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": when}]}}
        it.do(f"of a claim's condition {number} {when}", "PATCH", dry(f"{CLAIMS}/times/status"), condition, "merge", only_reason=True, only=["status"])


def a_whole_number_may_be_written_as_a_fraction(it):
    it.space()
    deployments = f"/apis/apps/v1/namespaces/{it.ns}/deployments"
    for number, text in enumerate(("5.0", "5", "5e0", "0.5e1", "5.5", "-1", "-0", "2147483647", "2147483648", "1e3", "99999999999999999999", '"5"', "true", "null", "5.00000000000000000001")):
        body = '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":%s,"selector":{"matchLabels":{"app":"d"}},"template":{"metadata":{"labels":{"app":"d"}},"spec":{"containers":[{"name":"a","image":"a:1"}]}}}}' % text
        it.do(f"replicas {number} {text}", "POST", dry(deployments), text=body, only_reason=True, only=["spec.replicas"])
        body = '{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"m"},"spec":{"leaseDurationSeconds":%s}}' % text
        it.do(f"lease {number} {text}", "POST", dry(f"/apis/coordination.k8s.io/v1/namespaces/{it.ns}/leases"), text=body, only_reason=True, only=["spec"])
        body = '{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"n"},"spec":{"weight":%s,"template":{"spec":{"nodeClassRef":{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"x"},"requirements":[]}}}}' % text
        it.do(f"weight {number} {text}", "POST", dry(POOLS), text=body, only_reason=True, only=["spec.weight"])
        body = '{"spec":{"weight":%s}}' % text
        if number == 0:
            it.quiet("POST", POOLS, pool("whole"))
        it.do(f"weight merged {number} {text}", "PATCH", dry(f"{POOLS}/whole"), kind="merge", text=body, only_reason=True, only=["spec.weight"])


def quantities_have_one_form(it):
    space = it.space()
    for number, amount in enumerate((
        "1", 1, 1.5, "1.0", "1500m", "1e3", "1E3", "1.5Gi", "0.1m", "100n", "1u", "-1", "-100m", "0", "+1", " 1", "1 ", "", "x", "1Kib", "1ki", "1K", ".5", "5.", "1e", "0x10", "1_000",
        "9223372036854775807", "9223372036854775808", "1E", "9Ei", "1e30", "1e-30", True, None, "0.0000000001", "١",
    )):
        body = pod("p", containers=[{"name": "c", "image": "i:1", "resources": {"requests": {"memory": amount}}}])
        it.do(f"memory {number} {amount!r}", "POST", dry(f"{space}/pods"), body, only_reason=True, only=["spec.containers"])
        body = pod("p", containers=[{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": amount}}}])
        it.do(f"cpu {number} {amount!r}", "POST", dry(f"{space}/pods"), body, only_reason=True, only=["spec.containers"])
        it.do(f"limit {number} {amount!r}", "POST", dry(POOLS), pool("q", limits={"cpu": amount}), only_reason=True, only=["spec.limits"])
        body = changed(claim("q"), "spec.resources", {"requests": {"cpu": amount}})
        it.do(f"claim {number} {amount!r}", "POST", dry(CLAIMS), body, only_reason=True, only=["spec.resources"])
        it.do(f"node {number} {amount!r}", "POST", dry("/api/v1/nodes"), changed(node("q"), "status.capacity.memory", amount if amount is not None else "x"), only_reason=True, only=["status.capacity"])
    for label, resources in (
        ("more than its limit", {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}), ("half a pod's GPU", {"limits": {"nvidia.com/gpu": "500m"}}),
        ("a device requested alone", {"requests": {"nvidia.com/gpu": "1"}}), ("devices apart", {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}),
        ("half an extended", {"requests": {"example.com/x": "1500m"}, "limits": {"example.com/x": "1500m"}}), ("no name", {"requests": {"": "1"}}),
        ("a name that is none", {"requests": {"foo": "1"}}), ("hugepages alone", {"requests": {"hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}}),
        ("hugepages apart", {"requests": {"hugepages-2Mi": "2Mi", "cpu": "1"}, "limits": {"hugepages-2Mi": "4Mi"}}),
    ):
        body = pod("p", containers=[{"name": "c", "image": "i:1", "resources": resources}])
        it.do(label, "POST", dry(f"{space}/pods"), body, only_reason=True, only=["spec.containers"])


def budgets_have_their_bounds(it):
    it.space()
    budgets = f"/apis/policy/v1/namespaces/{it.ns}/poddisruptionbudgets"
    for number, text in enumerate(("0", "1", "-1", "2147483647", "2147483648", "9223372036854775807", "1.0", "1.5", "1e3", '"50%"', '"100%"', '"101%"', '"1000%"', '"-1%"', '"5.5%"', '"5"', '"x"', '""', "null", "true")):
        for member in ("minAvailable", "maxUnavailable"):
            body = '{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"b"},"spec":{"selector":{},"%s":%s}}' % (member, text)
            it.do(f"{member} {number} {text}", "POST", dry(budgets), text=body, only_reason=True, only=["spec"])
    both = changed(changed(BUDGET, "spec.minAvailable", 1), "spec.maxUnavailable", 1)
    it.do("both", "POST", dry(budgets), both, only_reason=True)
    it.do("neither", "POST", dry(budgets), BUDGET, only_reason=True, only=["spec"])
    it.do("no selector", "POST", dry(budgets), {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"minAvailable": 1}}, only_reason=True, only=["spec"])
    it.do("no spec", "POST", dry(budgets), {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}, only_reason=True, only=["spec"])
    it.do("an odd selector", "POST", dry(budgets), changed(BUDGET, "spec.selector", {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}), only_reason=True)
    it.do("a policy that is none", "POST", dry(budgets), changed(changed(BUDGET, "spec.minAvailable", 1), "spec.unhealthyPodEvictionPolicy", "Never"), only_reason=True)


CASES = [
    nulls_are_as_good_as_nothing, managed_fields_that_clients_write_are_taken_or_dropped, times_have_one_form,
    a_whole_number_may_be_written_as_a_fraction, quantities_have_one_form, budgets_have_their_bounds,
]
