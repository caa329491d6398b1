"""What the proofs on the real control plane share: a cluster with replicas, claims that are checked by name, and the end.

A proof is a course: a function that gets a `Proof`. What does not hold is collected with its reason, and makes the program
end with 1; what never comes to pass ends it at once. Spans are printed as rows of a table.
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as xml

import build
from cluster import BINARY, Cluster, Failed
from joiner import instances
from kube import Kube, Refused
from load import Pods, comes
from parts import HERE, NAMESPACE, REGION

CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
POOLS = "/apis/karpenter.sh/v1/nodepools"
CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"
#: Nothing that is waited for takes longer on an idle machine; a busy one is given the factor of DOVETAIL_PATIENCE.
ANSWER_TIMEOUT = 180 * float(os.environ.get("DOVETAIL_PATIENCE", "1"))


class Patient(Kube):
    """Asks again where the API server asks for that: a definition that was changed is read in anew for a moment."""

    def call(self, *asked):
        until = time.monotonic() + 30
        while True:
            try:
                return super().call(*asked)
            except Refused as refused:
                if refused.status != 429 or "(re)initializing" not in str(refused) or time.monotonic() > until:
                    raise
            time.sleep(0.2)


class Proof:
    """One cluster, what is claimed of it, and what does not hold."""

    def __init__(self, name, settings=(), boot=0, chart=(), gates=""):
        self.name, self.wrong, self.spans = name, [], []
        self.cluster = Cluster(build.TARGET / "run" / name, boot, settings, gates=gates, chart=chart)
        self.replicas = ()
        #: What was forbidden before does not count; as the log writes times.
        self.since = ""

    def begin(self):
        """The control plane, its AWS and the chart; no replica yet."""
        self.facts = self.cluster.begin()
        self.kube = Patient(self.cluster.parts.server, self.cluster.parts.pki, "admin")
        self.aws = self.cluster.parts.aws

    def replicas_start(self, *names, settings=()):
        """Replicas, until one of them is elected."""
        self.replicas = tuple(dict.fromkeys((*self.replicas, *names)))
        for name in names:
            self.cluster.start(name, settings)
        self.until("a replica is elected", lambda: self.events("elected"))

    def apply(self, text, *more):
        """`kubectl apply`; what it says."""
        return self.cluster.kubectl("apply", "-f", "-", *more, text=text)

    def refused(self, text, *more):
        """What kubectl says when the API server refuses this; empty where it takes it."""
        try:
            self.cluster.kubectl("apply", "-f", "-", *more, text=text)
        except Failed as why:
            return str(why)
        return ""

    def until(self, what, holds, patience=None):
        """Waits for it; the seconds that it took. What never comes to pass ends the proof."""
        begun = time.monotonic()
        if not comes(lambda: ask(holds), patience or ANSWER_TIMEOUT):
            raise NeverCame(what)
        return time.monotonic() - begun

    def check(self, claim, holds, seen=""):
        """A claim of the proof: what does not hold is named at the end."""
        print(f"  {'ok   ' if holds else 'WRONG'} {claim}{f': {seen}' if seen != '' else ''}", flush=True)
        if not holds:
            self.wrong.append(f"{claim}{f': {seen}' if seen != '' else ''}")
        return holds

    def row(self, what, value):
        """A figure of the proof."""
        self.spans.append((what, value))
        print(f"| {what} | {value} |", flush=True)

    def events(self, event, **fields):
        """The replicas' log lines of that event, with these values."""
        return [one for one in self.log() if one.get("event") == event and all(one.get(k) == v for k, v in fields.items())]

    def log(self):
        """What all replicas have logged, line by line."""
        for name in self.replicas:
            path = self.cluster.state / "log" / f"{name}.log"
            for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
                if line.startswith("{"):
                    try:
                        yield json.loads(line)
                    except ValueError:
                        pass

    def get(self, path):
        """An object; `None` where it is not there."""
        try:
            return self.kube.call("GET", path)
        except Refused as refused:
            if refused.status != 404:
                raise
            return None

    def claims(self):
        return {one["metadata"]["name"]: one for one in self.kube.list(CLAIMS)}

    def nodes(self):
        return {one["metadata"]["name"]: one for one in self.kube.list("/api/v1/nodes")}

    def running(self):
        """moto's running instances, by id."""
        return {one["id"]: one for one in instances(self.aws, REGION)}

    def ready_pods(self, app=None):
        """The names of Ready pods of the default namespace that nobody deletes."""
        query = f"?labelSelector=app%3D{app}" if app else ""
        found = self.kube.list(f"/api/v1/namespaces/default/pods{query}")
        alive = (pod for pod in found if "deletionTimestamp" not in pod["metadata"])
        return {pod["metadata"]["name"] for pod in alive if status_of(pod, "Ready") == "True"}

    def kubernetes_events(self, reason):
        """Events of the API server by reason: (kind and name of the object, message)."""
        found = self.kube.list(f"/api/v1/events?fieldSelector=reason%3D{reason}")
        objects = ((one["involvedObject"], one["message"]) for one in found)
        return [(f"{one['kind']}/{one['name']}", message) for one, message in objects]

    def one_to_one(self):
        """What of NodeClaims, Nodes and instances is there without the others."""
        claims = {one.get("status", {}).get("providerID", "").rsplit("/", 1)[-1] for one in self.claims().values()}
        nodes = {one["spec"].get("providerID", "").rsplit("/", 1)[-1] for one in self.nodes().values()}
        running = set(self.running())
        return sorted((claims | nodes | running) - (claims & nodes & running))

    def nothing_left(self):
        """Whether no claim, Node or instance is left."""
        return not self.claims() and not self.nodes() and not self.running()

    def audited(self):
        """What the chart's account asked of the API server: (verb, resource with subresource, status)."""
        with open(self.cluster.state / "log/audit-api.jsonl", encoding="utf-8") as lines:
            for line in lines:
                try:
                    one = json.loads(line)
                except ValueError:
                    continue
                about = one.get("objectRef", {})
                what = "/".join(filter(None, (about.get("resource", ""), about.get("subresource"))))
                yield one["verb"], what, one.get("responseStatus", {}).get("code", 0)

    def pod_of(self, replica, **settings):
        """A Pod in the place of a replica's, on a Node of its own that takes no other: what is asked of a cluster reads settings off it."""
        taint = {"key": "control", "value": "plane", "effect": "NoSchedule"}
        size = {"cpu": "2", "memory": "4Gi", "pods": "10"}
        self.kube.create("/api/v1/nodes", {
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "control", "labels": {"kubernetes.io/hostname": "control"}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "spec": {"taints": [taint]}, "status": {"allocatable": size, "capacity": size},
        })
        # What no setting is, and what nobody may read off a pod, stays out.
        own = {name: value for name, value in self.cluster.environment.items() if name != "KUBECONFIG" and not name.startswith("AWS_SECRET")} | settings
        container = {"name": "controller", "image": "dovetail", "env": [{"name": name, "value": value} for name, value in own.items()]}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        if self.get(f"{path}/{replica}"):
            self.kube.call("DELETE", f"{path}/{replica}?gracePeriodSeconds=0")
            self.until("the pod is gone", lambda: self.get(f"{path}/{replica}") is None)
        self.kube.create(path, {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": replica},
            "spec": {"nodeName": "control", "serviceAccountName": "dovetail", "tolerations": [{"operator": "Exists"}],
                     "terminationGracePeriodSeconds": 0, "containers": [container]},
        })

    def asked(self, *words, good=(0,), **more):
        """What a command of the binary answers as JSON, asked by the administrator with AWS's credentials; its exit status has to be good."""
        own = {name: value for name, value in self.cluster.environment.items() if name.startswith("AWS_")}
        own |= {"KUBECONFIG": str(self.cluster.admin), "PATH": "/usr/bin:/bin", "HOME": str(self.cluster.state)} | more
        said = subprocess.run([BINARY, *words], capture_output=True, text=True, env=own)
        if said.returncode not in good or not said.stdout.startswith("{"):
            raise Failed(f"dovetail {' '.join(words)} ended with {said.returncode}: {said.stdout[-300:]}{said.stderr[-600:]}")
        return json.loads(said.stdout)

    def nothing_was_forbidden(self):
        """No right was missing, nothing panicked."""
        wrong = ("forbidden", "Forbidden", "panic")
        lines = (json.dumps(line) for line in self.log() if line.get("time", "") >= self.since)
        found = [line for line in lines if any(word in line for word in wrong)]
        self.check("nothing was forbidden, nobody panicked", not found, "; ".join(found[:3]))


