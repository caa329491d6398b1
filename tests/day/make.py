"""One day of a cluster, drawn from a seed: manifests and a scenario for `dovetail simulate`.

`python3 tests/day/make.py SEED VARIANT FOLDER` writes them. The same arguments give the same files.
"""

import json
import math
import random
import sys
from pathlib import Path

DAY = 24 * 60
# A dozen families of three architectures' makers: a choice as wide as most users have it, and quick to read.
FAMILIES = ("c6a", "c6i", "c7g", "c7i", "m5", "m6a", "m6i", "m7g", "r6a", "r6i", "r7g", "m7i")
# How each variant differs: settings and gates of the control plane, and what the pool says of disruption.
VARIANTS = {
    "cost": ({}, "{consolidateAfter: 0s}"),
    "fewest-nodes": ({"PACKING_POLICY": "fewest-nodes", "INTERRUPTION": "evict"}, "{consolidateAfter: 0s}"),
    "no-consolidation": ({}, "{consolidationPolicy: WhenEmpty, consolidateAfter: 0s}"),
}

POOL = """apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: default}}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{{alias: al2023@latest}}]
  subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]
  securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  disruption: {disruption}
  template:
    spec:
      expireAfter: Never
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements:
        - {{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}}
        - {{key: kubernetes.io/arch, operator: In, values: [amd64, arm64]}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: gp3, annotations: {{storageclass.kubernetes.io/is-default-class: "true"}}}}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
"""


def container(cpu, memory):
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}]


class Workload:
    """A Deployment or a StatefulSet, with its PodDisruptionBudget."""

    def __init__(self, rng, kind, name, cpu, gib_a_core, peak):
        self.kind, self.name, self.peak = kind, name, peak
        self.cpu, self.memory = cpu, cpu * gib_a_core * 1024 // 1000
        self.phase = rng.uniform(-2, 2)

    def replicas(self, minute, rng):
        """A low at four in the morning, a high at four in the afternoon, more or less."""
        wave = 0.5 - 0.5 * math.cos(2 * math.pi * (minute / 60 - 4 - self.phase) / 24)
        return max(2, round(self.peak * (0.25 + 0.75 * wave) * rng.uniform(0.93, 1.07)))

    def manifest(self, replicas, release):
        labels = {"app": self.name}
        spec = {"containers": container(self.cpu, self.memory)}
        template = {"metadata": {"labels": labels, "annotations": {"example.com/release": str(release)}}, "spec": spec}
        body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        if self.kind == "StatefulSet":
            spec["nodeSelector"] = {"karpenter.sh/capacity-type": "on-demand"}
            claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}}
            body["serviceName"] = self.name
            body["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
        else:
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": labels},
                }
            ]
        return {"apiVersion": "apps/v1", "kind": self.kind, "metadata": {"name": self.name, "namespace": "default"}, "spec": body}

    def budget(self):
        away = 1 if self.kind == "StatefulSet" else "10%"
        spec = {"maxUnavailable": away, "selector": {"matchLabels": {"app": self.name}}}
        return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": self.name, "namespace": "default"}, "spec": spec}


def job(rng, number):
    many, cpu, minutes = rng.randint(15, 60), rng.choice((500, 1000, 2000, 4000)), rng.randint(8, 45)
    spec = {"restartPolicy": "Never", "containers": container(cpu, cpu * rng.choice((2, 4)))}
    template = {"metadata": {"annotations": {"sandbox.dovetail.dev/runs-for": f"{minutes}m"}}, "spec": spec}
    body = {"parallelism": many, "completions": many, "backoffLimit": 100, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"batch-{number}", "namespace": "default"}, "spec": body}


def make(seed, variant, folder):
    """Writes the files; answers the scenario's path."""
    rng = random.Random(seed)
    settings, disruption = VARIANTS[variant]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)

    def write(name, objects):
        (folder / name).write_text("---\n".join(json.dumps(one) + "\n" for one in objects))
        return name

    shapes = [(250, 2), (500, 4), (500, 2), (1000, 2), (1000, 8), (2000, 4)]
    webs = [Workload(rng, "Deployment", f"web-{i}", cpu, gib, 36000 // cpu + rng.randint(0, 20)) for i, (cpu, gib) in enumerate(shapes)]
    sets = [Workload(rng, "StatefulSet", f"store-{i}", cpu, gib, 5) for i, (cpu, gib) in enumerate([(1000, 4), (2000, 8)])]
    now = {web.name: web.replicas(0, rng) for web in webs}
    (folder / "pool.yaml").write_text(POOL.format(disruption=disruption))
    first = [web.manifest(now[web.name], 1) for web in webs] + [one.manifest(one.peak, 1) for one in sets]
    steps, apply = [], ["pool.yaml", write("first.yaml", first + [one.budget() for one in webs + sets])]

    rollouts = {web.name: rng.randint(9 * 60, 18 * 60) for web in webs}
    for web in webs:
        changes = [(30 * half + rng.randint(0, 9), None) for half in range(1, 48)] + [(rollouts[web.name], "rollout")]
        for minute, what in sorted(changes, key=lambda change: change[0]):
            if what:
                name = write(f"{web.name}-rollout.yaml", [web.manifest(now[web.name], 2)])
                steps.append((minute, f"apply: [{name}]"))
            else:
                now[web.name] = web.replicas(minute, rng)
                steps.append((minute, f"scale: {{kind: Deployment, name: {web.name}, replicas: {now[web.name]}}}"))
    for one in sets:
        name = write(f"{one.name}-rollout.yaml", [one.manifest(one.peak, 2)])
        steps.append((rng.randint(10 * 60, 16 * 60), f"apply: [{name}]"))
    for number in range(10):
        name = write(f"batch-{number}.yaml", [job(rng, number)])
        steps.append((rng.randint(30, DAY - 60), f"apply: [{name}]"))
    for _ in range(3):
        steps.append((rng.randint(60, DAY - 30), f"interrupt: {{spot: {rng.choice((10, 20, 30))}%}}"))
    steps.sort(key=lambda step: step[0])
    scenario = "\n".join(
        [
            f"# Drawn by tests/day/make.py from seed {seed}, variant {variant}.",
            "region: us-east-1",
            f"instanceTypes: [{', '.join(family + '.*' for family in FAMILIES)}]",
            f"seed: {seed}",
            f"apply: {json.dumps(apply)}",
            f"settings: {json.dumps(settings)}",
            "featureGates: {SpotToSpotConsolidation: true}",
            "steps:",
            *(f"  - {{at: {minute}m, {what}}}" for minute, what in steps),
            "until: 24h",
            "",
        ]
    )
    (folder / "scenario.yaml").write_text(scenario)
    return folder / "scenario.yaml"


def workloads(folder):
    """The workloads of a scenario: kind, name, and what their pods ask for: CPU in thousandths, memory in MiB."""
    for path in sorted(Path(folder).glob("*.yaml")):
        for text in path.read_text().split("---\n"):
            one = json.loads(text) if text.startswith("{") else {"kind": ""}
            if one["kind"] in ("Deployment", "StatefulSet", "Job"):
                asks = one["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
                yield one["kind"], one["metadata"]["name"], int(asks["cpu"][:-1]), int(asks["memory"][:-2])


def shapes(folder):
    """What pods of a scenario ask for: CPU in thousandths, memory in MiB, and the kind of their workload."""
    return list(dict.fromkeys((cpu, memory, kind) for kind, _, cpu, memory in workloads(folder)))


if __name__ == "__main__":
    print(make(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
