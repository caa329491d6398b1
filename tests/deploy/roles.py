#!/usr/bin/env python3
"""Which requests to the API server the tests make as the control plane: kube-requests.json, to which test_roles.py holds the
roles of the chart, in both directions.

    python3 tests/deploy/roles.py            holds what the last tests on the real parts have asked to kube-requests.json
    python3 tests/deploy/roles.py --write [SCENARIO…]
                                             adds to it: the real parts' audit logs, and the writes of scenarios, of all
                                             unless some are named
    python3 tests/deploy/roles.py --anew     writes it of these alone; after all tests on the real parts, as what they have
                                             not asked goes from it

The real API server writes down what the chart's account asks (tests/real/parts.py); `dovetail simulate --events` tells of the
writes of replicas in the tests' scenarios. A request is `[verb, group, resource, namespace]`; the namespace is `kube-system`
where the chart has roles in it for the resource, `*` of all others: only a cluster-wide role can allow those.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KEPT = HERE / "kube-requests.json"
RUNS = ROOT / "target/real/run"
#: The namespace that the control plane runs in, where the chart's roles are.
OWN = "kube-system"
#: How the event log calls what RBAC calls otherwise.
VERBS = {"apply": "patch"}
#: The groups of what replicas write in scenarios.
GROUPS = {
    "nodeclaims": "karpenter.sh", "nodepools": "karpenter.sh", "ec2nodeclasses": "karpenter.k8s.aws", "leases": "coordination.k8s.io",
    "events": "", "nodes": "", "pods": "", "configmaps": "",
}


def recorded(path):
    """What an audit log of the real API server has of the chart's account: requests that were allowed."""
    found = set()
    for line in path.read_text(errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            # An API server that was killed has not written its last line to the end.
            continue
        if event.get("user", {}).get("username", "").endswith(("-shadow", "-reader")):
            # They have roles of their own.
            continue
        about = event.get("objectRef")
        if not about or event.get("annotations", {}).get("authorization.k8s.io/decision") != "allow":
            continue
        resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        found.add((event["verb"], about.get("apiGroup", ""), resource, placed(resource, about.get("namespace"))))
    return found


def placed(resource, namespace):
    """The namespace where it matters: of these the chart has roles in its own, and what is asked elsewhere needs one everywhere."""
    return OWN if resource in ("leases", "services", "secrets", "configmaps") and namespace == OWN else "*"


def played(scenario):
    """What replicas write in a scenario."""
    with tempfile.TemporaryDirectory() as folder:
        events = pathlib.Path(folder, "events.jsonl")
        command = [ROOT / "target/release/dovetail", "simulate", scenario, "--json", "--events", events]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=300)
        lines = [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
        # Status 1 may be what the scenario is for: pods that have no place.
        if done.returncode not in (0, 1) or not lines or lines[-1]["kind"] != "end":
            sys.exit(f"{scenario} is not played to its end (status {done.returncode}): {done.stderr.strip()}")
    found = set()
    for event in lines:
        if event["kind"] == "api" and event["replica"] is not None:
            resource = "/".join(filter(None, (event["resource"], event["subresource"])))
            verb = VERBS.get(event["verb"], event["verb"])
            found.add((verb, GROUPS[event["resource"]], resource, placed(resource, event["namespace"])))
    return found


def asked():
    """Of the last tests on the real parts. Those of the provider kwok have a role of its own, and say themselves that nothing
    was forbidden."""
    logs = map(recorded, sorted(RUNS.glob("*/log/audit-*.jsonl")))
    return set().union(*(log for log in logs if not any(group == "karpenter.kwok.sh" for _, group, *_ in log)))


def kept():
    return {tuple(one) for one in json.loads(KEPT.read_text())["requests"]} if KEPT.exists() else set()


def main(arguments):
    new = asked() - kept()
    if arguments[:1] == ["--write"] or arguments == ["--anew"]:
        # Manifests that scenarios apply stand beside them.
        is_scenario = lambda path: "\napiVersion:" not in f"\n{path.read_text()}"
        scenarios = arguments[1:] or sorted(filter(is_scenario, ROOT.glob("tests/simulation/scenarios/*.yaml")))
        known = set() if arguments == ["--anew"] else kept()
        requests = sorted(known | asked().union(*map(played, scenarios)))
        lines = ",\n".join(f"    {json.dumps(one)}" for one in requests)
        KEPT.write_text(f'{{\n  "requests": [\n{lines}\n  ]\n}}\n')
        print(f"{len(requests)} requests")
    elif arguments:
        sys.exit(__doc__)
    elif not asked():
        sys.exit(f"there is no audit log below {RUNS}: the tests on the real parts have not run")
    elif new:
        sys.exit(f"asked for by a test and not in {KEPT.name} (roles.py --write adds it): {sorted(new)}")
    else:
        print(f"{len(asked())} kinds of requests of the last tests on the real parts, all of them known")


if __name__ == "__main__":
    main(sys.argv[1:])
