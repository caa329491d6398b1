"""Small workloads and a naive packer, for trying the checker: one pod after the other on the first node that takes it.

The packer shares no code with the checker. Every node it plans is pinned to a zone, a capacity type and an architecture, so
that its labels are a plain dictionary; topology is counted pod by pod.
"""

import random

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ARCH, CT = "kubernetes.io/arch", "karpenter.sh/capacity-type"
FAMILY, CPU, TYPE = "karpenter.k8s.aws/instance-family", "karpenter.k8s.aws/instance-cpu", "node.kubernetes.io/instance-type"
GPU = "karpenter.k8s.aws/instance-gpu-count"
EBS = "attachable-volumes-csi-ebs.csi.aws.com"
ZONES = ["z-1", "z-2", "z-3"]
UNITS = {"m": 0.001, "": 1, "Mi": 1, "Gi": 1024}


def amount(text):
    """A quantity of these samples as a number: cores, or MiB."""
    digits = text.rstrip("mMGi")
    return float(digits) * UNITS[text[len(digits):]]


def workload(seed=1):
    """Pools, types and pods of every kind the checker knows."""
    rng = random.Random(seed)
    return {"name": f"sample-{seed}", "preferencePolicy": "Respect",
            "wellKnownLabels": [ARCH, CT, ZONE, TYPE, FAMILY, CPU, GPU, "karpenter.sh/nodepool"],
            "nodePools": _pools(), "instanceTypes": list(_types(rng)), "pods": list(_pods(rng)), "existingNodes": _nodes()}


def _nodes():
    """Two nodes beforehand, the second of Fargate; the pods of the app `guest` go on the first."""
    node = {"labels": {ZONE: "z-1", ARCH: "amd64"}, "allocatable": {"cpu": "6", "memory": "16Gi", "pods": "4", EBS: "2"},
            "used": {"cpu": "500m", "pods": "1", EBS: "1"}}
    fargate = dict(node, labels=dict(node["labels"], **{"eks.amazonaws.com/compute-type": "fargate"}))
    return [dict(node, name="there"), dict(fargate, name="fargate")]


def _pools():
    open_ = [{"key": CT, "operator": "In", "values": ["spot", "on-demand"]},
             {"key": CPU, "operator": "Gt", "values": ["1"]}]
    return [
        {"name": "default", "weight": 10, "labels": {"tier": "general"}, "requirements": open_, "limits": {"cpu": "4k"}},
        {"name": "dedicated", "weight": 0, "labels": {"tier": "dedicated"}, "limits": {"cpu": "4k", "nodes": "40"},
         "requirements": [*open_, {"key": FAMILY, "operator": "Exists", "minValues": 3},
                          {"key": "team", "operator": "In", "values": ["red", "blue"]}],
         "taints": [{"key": "dedicated", "value": "yes", "effect": "NoSchedule"},
                    {"key": "soft", "value": "yes", "effect": "PreferNoSchedule"}]},
    ]


def _types(rng):
    for arch, families in (("amd64", ["c6", "m6", "r6", "c7", "m7", "r7", "c8", "m8", "r8"]), ("arm64", ["c6g", "m6g", "r6g", "c7g", "m7g", "r7g", "c8g", "m8g", "r8g"])):
        for family in families:
            ratio = {"c": 2, "m": 4, "r": 8}[family[0]]
            # The newest have no large size.
            for cpu in (1, 2, 4, 8, 16) if "8" not in family else (1, 2, 4, 8):
                base = cpu * (0.04 + 0.001 * ratio + 0.0001 * rng.randrange(10))
                yield _type(f"{family}.{cpu}", arch, family, cpu, ratio * cpu, base, rng)
    yield _type("g5.4", "amd64", "g5", 4, 16, 1.0, rng, gpu=1)


def _type(name, arch, family, cpu, gib, base, rng, gpu=0):
    labels = {ARCH: [arch], FAMILY: [family], CPU: [str(cpu)], TYPE: [name], ZONE: ZONES, CT: ["spot", "on-demand"],
              "kubernetes.io/os": ["linux"], **({GPU: [str(gpu)]} if gpu else {})}
    offers = [{"zone": z, "capacityType": ct, "available": not (cpu == 8 and z == "z-3" and ct == "spot"),
               "price": round(base * (1 if ct == "on-demand" else 0.3 + 0.01 * rng.randrange(8)), 5),
               "requirements": [_in(CT, ct), _in(ZONE, z)]} for z in ZONES for ct in ("spot", "on-demand")]
    return {"name": name, "requirements": [{"key": k, "operator": "In", "values": v} for k, v in labels.items()], "offerings": offers,
            "capacity": {"cpu": str(cpu), "memory": f"{gib}Gi", "pods": "24", **({"nvidia.com/gpu": str(gpu)} if gpu else {})},
            "attachments": {EBS: "3"}, "overhead": {"kubeReserved": {"cpu": "80m", "memory": "300Mi"}, "evictionThreshold": {"memory": "100Mi"}}}


