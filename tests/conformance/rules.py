"""Cases of what the CRDs say of NodePools, EC2NodeClasses and NodeClaims: rules, defaults, what is not known."""

import copy

from objects import CLAIMS, POOLS, claim, pool

CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"


def node_class(name, **spec):
    tags = [{"tags": {"karpenter.sh/discovery": "demo"}}]
    whole = {"amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "r", "subnetSelectorTerms": tags, "securityGroupSelectorTerms": tags}
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name},
            "spec": {key: value for key, value in (whole | spec).items() if value is not None}}


def changed(body, path, value):
    """A copy with something else at a path; `None` takes it out."""
    body = copy.deepcopy(body)
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place = body
    for part in way:
        place = place.setdefault(part, {}) if isinstance(part, str) else place[part]
    if value is None:
        place.pop(last, None)
    elif isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return body


def what_makes_no_sense_is_refused_alike(it):
    need = lambda key, operator, *values, **more: {"key": key, "operator": operator, "values": [*values], **more}
    requirements = "spec.template.spec.requirements"
    for number, (path, value) in enumerate((
        ("spec.weight", 101), ("spec.weight", 0), ("spec.weight", "x"), ("spec.template", None), ("spec.template.spec.nodeClassRef", None),
        ("spec.template.spec.nodeClassRef.kind", None), ("spec.template.spec.nodeClassRef.group", ""), (f"{requirements}.0.operator", "Is"),
        (f"{requirements}.0", need("kubernetes.io/hostname", "In", "a")), (f"{requirements}.0", need("x", "Gt", "two")),
        (f"{requirements}.0", need("x", "In")), (f"{requirements}.0", need("x", "In", "a", minValues=2)), (f"{requirements}.0", need("karpenter.sh/nodepool", "In", "a")),
        (f"{requirements}.0", need("-x", "Exists")), ("spec.disruption.consolidateAfter", "soon"), ("spec.disruption.consolidationPolicy", "Never"),
        ("spec.disruption.budgets", [{"nodes": "many"}]), ("spec.disruption.budgets", [{"nodes": "10%", "schedule": "@daily"}]),
        ("spec.disruption.budgets", [{"nodes": "10%", "reasons": ["Whim"]}]), ("spec.template.spec.expireAfter", "1 year"),
        ("spec.template.spec.taints", [{"key": "a", "effect": "Sometimes"}]), ("spec.template.metadata.labels", {"kubernetes.io/hostname": "a"}),
        ("spec.limits", {"cpu": "much"}), ("spec.template.spec.terminationGracePeriod", "x"), ("spec", None),
    )):
        body = changed(changed(pool("rule"), "spec.disruption", {"consolidateAfter": "5s"}), path, value)
        it.do(f"pool {number} {path}", "POST", f"{POOLS}?dryRun=All", body, expect=422)
    for number, (path, value) in enumerate((
        ("role", None), ("amiSelectorTerms", None), ("amiSelectorTerms", []), ("amiSelectorTerms", [{"alias": "gentoo@latest"}]), ("amiFamily", "Gentoo"),
        ("amiSelectorTerms", [{"id": "ami-1"}]), ("subnetSelectorTerms", None), ("subnetSelectorTerms", [{}]), ("role", ""), ("instanceProfile", "p"),
        ("amiSelectorTerms", [{"id": "x"}]), ("amiSelectorTerms", [{"alias": "al2023@latest"}, {"alias": "al2@latest"}]),
        ("subnetSelectorTerms", [{"id": "subnet-1", "tags": {"a": "b"}}]), ("securityGroupSelectorTerms", [{"name": "n", "id": "sg-1"}]),
        ("blockDeviceMappings", [{"ebs": {}}]), ("metadataOptions", {"httpTokens": "maybe"}), ("tags", {"karpenter.sh/nodepool": "x"}),
        ("userData", 5),
    )):
        it.do(f"class {number} {path}", "POST", f"{CLASSES}?dryRun=All", node_class("rule", **{path: value}) if value is not None else changed(node_class("rule"), f"spec.{path}", None), expect=422)
    it.do("claim", "POST", f"{CLAIMS}?dryRun=All", changed(claim("rule"), "spec.nodeClassRef.name", ""), expect=422)


def what_may_not_change_does_not(it):
    it.quiet("POST", POOLS, pool("fixed"))
    reference = {"spec": {"template": {"spec": {"nodeClassRef": {"kind": "Other"}}}}}
    it.do("kind of class", "PATCH", f"{POOLS}/fixed", reference, "merge", expect=422)
    it.quiet("POST", CLAIMS, claim("fixed"))
    it.do("claim's spec", "PATCH", f"{CLAIMS}/fixed", {"spec": {"expireAfter": "1h"}}, "merge", expect=422)
    it.do("claim's status", "PATCH", f"{CLAIMS}/fixed/status", {"status": {"providerID": 5}}, "merge", expect=422)
    it.do("a condition that is none", "PATCH", f"{CLAIMS}/fixed/status", {"status": {"conditions": [{"type": "A"}]}}, "merge", expect=422)
    it.do("a bad patch", "PATCH", f"{POOLS}/fixed", {"spec": {"weight": 1000}}, "merge", expect=422)


def what_is_left_out_is_filled_in(it):
    it.do("pool", "POST", POOLS, pool("defaults"), expect=201)
    it.do("disruption", "POST", POOLS, pool("defaults-2", disruption={"consolidateAfter": "1m", "budgets": [{"nodes": "1"}]}), expect=201)
    it.do("class", "POST", CLASSES, node_class("defaults", metadataOptions={}), expect=201)
    it.do("claim", "POST", CLAIMS, changed(claim("defaults"), "spec.expireAfter", None), expect=201)


def what_is_not_known_is_dropped_or_told_or_refused(it):
    odd = changed(changed(pool("odd"), "spec.colour", "red"), "spec.template.spec.odd", {"a": 1})
    for how in ("Ignore", "Warn", "Strict"):
        it.do(how, "POST", f"{POOLS}?dryRun=All&fieldValidation={how}", odd, expect=400 if how == "Strict" else 201)
    it.do("unsaid", "POST", f"{POOLS}?dryRun=All", odd, expect=201)
    it.do("no such way", "POST", f"{POOLS}?dryRun=All&fieldValidation=Some", odd, only_reason=True)
    maps = f"{it.space()}/configmaps"
    odd = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd"}, "date": {}}
    for how in ("Ignore", "Warn", "Strict"):
        it.do(f"built in, {how}", "POST", f"{maps}?dryRun=All&fieldValidation={how}", odd, expect=400 if how == "Strict" else 201)
    twice = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"odd"},"data":{"a":"1","a":"2"}}'
    it.do("twice", "POST", f"{maps}?dryRun=All&fieldValidation=Strict", text=twice, expect=400)
    it.quiet("POST", POOLS, pool("odd-patched"))
    it.do("patched", "PATCH", f"{POOLS}/odd-patched?fieldValidation=Strict", {"spec": {"colour": "red"}}, "merge", only_reason=True)


CASES = [
    what_makes_no_sense_is_refused_alike, what_may_not_change_does_not, what_is_left_out_is_filled_in,
    what_is_not_known_is_dropped_or_told_or_refused,
]
