"""Cases of how objects end and what hangs on them: finalizers, owners, evictions, scale, binding, nodes, events."""

from objects import CLAIMS, MAPS, POOLS, claim, config_map, pool

NODES = "/api/v1/nodes"
ZERO = "00000000-0000-4000-8000-000000000000"
KEEP = "example.com/keep"


def pod(name, labels=None, **spec):
    """A pod that no scheduler looks at."""
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {"app": "p"}},
        "spec": {"schedulerName": "nobody", "automountServiceAccountToken": False, "containers": [
            {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}], **spec},
    }


def node(name, **metadata):
    """A node without a kubelet."""
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}, **metadata},
        "spec": {"providerID": f"aws:///eu-west-1a/i-{name}"}, "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }


def gone(it, path):
    """Waits until there is no such object."""
    it.until(f"no {path}", lambda: it.side.ask("GET", path).status == 404)


def what_has_a_finalizer_stays_until_it_is_taken_off(it):
    maps = f"{it.space()}/{MAPS}"
    it.quiet("POST", maps, config_map("a", finalizers=[KEEP]))
    told = it.do("deleted", "DELETE", f"{maps}/a", expect=200)
    it.must(told["metadata"]["deletionTimestamp"], "it is told when")
    it.do("deleted again", "DELETE", f"{maps}/a", expect=200)
    it.do("another finalizer", "PATCH", f"{maps}/a", {"metadata": {"finalizers": [KEEP, "example.com/more"]}}, "merge", expect=422)
    it.do("still written", "PATCH", f"{maps}/a", {"data": {"a": "2"}}, "merge", expect=200)
    it.do("taken off", "PATCH", f"{maps}/a", {"metadata": {"finalizers": None}}, "merge", expect=200)
    it.do("gone", "GET", f"{maps}/a", expect=404)
    it.do("made", "POST", CLAIMS, claim("kept", finalizers=["karpenter.sh/termination"]), expect=201)
    it.do("deleted, of ours", "DELETE", f"{CLAIMS}/kept", expect=200)
    it.do("status while it goes", "PATCH", f"{CLAIMS}/kept/status", {"status": {"nodeName": "n"}}, "merge", expect=200)
    it.do("taken off, of ours", "PATCH", f"{CLAIMS}/kept", {"metadata": {"finalizers": []}}, "merge", expect=200)
    it.do("gone, of ours", "GET", f"{CLAIMS}/kept", expect=404)
    it.do("a name that is none", "POST", maps, config_map("b", finalizers=["keep"]), only_reason=True)