def _in(key, *values):
    return {"key": key, "operator": "In", "values": list(values)}


def _pods(rng):
    kinds = [
        ("plain", 8, {}), ("beside", 3, {"affinity": {"podAffinity": _need(("plain", HOST))}}),
        ("arm", 4, {"nodeSelector": {ARCH: "arm64"}}), ("demand", 4, {"nodeSelector": {CT: "on-demand"}}),
        ("either", 4, {"affinity": {"nodeAffinity": _need_nodes([_in(ZONE, "z-9")], [_in(ZONE, "z-2"), {"key": CPU, "operator": "Gt", "values": ["3"]}])}}),
        ("nogpu", 3, {"affinity": {"nodeAffinity": _need_nodes([{"key": GPU, "operator": "DoesNotExist"}, {"key": ZONE, "operator": "NotIn", "values": ["z-1"]}])}}),
        ("team", 4, {"nodeSelector": {"team": "red"}, "tolerations": [{"key": "dedicated", "operator": "Exists"}]}),
        ("zspread", 9, {"topologySpreadConstraints": [_spread("zspread", ZONE)]}),
        ("hspread", 6, {"topologySpreadConstraints": [_spread("hspread", HOST, skew=2)]}),
        ("rollout", 4, {"topologySpreadConstraints": [dict(_spread("rollout", ZONE), matchLabelKeys=["rev"], minDomains=3)]}),
        ("together", 5, {"affinity": {"podAffinity": _need(("together", ZONE))}}),
        ("apart", 5, {"affinity": {"podAntiAffinity": _need(("apart", HOST))}}),
        ("zapart", 3, {"affinity": {"podAntiAffinity": _need(("zapart", ZONE))}}),
        ("keepoff", 2, {"affinity": {"podAntiAffinity": _need(("arm", HOST))}, "nodeSelector": {ARCH: "arm64"}}),
        ("gpu", 1, {}), ("huge", 1, {}),
        ("disk", 3, {"volumeTopology": [[_in("topology.ebs.csi.aws.com/zone", "z-2")]]}), ("many", 5, {}),
        ("proxy", 2, {"hostPorts": [{"port": 80}]}),
        ("blocked", 1, {"blocked": "PersistentVolumeClaim default/data is not there"}), ("guest", 2, {}), ("later", 2, {"toCome": True}),
    ]
    for app, count, fields in kinds:
        size = {"cpu": rng.choice(["500m", "1", "250m"]), "memory": rng.choice(["512Mi", "1Gi", "2Gi"])}
        size.update({EBS: "1"} if app in ("disk", "many") else {})
        size = {"gpu": {"cpu": "1", "nvidia.com/gpu": "1"}, "huge": {"cpu": "64"}}.get(app, size)
        for i in range(count):
            yield {"name": f"{app}-{i}", "namespace": "default", "uid": f"{app}-{i}-uid", "labels": {"app": app, "rev": str(i % 2)},
                   "requests": size, **fields}


def _need_nodes(*terms):
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": t} for t in terms]}}


def _need(*terms):
    return {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key} for app, key in terms]}


def _spread(app, key, skew=1):
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}


class Node:
    """A planned node: fixed labels, its pods and what still can carry them."""

    def __init__(self, pool, labels, number, types):
        self.pool, self.labels, self.pods, self.types = pool, dict(labels, **{HOST: f"node-{number}"}), [], types

    def fitting(self, extra=()):
        pods = [*self.pods, *extra]
        need = {r: sum(amount(p["requests"].get(r, "0")) for p in pods) for r in {r for p in pods for r in p["requests"]}}
        return [t for t in self.types if len(pods) <= int(t["capacity"]["pods"]) and all(n <= _room(t, r) + 1e-9 for r, n in need.items())]


def _room(kind, resource):
    if resource in kind["attachments"]:
        return amount(kind["attachments"][resource])
    have = amount(kind["capacity"].get(resource, "0"))
    return have - sum(amount(part.get(resource, "0")) for part in kind["overhead"].values())


def _label(kind, key):
    return next((r["values"][0] for r in kind["requirements"] if r["key"] == key), None)


def _offer(kind, node):
    return next((o for o in kind["offerings"] if o["available"] and (o["zone"], o["capacityType"]) == (node.labels[ZONE], node.labels[CT])), None)


