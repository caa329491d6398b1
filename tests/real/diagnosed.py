#!/usr/bin/env python3
"""`dovetail doctor` on the real control plane with moto: a good installation, and one in which one thing at a time is broken.

    diagnosed.py

Every fault is made for real where that can be done here: an object of the chart is deleted, a role loses a right, a field goes out of a
CRD, a replica stops, a queue is deleted, a subnet is small. Two are what EC2 alone could make: what it has refused is written where the
leader keeps it. Settings are those of a Pod in the replica's place. Each fault has its own check complain, and no other; after it is
mended all is well again.
"""

import contextlib
import http.server
import json
import threading
import time
import urllib.parse
import urllib.request

from load import comes
from parts import NAMESPACE, REGION
from proof import CLASSES, POOLS, Proof, ec2, end, play, pool_text, status_of

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FENCE = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
REPLICA = "dovetail-0"
UNAVAILABLE = f"/api/v1/namespaces/{NAMESPACE}/configmaps/dovetail-unavailable-offerings"
#: moto's.
ACCOUNT = "123456789012"
SPOT_ROLE = "AWSServiceRoleForEC2Spot"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "spot.amazonaws.com"}, "Action": "sts:AssumeRole"}]})
#: Written by the API server, and refused where an object is created.
SERVERS_OWN = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields")


def doctor(proof, **more):
    """The checks that complain, by name, and the exit status that the lights ask for."""
    found = proof.asked("doctor", "--json", good=(0, 1, 2), **more)
    return {one["check"]: (one["light"], one["what"], one["remedy"]) for one in found["checks"] if one["light"] in ("yellow", "red")}, found


def anew(one):
    """An object as it can be created once more."""
    one["metadata"] = {name: value for name, value in one["metadata"].items() if name not in SERVERS_OWN}
    one.pop("status", None)
    return one


