#!/usr/bin/env python3
"""A shadow beside the control plane that acts, under the load run's 400 pods: its report against what happened.

    shadow.py [--pods 400]

Two replicas act under the chart's roles. `dovetail run --shadow` runs beside them with the token and the one role that
the chart renders for a shadow, which has no verb that writes. 400 pods come, and go again. Both sides have to have placed
all pods, on as many nodes for as much money an hour within a twentieth, in rounds that count as the same or are told to be
otherwise by moto's choice among a claim's instance types; and the API server may have seen no write of the shadow's.
"""

import argparse
import json
import subprocess
import time
import urllib.request

from cluster import ROOT
from load import deployment
from parts import NAMESPACE
from proof import DEPLOYMENTS, Proof, end, play, pool_text

NAME = "dovetail-shadow"
#: However busy the machine is, the pods are one batch on both sides.
ONE_BATCH = ("BATCH_BY_PACE=false", "BATCH_IDLE_DURATION=3s")
WRITES = ("create", "update", "patch", "delete", "deletecollection")


def account(proof):
    """What the chart renders for a shadow but its Deployment; the kubeconfig of its account."""
    helm = proof.cluster.programs["helm"]
    given = ["--set", "settings.clusterName=demo", "--set", "shadow.enabled=true"]
    command = [helm, "template", NAME, ROOT / "deploy/helm/dovetail", "--namespace", NAMESPACE, "--skip-crds", "--skip-tests", *given]
    rendered = subprocess.run([*command, "--kube-version", "1.36.3"], capture_output=True, text=True, check=True).stdout
    documents = [one for one in rendered.split("\n---") if "\nkind: Deployment\n" not in one and "kind:" in one]
    proof.check("the chart gives a shadow no verb that writes", not any(f"[{verb}" in one or f" {verb}" in one or f'"{verb}"' in one
                for one in documents if "kind: ClusterRole\n" in one for verb in WRITES))
    proof.apply("\n---\n".join(documents))
    found = json.loads(proof.cluster.kubectl("get", "serviceaccount", "-n", NAMESPACE, "-l", f"app.kubernetes.io/instance={NAME}", "-o", "json"))["items"]
    name = found[0]["metadata"]["name"]
    token = proof.cluster.kubectl("create", "token", name, "--namespace", NAMESPACE, "--duration=1h").strip()
    return proof.cluster.parts.kubeconfig("shadow", {"token": token}), f"system:serviceaccount:{NAMESPACE}:{name}"


class Page:
    """The report as the shadow serves it."""

    def __init__(self, proof):
        self.log = proof.cluster.state / "log" / f"{NAME}.log"

    def address(self):
        lines = (json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{"))
        return next((line["metrics"] for line in lines if line.get("metrics")), "")

    def report(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.address()}/shadow", timeout=5) as answer:
            return json.loads(answer.read())


def settled(page, quiet):
    """The report, when neither side's totals of nodes and pods have changed for so long."""
    of = lambda report: [report[side][name] for side in ("active", "shadow") for name in ("nodes", "launched", "removed", "podsPlaced", "podsWaiting")]
    report, since = page.report(), time.monotonic()
    while time.monotonic() - since < quiet:
        time.sleep(1)
        now = page.report()
        if of(now) != of(report):
            since = time.monotonic()
        report = now
    return report


def tell(proof, what, report):
    for side in ("active", "shadow"):
        one = report[side]
        proof.row(f"{what}, {side}", f"{one['nodes']} nodes, {one['costPerHour']:.3f} $/h, launched {one['launched']}, removed {one['removed']}, "
                  f"{one['podsPlaced']} pods placed, {one['pendingSeconds']:.0f} s pending, {one['secondsToLaunch']:.0f} s to launch, {one['evictions']} evictions")


def shadow(proof, given):
    """400 pods come and go, and the shadow's report is held against what happened."""
    proof.apply(pool_text())
    proof.replicas_start("dovetail-0", "dovetail-1", settings=ONE_BATCH)
    kubeconfig, user = account(proof)
    time.sleep(10)
    proof.cluster.start(NAME, ["SHADOW=true", f"KUBECONFIG={kubeconfig}", "INTERRUPTION_QUEUE=", *ONE_BATCH])
    page = Page(proof)
    proof.until("the shadow reports", lambda: page.address() and page.report()["seconds"] > 5)
    proof.kube.create(DEPLOYMENTS, deployment(0, "250m", "256Mi", given.pods))
    took = proof.until(f"{given.pods} pods are Ready", lambda: len(proof.ready_pods()) == given.pods)
    proof.row(f"{given.pods} pods Ready after", f"{took:.1f} s")
    proof.until("the shadow has placed them", lambda: page.report()["shadow"]["podsPlaced"] >= given.pods)
    report = settled(page, 10)
    tell(proof, f"{given.pods} pods", report)
    active, other = report["active"], report["shadow"]
    proof.check("the active side is what the cluster has", (active["nodes"], active["launched"]) == (len(proof.nodes()), len(proof.events("launched"))),
                f"{active['nodes']}, {active['launched']}: {len(proof.nodes())} nodes")
    proof.check("both have placed every pod", active["podsPlaced"] == other["podsPlaced"] == given.pods and not other["podsWaiting"])
    proof.check("the shadow would have launched as many nodes", other["launched"] == active["launched"], f"{other['launched']}, {active['launched']}")
    near = abs(other["costPerHour"] - active["costPerHour"]) <= 0.05 * active["costPerHour"]
    proof.check("for as much money an hour, within a twentieth", near, f"{other['costPerHour']:.3f}, {active['costPerHour']:.3f}")
    proof.row("rounds by verdict", json.dumps(report["verdicts"]))
    for one in report["rounds"]:
        print(f"    {json.dumps(one)[:300]}")
    proof.kube.patch(f"{DEPLOYMENTS}/load-0", {"spec": {"replicas": 0}})
    proof.until("nothing is left", proof.nothing_left)
    proof.until("the shadow has nothing left", lambda: page.report()["shadow"]["nodes"] == 0)
    report = settled(page, 5)
    tell(proof, "no pods", report)
    proof.check("both have removed what they had launched", all(report[side]["removed"] == report[side]["launched"] for side in ("active", "shadow")))
    written = [one for one in audited(proof, user) if one in WRITES]
    proof.check("the API server has seen no write of the shadow's", not written, len(written))
    process = proof.cluster.running.pop(NAME)
    process.terminate()
    proof.check("the shadow ends well, and its report is in the log", process.wait(timeout=30) == 0 and "would launch" in page.log.read_text())


def audited(proof, user):
    """The verbs by which somebody has asked the API server; the audit log has the chart's account and all whom it selects."""
    with open(proof.cluster.state / "log/audit-api.jsonl", encoding="utf-8") as lines:
        for line in lines:
            if user in line:
                yield json.loads(line)["verb"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=400)
    end(play(shadow, Proof("shadow"), parser.parse_args()))


if __name__ == "__main__":
    main()
