#!/usr/bin/env python3
"""`dovetail run` with moto as its AWS and the sandbox's API server: what node classes and claims come to, and what is left.

    python3 tests/real/moto/life.py [BINARY]

A class of each AMI family that the CRD has is Ready, by the image's id and by its name. Claims launch and are listed; a
process that starts after the first was killed finds them again and launches nothing twice. Another image in the class makes
a node drift and be replaced. When pools and classes go, no instance, launch template or instance profile is left.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/real"), str(ROOT / "tests/real/moto")]

import build  # noqa: E402

CLUSTER, REGION = "demo", "us-east-1"
#: How long anything that is waited for may take, in seconds.
PATIENCE = 180
FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Custom")
CLAIMS, NODES, POOLS = "/apis/karpenter.sh/v1/nodeclaims", "/api/v1/nodes", "/apis/karpenter.sh/v1/nodepools"
CLASSES, DEPLOYMENTS = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"


def waited(what, found):
    """What a question answers once it answers anything."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        answer = found()
        if answer:
            print(f"{time.monotonic() - BEGUN:6.1f} s  {what}", flush=True)
            return answer
        time.sleep(0.2)
    raise AssertionError(f"{what}: not within {PATIENCE} seconds")


class Api:
    """The sandbox's API server."""

    def __init__(self, address):
        self.address = address

    def ask(self, method, path, body=None, kind="application/json"):
        text = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"http://{self.address}{path}", text, {"content-type": kind}, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def items(self, path):
        return self.ask("GET", path)["items"]

    def merge(self, path, body):
        return self.ask("PATCH", path, body, "application/merge-patch+json")


def bare():
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CLUSTER", "KUBE"))}


class World:
    """moto, an API server, and as many control planes as are started."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.running = str(binary), folder, []

    def start(self):
        binary, folder = self.binary, self.folder
        (folder / "refused").write_text("")
        port = free_port()
        self.aws = f"http://127.0.0.1:{port}"
        self.begin([sys.executable, ROOT / "tests/real/moto/serve.py", port, answers(), folder / "refused"], "moto")
        waited("moto answers", self.answers)
        seeded = subprocess.run([sys.executable, ROOT / "tests/real/moto/seed.py", self.aws, REGION, CLUSTER], check=True, capture_output=True, text=True)
        self.image = json.loads(seeded.stdout)["image"]
        self.kubeconfig = folder / "kubeconfig"
        self.begin([binary, "sandbox", "--replicas", "0", "--kubeconfig", self.kubeconfig], "sandbox")
        waited("an API server is there", self.kubeconfig.exists)
        self.api = Api(re.search(r"http://([\w.:]+)", self.kubeconfig.read_text())[1])
        # moto has no EKS to ask for it.
        services = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.100.0.0/16"]}}
        self.api.ask("POST", "/apis/networking.k8s.io/v1/servicecidrs", services)

    def answers(self):
        try:
            return urllib.request.urlopen(f"{self.aws}/moto-api/config", timeout=5).status < 300
        except OSError:
            return False

    def begin(self, command, name, env=None):
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT, env=env or bare())
        self.running.append(process)
        return process

    def control_plane(self, name):
        own = {
            "KUBECONFIG": str(self.kubeconfig), "CLUSTER_NAME": CLUSTER, "INTERRUPTION_QUEUE": CLUSTER,
            "CLUSTER_ENDPOINT": "https://api.example", "KUBERNETES_VERSION": "1.33", "CLUSTER_DNS": "10.100.0.10", "CLUSTER_CA_BUNDLE": "Y2E=",
            "AWS_ENDPOINT_URL": self.aws, "AWS_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "life", "HOME": str(self.folder),
            "METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0", "CONSOLE_PORT": "0", "POD_NAME": name,
        }
        return self.begin([self.binary, "run"], name, {**bare(), **own})

    def client(self, service):
        import boto3

        keys = {"aws_access_key_id": "life", "aws_secret_access_key": "life"}
        return boto3.client(service, endpoint_url=self.aws, region_name=REGION, **keys)

    def instances(self):
        """Those that have not ended, by id."""
        states = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}]
        pages = self.client("ec2").get_paginator("describe_instances").paginate(Filters=states)
        return {one["InstanceId"]: one for page in pages for all_of in page["Reservations"] for one in all_of["Instances"]}

    def end(self):
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def free_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def answers():
    """Where moto's answers are kept that never change: the same file as for the tests on the real control plane."""
    return ROOT / "target/real/moto/answers"


def join(world, stop):
    """The kubelets' part: a running instance becomes a Node that is Ready, pods that are deleted end, and the Node of an
    instance that has ended goes."""
    from joiner import every_instance, node

    joined = {}
    while not stop.wait(0.5):
        claims = {one.get("status", {}).get("providerID"): one for one in world.api.items(CLAIMS)}
        for one in every_instance(world.aws, REGION):
            claim = claims.get(f"aws:///{one['zone']}/{one['id']}")
            if one["state"] == "running" and one["id"] not in joined and claim and claim["status"].get("allocatable"):
                made = node(one, REGION, claim)
                status = {**made.pop("status"), "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}
                world.api.ask("POST", NODES, made)
                world.api.merge(f"{NODES}/{one['name']}/status", {"status": status})
                joined[one["id"]] = one["name"]
            elif one["state"] in ("terminated", "shutting-down") and one["id"] in joined:
                try:
                    world.api.ask("DELETE", f"{NODES}/{joined.pop(one['id'])}")
                except urllib.error.HTTPError:
                    pass  # The control plane was quicker.
        for pod in world.api.items(PODS):
            if pod["metadata"].get("deletionTimestamp") and pod["spec"].get("nodeName"):
                world.api.ask("DELETE", f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")


def node_class(name, family, term):
    found = [{"tags": {"karpenter.sh/discovery": CLUSTER}}]
    spec = {"role": f"KarpenterNodeRole-{CLUSTER}", "amiFamily": family, "amiSelectorTerms": [term],
            "subnetSelectorTerms": found, "securityGroupSelectorTerms": found}
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}, "spec": spec}