class Broken:
    """Faults, each made on entering and mended on leaving."""

    def __init__(self, proof):
        self.proof = proof

    @contextlib.contextmanager
    def replica_stops(self):
        process = self.proof.cluster.running[REPLICA]
        self.proof.cluster.order(f"stop {REPLICA}")
        yield
        self.proof.cluster.order(f"cont {REPLICA}")
        # Its term is over: it may end by that, and a Deployment would start it again.
        if comes(lambda: process.poll() is not None, 5):
            self.proof.cluster.start(REPLICA)

    @contextlib.contextmanager
    def fence_is_gone(self):
        one = self.proof.kube.list(FENCE)[0]
        path = f"{FENCE}/{one['metadata']['name']}"
        own = self.proof.get(path)
        self.proof.kube.call("DELETE", path)
        yield
        self.proof.kube.create(FENCE, anew(own))

    @contextlib.contextmanager
    def right_is_missing(self):
        holds = lambda rule: "pods/eviction" in rule.get("resources", [])
        role = next(one for one in self.proof.kube.list(ROLES) if one["metadata"]["name"].startswith("dovetail") and any(map(holds, one.get("rules") or [])))
        path, rules = f"{ROLES}/{role['metadata']['name']}", role["rules"]
        self.proof.kube.patch(path, {"rules": [rule for rule in rules if not holds(rule)]})
        yield
        self.proof.kube.patch(path, {"rules": rules})

    @contextlib.contextmanager
    def right_in_its_namespace_is_missing(self):
        """Without this right the replica goes on: it cannot keep for its successor what EC2 refuses."""
        keeps = lambda rule: "dovetail-unavailable-offerings" in rule.get("resourceNames", [])
        roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles"
        role = next(one for one in self.proof.kube.list(roles) if any(map(keeps, one.get("rules") or [])))
        path, rules = f"{roles}/{role['metadata']['name']}", role["rules"]
        self.proof.kube.patch(path, {"rules": [rule for rule in rules if not keeps(rule)]})
        yield
        self.proof.kube.patch(path, {"rules": rules})

    def crd(self, change):
        """A CRD of NodePools, changed."""
        path = f"{CRDS}/nodepools.karpenter.sh"
        spec = self.proof.get(path)["spec"]
        changed = json.loads(json.dumps(spec))
        change(changed)
        self.proof.kube.patch(path, {"spec": changed})
        return lambda: self.proof.kube.patch(path, {"spec": spec | {"conversion": {"strategy": "None", "webhook": None}}})

    @contextlib.contextmanager
    def field_is_missing(self):
        def change(spec):
            version = next(one for one in spec["versions"] if one["name"] == "v1")
            template = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["template"]
            del template["properties"]["spec"]["properties"]["startupTaints"]
        mend = self.crd(change)
        yield
        mend()

    @staticmethod
    def serve_older(spec):
        for version in spec["versions"]:
            version["served"] = True

    @contextlib.contextmanager
    def older_is_served(self):
        mend = self.crd(self.serve_older)
        yield
        mend()

    @contextlib.contextmanager
    def webhook_is_silent(self):
        def change(spec):
            self.serve_older(spec)
            client = {"url": "https://127.0.0.1:9/conversion"}
            spec["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
        mend = self.crd(change)
        self.proof.pod_of(REPLICA, WEBHOOK_ENABLED="true")
        yield
        mend()
        self.proof.pod_of(REPLICA)

    @contextlib.contextmanager
    def another_provisioner(self):
        container = {"name": "controller", "image": "public.ecr.aws/karpenter/controller:1.14.0"}
        template = {"metadata": {"labels": {"app": "other"}}, "spec": {"nodeName": "control", "tolerations": [{"operator": "Exists"}], "containers": [container]}}
        path = "/apis/apps/v1/namespaces/default/deployments"
        self.proof.kube.create(path, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "karpenter"},
                                      "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "other"}}, "template": template}})
        yield
        self.proof.kube.call("DELETE", f"{path}/karpenter?propagationPolicy=Foreground")

    @contextlib.contextmanager
    def pool_without_class(self):
        own = self.proof.get(f"{POOLS}/default")
        own["metadata"] = {"name": "classless"}
        own["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "nowhere"
        own.pop("status")
        self.proof.kube.create(POOLS, own)
        yield
        self.proof.kube.call("DELETE", f"{POOLS}/classless")

    @contextlib.contextmanager
    def setting(self, **settings):
        self.replica_with(settings)
        yield
        self.replica_with({})

    def replica_with(self, settings):
        """The replica's pod with these settings, which runs: who leads is not told from one that does not."""
        self.proof.pod_of(REPLICA, **settings)
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{REPLICA}"
        self.proof.until("the replica's pod runs", lambda: (self.proof.get(path) or {}).get("status", {}).get("phase") == "Running")

    @contextlib.contextmanager
    def queue_is_gone(self):
        aws = self.proof.aws
        call(aws, "sqs", "AmazonSQS.DeleteQueue", QueueUrl=f"{aws}/{ACCOUNT}/demo")
        yield
        call(aws, "sqs", "AmazonSQS.CreateQueue", QueueName="demo")

    @contextlib.contextmanager
    def rules_are_gone(self, *names):
        """Rules no longer send to the queue."""
        queue = {"Id": "queue", "Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:demo"}
        for name in names:
            call(self.proof.aws, "events", "AWSEvents.RemoveTargets", Rule=name, Ids=["queue"])
        yield
        for name in names:
            call(self.proof.aws, "events", "AWSEvents.PutTargets", Rule=name, Targets=[queue])

    @contextlib.contextmanager
    def refused(self, what):
        line = json.dumps({"what": what, "refusals": 1, "last": "2026-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"})
        before = self.proof.get(UNAVAILABLE)
        if before is None:
            self.proof.kube.create(UNAVAILABLE.rsplit("/", 1)[0], {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": UNAVAILABLE.rsplit("/", 1)[1]}})
        self.proof.kube.patch(UNAVAILABLE, {"data": {"unavailable": line}})
        yield
        self.proof.kube.patch(UNAVAILABLE, {"data": {"unavailable": ((before or {}).get("data") or {}).get("unavailable", "")}})

    @contextlib.contextmanager
    def pool_changes(self, **spec):
        """The pool's spec, changed: requirements are those of capacity types alone."""
        own = self.proof.get(f"{POOLS}/default")["spec"]["template"]["spec"]["requirements"]
        types = spec.pop("types", ())
        changed = [one | {"values": list(types)} if types and one["key"] == "karpenter.sh/capacity-type" else one for one in own]
        change = lambda requirements, more: self.proof.kube.patch(f"{POOLS}/default", {"spec": {"template": {"spec": {"requirements": requirements}}} | more})
        change(changed, spec)
        yield
        change(own, {name: None for name in spec})

    @contextlib.contextmanager
    def spot_is_refused(self):
        with self.pool_changes(types=("spot", "on-demand")), self.refused("capacity-type spot"):
            yield

    @contextlib.contextmanager
    def no_role_for_spot(self):
        with self.pool_changes(types=("spot", "on-demand")):
            iam(self.proof.aws, "DeleteRole", RoleName=SPOT_ROLE)
            yield
            iam(self.proof.aws, "CreateRole", RoleName=SPOT_ROLE, AssumeRolePolicyDocument=TRUST)

    @contextlib.contextmanager
    def own_class(self, **spec):
        own = self.proof.get(f"{CLASSES}/default")
        own["metadata"] = {"name": "other"}
        own["spec"] |= spec
        own.pop("status")
        self.proof.kube.create(CLASSES, own)
        resolved = lambda: all(status_of(self.proof.get(f"{CLASSES}/other"), kind) in ("True", "False") for kind in ("SubnetsReady", "AMIsReady"))
        self.proof.until("the class is looked up", resolved)
        yield
        self.proof.kube.call("DELETE", f"{CLASSES}/other")
        self.proof.until("the class is gone", lambda: self.proof.get(f"{CLASSES}/other") is None)

    @contextlib.contextmanager
    def small_subnet(self):
        """A class in a subnet with eleven addresses."""
        vpc = ec2(self.proof.aws, "DescribeVpcs").findtext(".//vpcId")
        made = ec2(self.proof.aws, "CreateSubnet", VpcId=vpc, CidrBlock="172.31.255.0/28", AvailabilityZone="eu-west-1a")
        with self.own_class(subnetSelectorTerms=[{"id": made.findtext(".//subnetId")}]):
            yield


def call(aws, service, target, **body):
    """A call of one of moto's services that speak JSON."""
    headers = {"authorization": f"AWS4-HMAC-SHA256 Credential=x/20200101/{REGION}/{service}/aws4_request", "content-type": "application/x-amz-json-1.0", "x-amz-target": target}
    with urllib.request.urlopen(urllib.request.Request(aws, json.dumps(body).encode(), headers), timeout=30):
        pass


def iam(aws, action, **asked):
    """A call of moto's IAM."""
    headers = {"authorization": "AWS4-HMAC-SHA256 Credential=x/20200101/us-east-1/iam/aws4_request"}
    form = urllib.parse.urlencode({"Action": action, "Version": "2010-05-08"} | asked).encode()
    with urllib.request.urlopen(urllib.request.Request(aws, form, headers), timeout=30):
        pass


class Strict(http.server.BaseHTTPRequestHandler):
    """An AWS that takes nobody's credentials."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b"<Response><Errors><Error><Code>AuthFailure</Code><Message>AWS was not able to validate the provided access credentials</Message></Error></Errors><RequestID>r</RequestID></Response>"
        self.send_response(401)
        self.send_header("content-type", "text/xml")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def faults(proof):
    """Each fault: its name, the check that complains, its light, what makes and mends it, and the environment of the one who asks."""
    broken, strict = Broken(proof), http.server.ThreadingHTTPServer(("127.0.0.1", 0), Strict)
    threading.Thread(target=strict.serve_forever, daemon=True).start()
    foreign = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{strict.server_port}"}
    nothing = [{"tags": {"no": "such"}}]
    return [
        ("Kubernetes is too old for KUBERNETES_MIN_VERSION", "API server", "red", broken.setting(KUBERNETES_MIN_VERSION="1.99.0-0"), {}),
        ("the replica that leads has stopped", "Lease", "red", broken.replica_stops(), {}),
        ("the fence's binding is deleted", "fence", "yellow", broken.fence_is_gone(), {}),
        ("the role may not evict", "rights", "red", broken.right_is_missing(), {}),
        ("its role may not write the ConfigMap of refusals", "rights", "red", broken.right_in_its_namespace_is_missing(), {}),
        ("a CRD lacks a field", "CRDs", "yellow", broken.field_is_missing(), {}),
        ("v1beta1 is served, and nothing converts it", "older kinds", "yellow", broken.older_is_served(), {}),
        ("the webhook does not answer", "webhook", "red", broken.webhook_is_silent(), {}),
        ("a Karpenter is there", "others", "yellow", broken.another_provisioner(), {}),
        ("a NodePool names a class that is not there", "NodePools", "yellow", broken.pool_without_class(), {}),
        ("EC2's metadata would be asked through a proxy", "proxies", "yellow", broken.setting(HTTPS_PROXY="http://proxy:3128"), {}),
        ("AWS does not take the credentials", "AWS", "red", contextlib.nullcontext(), foreign),
        ("no queue is set", "queue", "yellow", broken.setting(INTERRUPTION_QUEUE=""), {}),
        ("the queue is deleted", "queue", "red", broken.queue_is_gone(), {}),
        ("no rule sends to the queue", "queue", "red", broken.rules_are_gone("scheduled-change", "spot-interruption", "rebalance", "instance-state-change"), {}),
        ("the rule of spot interruptions is gone", "queue", "yellow", broken.rules_are_gone("spot-interruption"), {}),
        ("EC2 has refused spot altogether", "spot role", "red", broken.spot_is_refused(), {}),
        ("the account has no role for spot", "spot role", "red", broken.no_role_for_spot(), {}),
        ("a NodePool's limit is beyond the quota", "quotas", "yellow", broken.pool_changes(limits={"cpu": "5000"}), {}),
        ("a quota is used up", "quotas", "yellow", broken.refused("quota on-demand Standard"), {}),
        ("a class has a subnet with few addresses", "subnets", "yellow", broken.small_subnet(), {}),
        ("a class finds no AMI", "AMIs", "red", broken.own_class(amiSelectorTerms=nothing), {}),
    ]


def diagnosed(proof):
    """Doctor has nothing to say of a good installation, and of each broken one what is broken."""
    proof.apply(pool_text())
    proof.pod_of(REPLICA)
    proof.replicas_start(REPLICA)
    proof.until("class and pool are Ready", lambda: status_of(proof.get(f"{POOLS}/default"), "Ready") == "True")
    proof.until("nothing complains", lambda: not doctor(proof)[0])
    complaints, good = doctor(proof)
    lights = {one["check"]: one["light"] for one in good["checks"]}
    proof.check("a good installation is green, each check of it", not complaints and set(lights.values()) == {"green"}, json.dumps(lights))
    proof.check("settings are those of the pod that leads", REPLICA in good["settingsFrom"], good["settingsFrom"])
    seen, all_faults = set(), faults(proof)
    for what, check, light, fault, environment in all_faults:
        with fault:
            last, until = {}, time.monotonic() + 90
            while time.monotonic() < until:
                last, found = doctor(proof, **environment)
                if set(last) == {check} and last[check][0] == light:
                    break
                time.sleep(0.5)
            alone = set(last) == {check} and last[check][0] == light
            said = "; ".join(f"{name} {value[0]}: {value[1]}" for name, value in last.items())
            proof.check(f"{what}: {check} is {light}, and no other check complains", alone, said)
            proof.check("  with a remedy", alone and last[check][2] and found["light"] == light, last.get(check, ("", "", ""))[2])
            seen.add(check)
        proof.until(f"all is well again after: {what}", lambda: not doctor(proof)[0])
    proof.row("broken installations", len(all_faults))
    proof.check("at least twelve checks have failed alone", len(seen) >= 12, len(seen))
    proof.check("nobody panicked", not any("panic" in json.dumps(line) for line in proof.log()))
    # The role lacked a right on purpose.
    proof.since = "9"


def main():
    end(play(diagnosed, Proof("diagnosed")))


if __name__ == "__main__":
    main()