class Ec2Refused(Exception):
    """EC2 said no."""


def ec2(aws, action, **asked):
    """What moto's EC2 answers, without namespaces; lists are asked for as `Filter.1.Name`."""
    query = {"Action": action, "Version": "2016-11-15"} | {name.replace("_", "."): value for name, value in asked.items()}
    scope = f"Credential=proof/20200101/{REGION}/ec2/aws4_request"
    headers = {"authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0"}
    try:
        request = urllib.request.Request(aws, urllib.parse.urlencode(query).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as why:
        raise Ec2Refused(f"{action}: {why.code} {why.read().decode(errors='replace')[:200]}") from why
    return xml.fromstring(re.sub(r' xmlns="[^"]+"', "", text, count=1))


def images(aws, arch="x86_64"):
    """Ids of moto's general images of an architecture, always in the same order."""
    tree = ec2(aws, "DescribeImages", Filter_1_Name="architecture", Filter_1_Value_1=arch)
    found = [(one.findtext("name") or "", one.findtext("imageId")) for one in tree.iterfind(".//imagesSet/item")]
    return sorted(image for name, image in found if name.startswith(("amzn", "al20")))


class NeverCame(Exception):
    """What a proof waits for does not come to pass."""


def ask(holds):
    """What it answers; an API server that is away, or refuses for a moment, is a no."""
    try:
        return holds()
    except (OSError, Refused, Failed):
        return False


def status_of(one, kind):
    """The status of an object's condition."""
    return (condition(one, kind) or {}).get("status")


def condition(one, kind):
    """A condition of an object's; `None` where it has none of the kind."""
    return next((it for it in one.get("status", {}).get("conditions", []) if it["type"] == kind), None)


def pool_text(**changes):
    """The manifest of the pool on moto's machines and its class, with parts of the text replaced."""
    text = (HERE / "manifests/pool.yaml").read_text()
    for old, new in changes.get("replaced", ()):
        if old not in text:
            raise SystemExit(f"manifests/pool.yaml has no {old!r}")
        text = text.replace(old, new)
    return text


def play(course, proof, *given):
    """Plays a course with what it is given; what does not hold."""
    print(f"\n{proof.name}: {course.__doc__.splitlines()[0]}", flush=True)
    begun = time.monotonic()
    try:
        proof.begin()
        course(proof, *given)
        proof.nothing_was_forbidden()
    except (NeverCame, Failed, Refused) as why:
        proof.wrong.append(f"never came to pass: {why}" if isinstance(why, NeverCame) else str(why))
        print(f"  WRONG {proof.wrong[-1]}", flush=True)
        for name in proof.replicas:
            print(f"  the end of {name}'s log:\n{proof.cluster.tail(name)}", flush=True)
    finally:
        proof.cluster.end()
    took, load = time.monotonic() - begun, os.getloadavg()[0]
    print(f"{proof.name}: {len(proof.wrong)} claim(s) do not hold; {took:.0f} s in all (load average {load:.0f})", flush=True)
    return proof.wrong


def end(found):
    """Ends the program: with 1 and each reason where a claim does not hold."""
    for wrong in found:
        print(f"WRONG: {wrong}", file=sys.stderr)
    sys.exit(1 if found else 0)
