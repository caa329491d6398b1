#!/usr/bin/env python3
"""Records what `dovetail run` asks of AWS, and writes down the checks that IAM makes for it: requests.json.

    cargo build --release && python3 tests/deploy/record.py [--write]

The binary runs against the sandbox's cluster and region, through a proxy that reads every request. A node's life is
played: a class with a role, capacity that is reserved, on spot and on demand, a warning from the queue, the end of all.
What does not come within a minute is added as crates/cloud asks for it (BY_HAND). Without `--write` the list
is held to requests.json.
"""

import http.client
import http.server
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
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tests/real"), str(HERE)]

import build  # noqa: E402
import checks  # noqa: E402

KEPT = HERE / "requests.json"
CLUSTER, REGION = "demo", "us-east-1"
#: How long anything that is waited for may take, in seconds.
PATIENCE = 90
BY_HAND = {
    "ec2.CreateFleet": "into a capacity reservation and a placement group: the sandbox's account has none",
    "ec2.DescribePlacementGroups": "asked for a class that selects a placement group: the sandbox's account has none",
    "ec2.CreateTags": "asked for by the registrar, ten seconds at most after a node has registered",
    "ec2.RebootInstances": "asked for with the gate RebootForRepair, for a node that has been unhealthy for ten minutes",
    "ec2.DescribeInstanceStatus": "asked for every minute, first a minute after a leader began",
    "ec2.DescribeReservedInstances": "asked for where COMMITMENTS has account",
    "savingsplans.DescribeSavingsPlans": "asked for where COMMITMENTS has account",
    "savingsplans.DescribeSavingsPlanRates": "asked for where COMMITMENTS has account",
    "arc-zonal-shift.GetManagedResource": "asked for where ENABLE_ZONAL_SHIFT is set",
    "iam.ListInstanceProfiles": "asked for by the janitor every half hour",
}


class Recorder(http.server.BaseHTTPRequestHandler):
    """Passes a request on, and keeps what it was."""

    protocol_version = "HTTP/1.1"
    upstream, seen, one = None, [], threading.Lock()

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        asked = checks.Request.read(self.command, self.path, dict(self.headers.items()), body)
        # What a resource is tagged with decides who may touch it: as it was before the call.
        before = asked.resource_tags(self.upstream)
        with self.one:
            self.seen.append((asked, before))
        connection = http.client.HTTPConnection(self.upstream, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        connection.request(self.command, self.path, body, headers)
        try:
            answer = connection.getresponse()
        except (http.client.HTTPException, OSError):
            # The region has gone: the recording is over.
            self.close_connection = True
            return
        text = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = pass_on

    def log_message(self, *_):
        pass


def waited(what, found):
    """What a question answers once it answers anything."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        answer = found()
        if answer:
            return answer
        time.sleep(0.2)
    sys.exit(f"record.py: {what}: not within {PATIENCE} seconds")


class Api:
    """The sandbox's API server."""

    def __init__(self, address):
        self.address = address

    def ask(self, method, path, body=None):
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"http://{self.address}{path}", json.dumps(body).encode() if body else None, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def items(self, path):
        return self.ask("GET", path)["items"]


def sandbox(binary, folder):
    """A sandbox without a control plane: process, API server, region."""
    kubeconfig = folder / "kubeconfig"
    command = [binary, "sandbox", "--replicas", "0", "--serve-aws", "0", "--kubeconfig", kubeconfig, "-f", HERE / "recorded.yaml"]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, cwd=ROOT, env=bare())
    for line in process.stdout:
        found = re.search(r"AWS_ENDPOINT_URL=http://(\S+)", line)
        if found:
            break
    else:
        sys.exit("record.py: the sandbox has not said where its region is")
    threading.Thread(target=process.stdout.read, daemon=True).start()
    api = re.search(r"http://([\w.:]+)", kubeconfig.read_text())[1]
    return process, kubeconfig, api, found[1]