def condition(thing, kind):
    return next((one for one in thing.get("status", {}).get("conditions", []) if one["type"] == kind), {})


def families_are_ready(world):
    image = world.client("ec2").describe_images(ImageIds=[world.image])["Images"][0]
    for family in FAMILIES:
        world.api.ask("POST", CLASSES, node_class(f"{family.lower()}-id", family, {"id": image["ImageId"]}))
        world.api.ask("POST", CLASSES, node_class(f"{family.lower()}-name", family, {"name": image["Name"]}))

    def all_ready():
        classes = world.api.items(CLASSES)
        return len(classes) == 2 * len(FAMILIES) and all(condition(one, "Ready").get("status") == "True" for one in classes)

    waited("a class of each family is Ready, by id and by name", all_ready)
    for one in world.api.items(CLASSES):
        assert [ami["id"] for ami in one["status"]["amis"]] == [image["ImageId"]], one["status"]["amis"]


def claims_live(world):
    """Launched, listed, found again by another process, drifted, replaced."""
    requirements = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]
    template = {"spec": {"requirements": requirements, "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "al2023-id"}}}
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {"template": template, "disruption": {"consolidateAfter": "Never"}}}
    world.api.ask("POST", POOLS, pool)
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]}}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": pod}}
    world.api.ask("POST", DEPLOYMENTS, web)
    ids = lambda claims: sorted(one["status"]["providerID"].rsplit("/", 1)[1] for one in claims)

    def initialized():
        claims = world.api.items(CLAIMS)
        return claims if claims and all(condition(one, "Initialized").get("status") == "True" for one in claims) else None

    before = waited("claims have launched and their nodes are initialized", initialized)
    there = world.instances()
    assert sorted(there) == ids(before), "one instance a claim"
    tags = {tag["Key"]: tag["Value"] for tag in next(iter(there.values()))["Tags"]}
    assert tags["karpenter.sh/nodepool"] == "default" and tags["eks:eks-cluster-name"] == CLUSTER, tags
    waited("instances are tagged with their claims", lambda: all(
        "karpenter.sh/nodeclaim" in {tag["Key"] for tag in one["Tags"]} for one in world.instances().values()))
    return initialized, ids, before


def a_successor_finds_them(world, first, ids, before):
    first.kill()
    first.wait()
    world.control_plane("dovetail-1")
    waited("a successor leads", lambda: "dovetail-1" in json.dumps(world.api.items("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")))
    time.sleep(8)
    claims = world.api.items(CLAIMS)
    assert ids(claims) == ids(before) == sorted(world.instances()), "found again, and none twice"


def drift_replaces_them(world, initialized, ids, before):
    images = world.client("ec2").describe_images(Filters=[{"Name": "architecture", "Values": ["x86_64"]}])["Images"]
    other = next(one["ImageId"] for one in images if one["ImageId"] != world.image and one["Name"].startswith(("amzn", "al20")))
    world.api.merge(f"{CLASSES}/al2023-id", {"spec": {"amiSelectorTerms": [{"id": other}]}})

    def replaced():
        claims = initialized()
        return claims and not set(ids(claims)) & set(ids(before)) and {one["ImageId"] for one in world.instances().values()} == {other}

    waited("what has drifted to another image is replaced", replaced)


def nothing_is_left(world):
    for kind in (DEPLOYMENTS, POOLS):
        for one in world.api.items(kind):
            world.api.ask("DELETE", f"{kind}/{one['metadata']['name']}")
    waited("claims and instances are gone with their pool", lambda: not world.api.items(CLAIMS) and not world.instances())
    for one in world.api.items(CLASSES):
        world.api.ask("DELETE", f"{CLASSES}/{one['metadata']['name']}")
    waited("classes are gone", lambda: not world.api.items(CLASSES))
    left = world.client("ec2").describe_launch_templates()["LaunchTemplates"]
    profiles = world.client("iam").list_instance_profiles()["InstanceProfiles"]
    assert not left and not profiles, (left, profiles)


def play(binary, folder):
    world, stop = World(binary, folder), threading.Event()
    try:
        world.start()
        first = world.control_plane("dovetail-0")
        families_are_ready(world)
        joiner = threading.Thread(target=join, args=(world, stop), daemon=True)
        joiner.start()
        initialized, ids, before = claims_live(world)
        a_successor_finds_them(world, first, ids, before)
        drift_replaces_them(world, initialized, ids, before)
        nothing_is_left(world)
    except BaseException:
        for log in ("dovetail-0", "dovetail-1", "moto"):
            path = folder / f"{log}.log"
            if path.exists():
                print(f"--- {log}", path.read_text(errors="replace")[-3000:], sep="\n", file=sys.stderr)
        raise
    finally:
        stop.set()
        world.end()


def main(binary):
    interpreter = build.python()
    if pathlib.Path(sys.prefix) != interpreter.parent.parent:
        # The one that has moto and boto3.
        os.execv(interpreter, [str(interpreter), __file__, str(binary)])
    with tempfile.TemporaryDirectory() as name:
        play(binary, pathlib.Path(name))
    print(f"{time.monotonic() - BEGUN:6.1f} s  nothing is left")


BEGUN = time.monotonic()

if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "target/release/dovetail")