def a_deletion_holds_to_its_preconditions(it):
    maps = f"{it.space()}/{MAPS}"
    made = it.quiet("POST", maps, config_map("a"))["metadata"]
    so = lambda **more: {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": more}
    it.do("another uid", "DELETE", f"{maps}/a", so(uid=ZERO), expect=409)
    it.do("another version", "DELETE", f"{maps}/a", so(resourceVersion="1"), expect=409)
    it.do("as it is", "DELETE", f"{maps}/a", so(uid=made["uid"], resourceVersion=made["resourceVersion"]), expect=200)
    made = it.quiet("POST", CLAIMS, claim("pre"))["metadata"]
    it.do("of ours, another uid", "DELETE", f"{CLAIMS}/pre", {"preconditions": {"uid": ZERO}}, expect=409)
    it.do("of ours, another version", "DELETE", f"{CLAIMS}/pre", {"preconditions": {"resourceVersion": "1", "uid": made["uid"]}}, expect=409)
    it.do("of ours", "DELETE", f"{CLAIMS}/pre", {"preconditions": {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}}, expect=200)
    it.do("no such policy", "DELETE", f"{maps}/a", {"propagationPolicy": "Sideways"}, only_reason=True)


def what_is_owned_goes_with_its_owner(it):
    maps = f"{it.space()}/{MAPS}"
    for how in ("Background", "Foreground", "Orphan"):
        low = how.lower()
        owner = it.quiet("POST", maps, config_map(low))["metadata"]
        by = {"apiVersion": "v1", "kind": "ConfigMap", "name": low, "uid": owner["uid"], "blockOwnerDeletion": True}
        it.quiet("POST", maps, config_map(f"{low}-own", ownerReferences=[by]))
        held = config_map(f"{low}-held", ownerReferences=[by], finalizers=[KEEP])
        it.quiet("POST", maps, held)
        it.do(f"{low}: deleted", "DELETE", f"{maps}/{low}", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": how}, expect=200)
        if how == "Orphan":
            gone(it, f"{maps}/{low}")
            it.do("orphaned", "GET", f"{maps}/{low}-own", expect=200, only=["metadata.ownerReferences", "data"])
            it.quiet("PATCH", f"{maps}/{low}-held", {"metadata": {"finalizers": None}}, "merge")
            continue
        gone(it, f"{maps}/{low}-own")
        it.until("marked", lambda: "deletionTimestamp" in it.quiet("GET", f"{maps}/{low}-held")["metadata"])
        it.do(f"{low}: owner while one is held", "GET", f"{maps}/{low}")
        it.quiet("PATCH", f"{maps}/{low}-held", {"metadata": {"finalizers": None}}, "merge")
        gone(it, f"{maps}/{low}-held")
        gone(it, f"{maps}/{low}")
    absent = {"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": ZERO}
    it.quiet("POST", maps, config_map("alone", ownerReferences=[absent]))
    gone(it, f"{maps}/alone")
    owner = it.quiet("POST", POOLS, pool("owner"))["metadata"]
    by = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "owner", "uid": owner["uid"], "blockOwnerDeletion": True}
    it.do("claim of a pool", "POST", CLAIMS, claim("owned", ownerReferences=[by]), expect=201)
    it.do("pool", "DELETE", f"{POOLS}/owner", expect=200)
    gone(it, f"{CLAIMS}/owned")
    it.do("half a reference", "POST", maps, config_map("half", ownerReferences=[{"kind": "X", "name": "y"}]), only_reason=True)


def running(it, space, name, labels, ready=True):
    """A pod that runs, on no node's kubelet's word."""
    it.quiet("POST", f"{space}/pods", pod(name, labels))
    state = "True" if ready else "False"
    it.quiet("PATCH", f"{space}/pods/{name}/status", {"status": {"phase": "Running", "conditions": [
        {"type": "Ready", "status": state}]}}, "strategic")


def budget(name, **spec):
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}