def bare():
    """An environment that says nothing of AWS or a cluster."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CLUSTER", "KUBE"))}


def control_plane(binary, folder, kubeconfig, proxy):
    own = {
        "KUBECONFIG": str(kubeconfig), "CLUSTER_NAME": CLUSTER, "INTERRUPTION_QUEUE": CLUSTER,
        "AWS_ENDPOINT_URL": f"http://{proxy}", "AWS_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "recorded", "HOME": str(folder),
        "METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0", "CONSOLE_PORT": "0",
    }
    log = open(folder / "run.log", "w")
    return subprocess.Popen([str(binary), "run"], stdout=log, stderr=subprocess.STDOUT, env={**bare(), **own})


CLAIMS, CLASSES = "/apis/karpenter.sh/v1/nodeclaims", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"


def life(api, region):
    """From pending pods to nothing left."""
    def ready():
        claims = api.items(CLAIMS)
        there = [one for one in claims if one.get("status", {}).get("providerID")]
        return claims if claims and len(there) == len(claims) and {"spot", "on-demand"} <= {capacity(one) for one in there} else None

    claims = waited("instances of both capacity types", ready)
    spot = next(one for one in claims if capacity(one) == "spot")
    instance = spot["status"]["providerID"].rsplit("/", 1)[1]
    warning = {"version": "0", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
               "detail": {"instance-id": instance, "instance-action": "terminate"}}
    checks.client("sqs", region).send_message(QueueUrl=f"http://{region}/000000000000/{CLUSTER}", MessageBody=json.dumps(warning))
    waited("the end of the node that was warned of", lambda: all(one["metadata"]["name"] != spot["metadata"]["name"] for one in api.items(CLAIMS)))
    for kind in ("/apis/apps/v1/namespaces/default/deployments", "/apis/karpenter.sh/v1/nodepools"):
        for one in api.items(kind):
            api.ask("DELETE", f"{kind}/{one['metadata']['name']}")
    waited("the end of all nodes", lambda: not api.items(CLAIMS))
    for one in api.items(CLASSES):
        api.ask("DELETE", f"{CLASSES}/{one['metadata']['name']}")
    waited("the end of the class", lambda: not api.items(CLASSES))


def capacity(claim):
    return claim["metadata"].get("labels", {}).get("karpenter.sh/capacity-type")


def by_hand(api, proxy):
    """The calls of BY_HAND, in the crate's words, while there is an instance."""
    claim = waited("an instance", lambda: [one for one in api.items(CLAIMS) if one.get("status", {}).get("providerID")])[0]
    tags = {"Name": "node.example", "karpenter.sh/nodeclaim": claim["metadata"]["name"], "eks:eks-cluster-name": CLUSTER}
    instance = claim["status"]["providerID"].rsplit("/", 1)[1]
    checks.client("ec2", proxy).create_tags(Resources=[instance], Tags=[{"Key": key, "Value": value} for key, value in tags.items()])
    impaired = [{"Name": "system-status.status", "Values": ["impaired"]}]
    checks.client("ec2", proxy).describe_instance_status(Filters=impaired)
    checks.client("ec2", proxy).describe_placement_groups(Filters=[{"Name": "group-name", "Values": ["rack"]}])
    checks.client("iam", proxy).list_instance_profiles(PathPrefix=f"/karpenter/{REGION}/{CLUSTER}/")
    checks.client("ec2", proxy).describe_reserved_instances(Filters=[{"Name": "state", "Values": ["active"]}])
    for operation, fields in (("DescribeSavingsPlans", {}), ("DescribeSavingsPlanRates", {"savingsPlanId": "sp-1"})):
        Recorder.seen.append((checks.Request("savingsplans", operation, REGION, fields), {}))
    cluster = {"resource": checks.arn("eks", f"cluster/{CLUSTER}")}
    Recorder.seen.append((checks.Request("arc-zonal-shift", "GetManagedResource", REGION, cluster), {}))
    reboot = checks.Request("ec2", "RebootInstances", REGION, {"InstanceId": {"1": instance}})
    Recorder.seen.append((reboot, reboot.resource_tags(Recorder.upstream)))
    reserved_launch(proxy)


def reserved_launch(proxy):
    """A launch like one that was seen, into a reservation and a group, which is not carried out: the sandbox's account has none."""
    fleet = next(asked for asked, _ in Recorder.seen if asked.operation == "CreateFleet" and "DryRun" not in asked.fields)
    template = fleet.own_templates()[0]
    name = template["LaunchTemplateName"]
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}}
    placement = {"GroupId": "pg-0123456789abcdef0"}
    data = {**template["LaunchTemplateData"], "CapacityReservationSpecification": target, "Placement": placement}
    checks.Request.templates[f"{name}-reserved"] = {**template, "LaunchTemplateData": data}
    override = {"LaunchTemplateSpecification": {"LaunchTemplateName": f"{name}-reserved"}}
    configs = {"1": {**checks.listed(fleet.fields["LaunchTemplateConfigs"])[0], **override}}
    asked = checks.Request("ec2", "CreateFleet", fleet.region, {**fleet.fields, "LaunchTemplateConfigs": configs})
    Recorder.seen.append((asked, asked.resource_tags(Recorder.upstream)))


def recorded(binary):
    """The checks of everything that was asked for."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        world, kubeconfig, address, region = sandbox(binary, folder)
        Recorder.upstream = region
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy, api = f"127.0.0.1:{server.server_port}", Api(address)
        plane = control_plane(binary, folder, kubeconfig, proxy)
        try:
            by_hand(api, proxy)
            life(api, region)
            uid = api.ask("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"]
        except BaseException:
            print((folder / "run.log").read_text()[-4000:], file=sys.stderr)
            raise
        finally:
            for process in (plane, world):
                process.send_signal(signal.SIGTERM)
                process.wait(10)
            server.shutdown()
    return checks.distinct(Recorder.seen, uid)


def main():
    write = sys.argv[1:] == ["--write"]
    if sys.argv[1:] not in ([], ["--write"]):
        sys.exit(__doc__)
    interpreter = build.python()
    if pathlib.Path(sys.prefix) != interpreter.parent.parent:
        # The one that has boto3.
        os.execv(interpreter, [str(interpreter), __file__, *sys.argv[1:]])
    binary = ROOT / "target/release/dovetail"
    if not binary.exists():
        sys.exit("record.py: target/release/dovetail is not there: cargo build --release")
    found = {"byHand": BY_HAND, "checks": recorded(binary)}
    if write:
        KEPT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        print(f"{KEPT.name}: {len(found['checks'])} checks")
    elif json.loads(KEPT.read_text()) != found:
        sys.exit("record.py: requests.json is not what is asked for now: record it anew with --write and look at the difference")


if __name__ == "__main__":
    main()