class Packer:
    """Packs a sample, naively."""

    def __init__(self, sample):
        self.sample, self.nodes, self.left, self.guests = sample, [], {}, []

    def pack(self):
        for pod in self.sample["pods"]:
            if pod.get("toCome"):
                continue
            if pod["labels"]["app"] == "guest":
                self.guests.append(pod["name"])
                continue
            if "blocked" in pod:
                self.left[pod["name"]] = pod["blocked"]
                continue
            node = next((n for n in self.nodes if self.takes(n, pod)), None) or self.open(pod)
            if node:
                node.pods.append(pod)
            else:
                self.left[pod["name"]] = "no instance type holds it"
        return self.plan()

    def open(self, pod):
        for pool in self.sample["nodePools"]:
            for ct in ("spot", "on-demand"):
                for arch in ("amd64", "arm64"):
                    for zone in ZONES:
                        for gpu in (False, True):
                            node = self.fresh(pool, ct, arch, zone, gpu)
                            if self.takes(node, pod):
                                self.nodes.append(node)
                                return node
        return None

    def fresh(self, pool, ct, arch, zone, gpu):
        labels = {CT: ct, ARCH: arch, ZONE: zone, **pool["labels"], **({GPU: "1"} if gpu else {}),
                  **({"team": "red"} if pool["name"] == "dedicated" else {})}
        node = Node(pool, labels, len(self.nodes), [])
        node.types = [t for t in self.sample["instanceTypes"] if _label(t, ARCH) == arch and int(_label(t, CPU)) > 3
                      and bool(_label(t, GPU)) == gpu and _offer(t, node)]
        return node

    def takes(self, node, pod):
        return (all(t["effect"] == "PreferNoSchedule" or any(o["key"] == t["key"] for o in pod.get("tolerations", ())) for t in node.pool.get("taints", ()))
                and all(node.labels.get(k) == v for k, v in pod.get("nodeSelector", {}).items())
                and all(node.labels[ZONE] in e["values"] for place in pod.get("volumeTopology", ()) for e in place)
                and not any(pod.get("hostPorts") and p.get("hostPorts") for p in node.pods)
                and self.node_affinity(node, pod) and len(node.pods) < 12 and self.wide(node, pod) and self.between(node, pod))

    @staticmethod
    def wide(node, pod):
        """Whether the node holds one more pod, and so that a spot node is left 15 types of 5 families."""
        types = node.fitting([pod])
        alone = not node.pods or node.labels[CT] != "spot" or pod["labels"]["app"] == "beside"
        return bool(types) and (alone or len(types) >= 15 and len({_label(t, FAMILY) for t in types}) >= 5)

    @staticmethod
    def node_affinity(node, pod):
        terms = pod.get("affinity", {}).get("nodeAffinity")
        if not terms:
            return True
        def one(e):
            have = node.labels.get(e["key"])
            return {"In": have in e.get("values", ()), "NotIn": have not in e.get("values", ()), "DoesNotExist": have is None, "Gt": e["key"] == CPU}[e["operator"]]
        return any(all(map(one, t["matchExpressions"])) for t in terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"])

    def between(self, node, pod):
        affinity = pod.get("affinity", {})
        for term in affinity.get("podAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", ()):
            found = [n for n in self.nodes for p in n.pods if _matches(term, p)]
            if not any(n.labels[term["topologyKey"]] == node.labels[term["topologyKey"]] for n in found) and (found or not _matches(term, pod)):
                return False
        for other in self.nodes:
            for there in other.pods:
                if any(_collide(node, other, t, w) for t, w in [(t, there) for t in _anti(pod)] + [(t, pod) for t in _anti(there)]):
                    return False
        return all(self.spread(node, pod, c) for c in pod.get("topologySpreadConstraints", ()))

    def spread(self, node, pod, rule):
        key = rule["topologyKey"]
        counts = {} if key == HOST else {z: 0 for z in ZONES}
        for n in self.nodes:
            for p in n.pods:
                if _matches(rule, p) and all(p["labels"][k] == pod["labels"][k] for k in rule.get("matchLabelKeys", ())):
                    counts[n.labels[key]] = counts.get(n.labels[key], 0) + 1
        return counts.get(node.labels[key], 0) + 1 - (0 if key == HOST else min(counts.values())) <= rule["maxSkew"]

    def plan(self):
        claims = [self.claim(n) for n in self.nodes]
        out = {"workload": self.sample["name"], "pods": sum(not p.get("toCome") for p in self.sample["pods"]), "solveMs": 1.0, "loadMs": 1.0, "wallMs": 2.0,
               "unscheduled": self.left, "peakRssKiB": 1, "nodeClaims": claims,
               "existingNodes": [{"name": "there", "podNames": self.guests}]}
        return bill(self.sample, out)

    def claim(self, node):
        arch = any(ARCH in p.get("nodeSelector", {}) for p in node.pods)
        cpu = 3 if any(p["labels"]["app"] == "either" for p in node.pods) else 1
        node.types = [t for t in self.sample["instanceTypes"] if (not arch or _label(t, ARCH) == node.labels[ARCH]) and int(_label(t, CPU)) > cpu
                      and bool(_label(t, GPU)) == (GPU in node.labels) and _offer(t, node)]
        reqs = [_in(k, v) for k, v in sorted(node.labels.items()) if k not in (HOST, GPU) and (k != ARCH or arch)]
        reqs += [{k: v for k, v in r.items() if k != "minValues"} for r in node.pool["requirements"] if r["key"] in (CPU, FAMILY)]
        if cpu > 1:
            reqs.append({"key": CPU, "operator": "Gte", "values": [str(cpu + 1)]})
        if GPU in node.labels:
            reqs.append(_in(GPU, "1"))
        return {"nodePool": node.pool["name"], "podNames": [p["name"] for p in node.pods], "requirements": reqs,
                "requests": total(node.pods), "instanceTypeOptions": _keep([(_offer(t, node)["price"], t) for t in node.fitting()])}


def _keep(priced):
    """The cheapest types: all within 1.25 of the cheapest, and on until there are 15 of 5 families, as long as none costs more
    than 1.5 times the cheapest and the mean no more than 1.25 times."""
    kept, total = [], 0
    for price, kind in sorted(priced, key=lambda p: (p[0], p[1]["name"])):
        families, cheapest = {_label(k, FAMILY) for k in kept}, cheapest if kept else price
        varied = len(kept) < 15 or len(families) < 5 and _label(kind, FAMILY) not in families
        affordable = price <= 1.5 * cheapest and total + price <= 1.25 * cheapest * (len(kept) + 1)
        if price <= 1.25 * cheapest or varied and affordable:
            kept.append(kind)
            total += price
    return [k["name"] for k in kept]


def total(pods):
    """The requests of a claim, as strings."""
    cpu = round(1000 * sum(amount(p["requests"].get("cpu", "0")) for p in pods))
    memory = round(sum(amount(p["requests"].get("memory", "0")) for p in pods))
    gpus = sum(int(p["requests"].get("nvidia.com/gpu", "0")) for p in pods)
    return {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": str(len(pods)), **({"nvidia.com/gpu": str(gpus)} if gpus else {})}


def offers(sample, claim, name):
    """The available offerings of a type that a claim's zones and capacity types leave."""
    kind = next(t for t in sample["instanceTypes"] if t["name"] == name)
    allowed = {r["key"]: r["values"] for r in claim["requirements"] if r["operator"] == "In"}
    return [o for o in kind["offerings"] if o["available"] and o["zone"] in allowed.get(ZONE, ZONES)
            and o["capacityType"] in allowed.get(CT, ["spot", "on-demand"])]


def bill(sample, plan):
    """Sorts the options and fills prices, counts and totals from the rest of a plan."""
    mean = 0.0
    for claim in plan["nodeClaims"]:
        best = {n: min(offers(sample, claim, n), key=lambda o: o["price"]) for n in claim["instanceTypeOptions"]}
        claim["instanceTypeOptions"].sort(key=lambda n: best[n]["price"])
        first = claim["instanceTypeOptions"][0]
        claim.update(cheapestType=first, cheapestZone=best[first]["zone"], cheapestCapacityType=best[first]["capacityType"], price=best[first]["price"])
        mean += sum(o["price"] for o in best.values()) / len(best)
    plan["scheduledPods"] = sum(len(c["podNames"]) for c in plan["nodeClaims"] + plan["existingNodes"])
    plan["numNodeClaims"] = len(plan["nodeClaims"])
    plan["totalCheapestHourlyPrice"] = sum(c["price"] for c in plan["nodeClaims"])
    plan["expectedHourlyPrice"] = mean
    return plan


def _matches(rule, pod):
    return all(pod["labels"].get(k) == v for k, v in rule["labelSelector"]["matchLabels"].items())


def _anti(pod):
    return pod.get("affinity", {}).get("podAntiAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", ())


def _collide(node, other, term, target):
    return _matches(term, target) and node.labels[term["topologyKey"]] == other.labels[term["topologyKey"]]