def evictions_keep_to_the_budget(it):
    space = it.space()
    budgets = f"/apis/policy/v1/namespaces/{it.ns}/poddisruptionbudgets"
    evict = lambda label, name, expect=None, **more: it.do(label, "POST", f"{space}/pods/{name}/eviction", {
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": it.ns}, **more}, expect=expect)
    selector = {"matchLabels": {"app": "few"}}
    for name in ("a", "b", "c"):
        running(it, space, name, {"app": "few"})
    it.quiet("POST", budgets, budget("few", minAvailable=2, selector=selector))
    status = lambda: it.quiet("GET", f"{budgets}/few").get("status", {})
    it.until("the budget is counted", lambda: status().get("disruptionsAllowed") == 1)
    it.do("counted", "GET", f"{budgets}/few", only=["spec", "status.currentHealthy", "status.desiredHealthy", "status.expectedPods", "status.disruptionsAllowed", "status.observedGeneration"])
    evict("unknown", "none", 404)
    evict("another uid", "a", 409, deleteOptions={"preconditions": {"uid": ZERO}})
    # What that has spent is given back later.
    it.quiet("DELETE", f"{budgets}/few")
    it.quiet("POST", budgets, budget("few", minAvailable=2, selector=selector))
    it.until("the budget is counted anew", lambda: status().get("disruptionsAllowed") == 1)
    evict("dry", "a", 201, deleteOptions={"dryRun": ["All"]})
    uid = it.quiet("GET", f"{space}/pods/a")["metadata"]["uid"]
    evict("first", "a", 201, deleteOptions={"preconditions": {"uid": uid}})
    gone(it, f"{space}/pods/a")
    it.until("the budget is spent", lambda: status().get("disruptionsAllowed") == 0 and not status().get("disruptedPods"))
    evict("second", "b", 429)
    running(it, space, "waits", {"app": "few"}, ready=False)
    it.quiet("POST", f"{space}/pods", pod("pending", {"app": "few"}))
    evict("pending", "pending", 201)
    it.quiet("POST", budgets, budget("too", maxUnavailable=0, selector=selector))
    evict("two budgets", "b", 500)
    running(it, space, "free", {"app": "free"})
    evict("free", "free", 201)
    it.do("another name", "POST", f"{space}/pods/b/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}}, only_reason=True)
    it.do("no budget", "POST", budgets, budget("both", minAvailable=1, maxUnavailable=1, selector=selector), expect=422)


def a_pod_is_bound_once_and_ends_with_grace(it):
    space = it.space()
    it.quiet("POST", NODES, node("bound"))
    it.do("made", "POST", f"{space}/pods", pod("a"), expect=201, only=["spec", "status", "metadata.labels", "metadata.generation"])
    to = lambda name: {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"apiVersion": "v1", "kind": "Node", "name": name}}
    it.do("bound", "POST", f"{space}/pods/a/binding", to("bound"), expect=201)
    it.do("bound twice", "POST", f"{space}/pods/a/binding", to("bound"), expect=409)
    it.do("is", "GET", f"{space}/pods/a", only=["spec", "status.conditions", "status.phase"])
    it.do("its node is fixed", "PATCH", f"{space}/pods/a", {"spec": {"nodeName": "other"}}, "merge", expect=422, only_reason=True)
    it.do("ends", "DELETE", f"{space}/pods/a", expect=200, only=["metadata.deletionGracePeriodSeconds", "metadata.deletionTimestamp"])
    it.do("ends sooner", "DELETE", f"{space}/pods/a", {"gracePeriodSeconds": 5}, expect=200, only=["metadata.deletionGracePeriodSeconds"])
    it.do("at once", "DELETE", f"{space}/pods/a?gracePeriodSeconds=0", expect=200, only=["kind", "metadata.deletionGracePeriodSeconds"])
    it.do("gone", "GET", f"{space}/pods/a", expect=404)
    it.quiet("POST", f"{space}/pods", pod("b"))
    it.do("unbound goes at once", "DELETE", f"{space}/pods/b", expect=200, only=["metadata.deletionGracePeriodSeconds"])
    it.do("it is gone", "GET", f"{space}/pods/b", expect=404)
    it.do("no container", "POST", f"{space}/pods", pod("c", containers=[]), expect=422)
    it.do("no quantity", "POST", f"{space}/pods", pod("q", containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "much"}}}]), only_reason=True)
    it.do("of an unknown class", "POST", f"{space}/pods", pod("c", priorityClassName="none"), expect=403)
    it.quiet("DELETE", f"{NODES}/bound")


