"""A run that is recorded: two replicas on the real parts, 400 pods, an interruption, a budget, and all of it taken down again."""

import json
import time

from recorder import Recorder
from sides import REGION, ROOT

from cluster import warn
from joiner import instances
from kube import Kube
from load import deployment, until

REPLICAS = ("dovetail-0", "dovetail-1")
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"


def ready(pods):
    """How many are Ready."""
    conditions = lambda pod: pod["status"].get("conditions", [])
    return sum(1 for pod in pods if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions(pod)))


def play(cluster):
    """All that the replicas ask of the API server and of AWS."""
    parts = cluster.parts
    kube, api, aws = Kube(parts.server, parts.pki, "admin"), Recorder(parts.server, cluster.tls), Recorder(parts.aws)
    config = parts.kubeconfig("recorded", cluster.account, api.url)
    cluster.kubectl("apply", "-f", str(ROOT / "tests/real/manifests/pool.yaml"))
    # By alias: AMIs are asked of SSM.
    by_alias = kube.call("GET", f"{CLASSES}/default")
    spec = {**by_alias["spec"], "amiSelectorTerms": [{"alias": "al2023@latest"}]}
    kube.create(CLASSES, {**by_alias, "metadata": {"name": "by-alias"}, "spec": {k: v for k, v in spec.items() if k != "amiFamily"}})
    for name in REPLICAS:
        cluster.start(name, [f"KUBECONFIG={config}", f"AWS_ENDPOINT_URL={aws.url}"])
    pods = lambda: kube.list("/api/v1/namespaces/default/pods")
    nodes = lambda: kube.list("/api/v1/nodes")

    kube.create(DEPLOYMENTS, deployment(0, "250m", "256Mi", 400))
    until("400 pods are Ready", lambda: ready(pods()) == 400)
    kube.create(BUDGETS, {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "few"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "load-0"}}}})
    kube.patch(f"{DEPLOYMENTS}/load-0", {"spec": {"replicas": 30}})
    until("30 pods are left", lambda: len(pods()) == 30)
    # A node with few pods, and not the budget's time for each of hundreds.
    on = [pod["spec"].get("nodeName") for pod in pods()]
    by_name = {node["metadata"]["name"]: node for node in nodes()}
    taken = min((name for name in by_name if on.count(name) > 1), key=on.count, default=on[0])
    warn(parts.aws, by_name[taken]["spec"]["providerID"].rsplit("/", 1)[1])
    until("the node that is taken back is gone", lambda: taken not in {node["metadata"]["name"] for node in nodes()})
    cluster.kubectl("delete", "poddisruptionbudget", "few")
    cluster.kubectl("delete", "node", nodes()[0]["metadata"]["name"], "--timeout=300s")
    cluster.kubectl("delete", "nodepool", "default", "--timeout=300s")
    kube.patch(f"{DEPLOYMENTS}/load-0", {"spec": {"replicas": 0}})
    until("nothing is left", lambda: not nodes() and not list(instances(parts.aws, REGION)))
    cluster.kubectl("delete", "ec2nodeclass", "--all", "--timeout=120s")
    for name in REPLICAS:
        cluster.running[name].terminate()
    for name in REPLICAS:
        cluster.running.pop(name).wait(30)
    # The fence refuses writes of a term that is over: what is sent again afterwards is of an old one.
    cluster.kubectl("-n", "kube-system", "delete", "lease", "karpenter-leader-election")
    return asked(api), asked(aws)


def asked(recorder):
    """What was asked, without what was broken off before it was answered."""
    recorder.end()
    time.sleep(0.1)
    return [one for one in recorder.exchanges if one["status"]]


def bodies(exchanges, kind_of):
    """What was sent, by kind."""
    sent = {}
    for one in exchanges:
        kind, body = kind_of(one)
        sent.setdefault(kind, []).extend([] if body is None else [body])
    return sent


def kube_body(kinds):
    """Kind and body of a request to an API server."""
    return lambda one: (kinds.of_kube(one), json.loads(one["body"]) if one["body"] else None)