def a_deployment_has_a_scale(it):
    it.space()
    path = f"/apis/apps/v1/namespaces/{it.ns}/deployments"
    it.quiet("POST", path, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "replicas": 0, "selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}}, "spec": pod("d")["spec"]}}})
    it.until("it is looked at", lambda: it.quiet("GET", f"{path}/d").get("status", {}).get("observedGeneration") == 1)
    scale = it.do("read", "GET", f"{path}/d/scale", expect=200)
    scale["spec"]["replicas"] = 2
    scale["metadata"].pop("resourceVersion")
    it.do("put", "PUT", f"{path}/d/scale", scale, expect=200, only=["kind", "apiVersion", "spec"])
    it.do("patched", "PATCH", f"{path}/d/scale", {"spec": {"replicas": 1}}, "merge", expect=200, only=["kind", "spec"])
    it.do("less than nothing", "PATCH", f"{path}/d/scale", {"spec": {"replicas": -1}}, "merge", expect=422)
    it.until("a pod", lambda: len(it.quiet("GET", f"/api/v1/namespaces/{it.ns}/pods")["items"]) == 1)
    it.do("is", "GET", f"{path}/d", only=["spec", "metadata.generation"])
    it.do("of no deployment", "GET", f"{path}/none/scale", expect=404)
    it.do("down", "PATCH", f"{path}/d/scale", {"spec": {"replicas": 0}}, "merge", expect=200, only=["spec"])


def a_node_is_changed_by_whoever_read_it_last(it):
    it.do("made", "POST", NODES, node("n1", finalizers=["karpenter.sh/termination"]), expect=201, only=["metadata.labels", "metadata.finalizers", "spec.providerID", "status.capacity"])
    # As it is made: kube-controller-manager changes taints soon after.
    it.do("tainted", "POST", NODES, node("n2"), expect=201, only=["spec.taints"])
    it.quiet("DELETE", f"{NODES}/n2")
    for _ in range(20):
        now = it.quiet("GET", f"{NODES}/n1")["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": now, "labels": {"a": "b"}}, "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}], "unschedulable": True}}
        if it.side.ask("PATCH", f"{NODES}/n1?", patch, "merge").status == 200:
            break
    it.do("stale", "PATCH", f"{NODES}/n1?", patch | {"metadata": {"resourceVersion": "1"}}, "merge", expect=409)
    it.do("another provider", "PATCH", f"{NODES}/n1", {"spec": {"providerID": "aws:///x/i-1"}}, "merge", expect=422)
    it.do("a taint that is none", "PATCH", f"{NODES}/n1", {"spec": {"taints": [{"key": "t", "effect": "Sometimes"}]}}, "merge", expect=422)
    it.do("a condition", "PATCH", f"{NODES}/n1/status", {"status": {"conditions": [{"type": "Odd", "status": "True"}]}}, "strategic", expect=200, only=["spec.providerID", "status.capacity"])
    it.do("deleted", "DELETE", f"{NODES}/n1", expect=200, only=["kind", "metadata.finalizers", "metadata.deletionGracePeriodSeconds", "metadata.deletionTimestamp"])
    it.do("taken off", "PATCH", f"{NODES}/n1", {"metadata": {"finalizers": None}}, "merge", expect=200, only=["kind"])
    gone(it, f"{NODES}/n1")


def an_event_tells_of_an_object(it):
    events = f"{it.space()}/events"
    one = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": it.ns}, "count": 1, "type": "Normal",
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "message": "m", "reason": "R",
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": it.ns, "uid": ZERO},
        "reportingComponent": "karpenter", "reportingInstance": "d", "source": {"component": "karpenter"},
    }
    it.do("made", "POST", f"{events}?", one, expect=201)
    it.do("again", "POST", f"{events}?", one, expect=409)
    it.do("counted", "PATCH", f"{events}/e?", {"count": 2, "lastTimestamp": "2026-01-01T00:00:05Z"}, "merge", expect=200)
    it.do("of another namespace", "POST", f"{events}?", one | {"metadata": {"name": "f"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}}, only_reason=True)
    it.do("by what it tells of", "GET", f"{events}?fieldSelector=involvedObject.name=p,reason=R", expect=200, only=["kind"])


def a_namespace_takes_what_is_in_it_along(it):
    space = it.space()
    it.quiet("POST", f"{space}/{MAPS}", config_map("a"))
    it.do("deleted", "DELETE", space, expect=200, only=["kind", "status.phase"])
    gone(it, space)
    it.do("gone", "GET", f"{space}/{MAPS}/a", expect=404)


def all_of_a_selection_are_deleted_at_once(it):
    maps = f"{it.space()}/{MAPS}"
    for name, group in (("a", "x"), ("b", "x"), ("c", "y")):
        it.quiet("POST", maps, config_map(name, labels={"g": group}))
    it.do("deleted", "DELETE", f"{maps}?labelSelector=g%3Dx", expect=200, only=["kind"])
    it.do("left", "GET", f"{maps}?labelSelector=g", expect=200)


CASES = [
    what_has_a_finalizer_stays_until_it_is_taken_off, a_deletion_holds_to_its_preconditions, what_is_owned_goes_with_its_owner,
    evictions_keep_to_the_budget, a_pod_is_bound_once_and_ends_with_grace, a_deployment_has_a_scale,
    a_node_is_changed_by_whoever_read_it_last, an_event_tells_of_an_object, a_namespace_takes_what_is_in_it_along,
    all_of_a_selection_are_deleted_at_once,
]
