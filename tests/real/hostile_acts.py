"""What the users of `hostile.py` do, each with a certificate and rights of its own. Every act is one that stopped everybody, or
spent without end, before it was mended. Authors of DaemonSets, a kubelet and callers of the webhook are in the files beside."""

import collections
import itertools
import socket
import subprocess
import threading
import time

from kube import Kube, Refused

NAMESPACE = "dev"
#: Where DaemonSets may be created (hostile_daemons.py).
AGENTS = "agents"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
NODES = "/api/v1/nodes"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
#: Seconds between two rounds of a user's.
EVERY = 5.0
#: NodeClaims that are made by hand as Karpenter lets one: each is an instance.
BY_HAND = 8
#: Pods with so many soft terms each, and how many of those.
TERMS, OF_TERMS = 1500, 300
#: Connections that are held to each port, from addresses of this machine that are not its own.
HELD = 200
END_OF_TIME = "9999-12-31T23:59:59Z"
#: The longest name that a pod may have.
LONG = "-".join(["a" * 50] * 4) + "b" * 50
USERS = {
    "mallory-pods": [("", ["pods"], ["create"], NAMESPACE)],
    "mallory-claims": [("karpenter.sh", ["nodeclaims", "nodeclaims/status"], ["*"], None)],
    "mallory-nodes": [("", ["nodes", "nodes/status"], ["*"], None)],
    "mallory-daemons": [("apps", ["daemonsets"], ["create"], AGENTS)],
}


def prepare(cluster, kube):
    """The users, their rights, and what the administrator has made beside them."""
    for name, rules in USERS.items():
        subprocess.run([cluster.programs["certs"], "-valid", "2h", cluster.parts.pki, "client", name, name], check=True)
        for group, resources, verbs, namespace in rules:
            kind = "Role" if namespace else "ClusterRole"
            base = "/apis/rbac.authorization.k8s.io/v1" + (f"/namespaces/{namespace}" if namespace else "")
            if namespace:
                kube.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
            rule = {"apiGroups": [group], "resources": resources, "verbs": verbs}
            kube.create(f"{base}/{kind.lower()}s", {"metadata": {"name": name}, "rules": [rule]})
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
            kube.create(f"{base}/{kind.lower()}bindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    shared_volume(kube)
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    for _ in range(300):
        try:
            return kube.call("GET", account)
        except Refused:
            time.sleep(0.1)
    raise SystemExit(f"hostile.py: the controller manager makes no service account in {NAMESPACE}")


def shared_volume(kube):
    """A volume that many pods may use at once, as an EFS share is one: nobody attaches it."""
    kube.create("/apis/storage.k8s.io/v1/csidrivers", {"metadata": {"name": "efs.csi.aws.com"}, "spec": {"attachRequired": False}})
    kube.create("/apis/storage.k8s.io/v1/storageclasses", {
        "metadata": {"name": "efs"}, "provisioner": "efs.csi.aws.com", "volumeBindingMode": "Immediate",
    })
    size = {"storage": "5Gi"}
    kube.create("/api/v1/persistentvolumes", {"metadata": {"name": "shared"}, "spec": {
        "capacity": size, "accessModes": ["ReadWriteMany"], "storageClassName": "efs", "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": NAMESPACE, "name": "shared"}, "csi": {"driver": "efs.csi.aws.com", "volumeHandle": "fs-1"},
    }})
    kube.create(f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims", {"metadata": {"name": "shared"}, "spec": {
        "accessModes": ["ReadWriteMany"], "storageClassName": "efs", "volumeName": "shared", "resources": {"requests": size},
    }})


def nested(depth):
    """fieldsV1 so deep."""
    fields = {}
    for _ in range(depth):
        fields = {"f:a": fields}
    return fields


def managed(fields, when=END_OF_TIME, version="v1"):
    return [{"manager": "mallory", "operation": "Update", "apiVersion": version, "time": when, "fieldsType": "FieldsV1", "fieldsV1": fields}]


class User(threading.Thread):
    """Somebody with a few rights, who uses them all the time."""

    def __init__(self, cluster, name):
        super().__init__(daemon=True)
        self.name, self.ended, self.broken = name, False, None
        self.kube = Kube(cluster.parts.server, cluster.parts.pki, name)
        # What: taken, refused, and the first refusal.
        self.acts = collections.defaultdict(lambda: [0, 0, ""])
        self.start()

    def run(self):
        for number in itertools.count():
            begun = time.monotonic()
            try:
                self.round(number)
            except OSError as why:
                # The API server is busy: that is no reason to give up.
                self.act_refused("a call that nobody answered", str(why))
            except Exception as why:  # A mistake of this program's is to be seen, not to look like a calm cluster.
                self.broken = f"{type(why).__name__}: {why}"
                return
            while not self.ended and time.monotonic() - begun < EVERY:
                time.sleep(0.1)
            if self.ended:
                return self.finish()

    def finish(self):
        """What is done at the end."""

    def act_refused(self, what, why):
        entry = self.acts[what]
        entry[1] += 1
        entry[2] = entry[2] or why

    def does(self, what, method, path, body=None, kind="application/json"):
        """One act; what is answered, `None` where it is refused."""
        try:
            answer = self.kube.call(method, path, body, kind)
        except Refused as refused:
            self.act_refused(what, str(refused))
            return None
        self.acts[what][0] += 1
        return answer

    def patches(self, what, path, body):
        return self.does(what, "PATCH", path, body, "application/merge-patch+json")


class Pods(User):
    """May create pods."""

    def __init__(self, cluster):
        super().__init__(cluster, "mallory-pods")

    def creates(self, what, name, spec=None, **metadata):
        container = {"name": "c", "image": "pause", **(spec or {}).pop("container", {})} if spec else {"name": "c", "image": "pause"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **(spec or {})}}
        return self.does(what, "POST", PODS, body)

    def round(self, number):
        asks = lambda requests: {"container": {"resources": {"requests": requests}}}
        self.creates("managedFields at the end of time", f"time-{number}", managedFields=managed({"f:metadata": {"f:labels": {"f:x": {}}}}))
        self.creates("managedFields 130 deep", f"deep-{number}", managedFields=managed(nested(130), "2026-01-01T00:00:00Z"))
        if number % 6 == 0:
            self.share(number)
        self.creates("requests of 10P", f"huge-{number}", asks({"cpu": "10P", "memory": "1Gi"}))
        self.creates("limits of 10P, requests of little", f"limit-{number}", {
            "container": {"resources": {"requests": {"cpu": "1m"}, "limits": {"cpu": "10P", "memory": "9E"}}}})
        for at in range(OF_TERMS // 20):
            if number * (OF_TERMS // 20) + at < OF_TERMS:
                self.creates(f"{TERMS} soft terms, fits nowhere", f"terms-{number}-{at}", soft(number * 100 + at))
        if number == 0:
            self.creates("a name of 253 letters, fits nowhere", LONG, asks({"cpu": "9k"}))
            self.creates("a scheduler that is not there", "nobody", {"schedulerName": "nobody"})
            self.creates("a resource claim that is not there", "dra", {"resourceClaims": [{"name": "gpu", "resourceClaimName": "none"}]})
        self.creates("affinity to what is nowhere", f"apart-{number}", {"affinity": {"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "nowhere", "labelSelector": {"matchLabels": {"a": "b"}}}]}}})
        self.does("reading what others have", "GET", "/api/v1/namespaces/kube-system/secrets")

    def share(self, number):
        """Two plain pods, and two that share a volume."""
        requests = {"resources": {"requests": {"cpu": "900m", "memory": "1Gi"}}}
        volume = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "shared"}}]}
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        for at in range(2):
            self.creates("two plain pods, two that share a volume", f"plain-{number}-{at}", {"container": dict(requests)})
            self.creates("two plain pods, two that share a volume", f"sharing-{number}-{at}", {"container": requests | mount, **volume})


def soft(number):
    """A pod with more preferences than anybody reads, that fits nowhere."""
    term = lambda at: {"weight": at % 100 + 1, "preference": {"matchExpressions": [{"key": f"k{at}", "operator": "In", "values": [f"v{number}"]}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term(at) for at in range(TERMS)]}}
    return {"affinity": affinity, "container": {"resources": {"requests": {"cpu": f"{9000 + number}"}}}}


class Claims(User):
    """May write NodeClaims and their status."""

    def __init__(self, cluster, foreign):
        self.foreign, self.by_hand = foreign, 0
        super().__init__(cluster, "mallory-claims")

    def creates(self, what, name, spec=None, version="v1", **metadata):
        body = {
            "apiVersion": f"karpenter.sh/{version}", "kind": "NodeClaim",
            "metadata": {"name": name, **metadata, "labels": {"karpenter.sh/nodepool": "default", "hostile": "yes", **metadata.get("labels", {})}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c6a.large"]}],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi", "pods": "1"}}, "expireAfter": "720h", **(spec or {}),
            },
        }
        return self.does(what, "POST", CLAIMS.replace("/v1/", f"/{version}/"), body)

    def deletes(self, what, name):
        return self.does(what, "DELETE", f"{CLAIMS}/{name}")

    def round(self, number):
        # Nothing can be launched for them: they are what their status says.
        nowhere = {"requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["none.such"]}]}
        self.theirs(number, nowhere)
        self.copied(number, nowhere)
        if self.by_hand < BY_HAND and number % 2 == 0:
            self.by_hand += self.creates("made by hand", f"hand-{number}") is not None
        self.creates("managedFields at the end of time", f"time-{number}", nowhere, managedFields=managed({"f:spec": {}}, version="karpenter.sh/v1"))
        self.creates("managedFields 130 deep", f"deep-{number}", nowhere, managedFields=managed(nested(130), "2026-01-01T00:00:00Z", "karpenter.sh/v1"))
        self.creates("expireAfter beyond 2^63 ns", f"old-{number}", nowhere | {"expireAfter": "2562048h"})
        self.creates("terminationGracePeriod beyond 2^63 ns", f"slow-{number}", nowhere | {"terminationGracePeriod": "2562048h"})
        # The webhook converts it, while others call that.
        self.creates("of v1beta1", f"beta-{number}", nowhere | {"nodeClassRef": {"name": "default"}}, version="v1beta1")
        self.creates("a class of another group", f"kind-{number}", {"nodeClassRef": {"group": "other.io", "kind": "Foo", "name": "default"}})
        self.creates("of a term that is over", f"term-{number}", nowhere, annotations={"dovetail.dev/term": "2147483647"})

    def theirs(self, number, nowhere):
        """Names an instance of others as its own, and is deleted: so it would be ended."""
        what, name = "names an instance of others, and is deleted", f"theirs-{number}"
        if not self.creates(what, name, nowhere, finalizers=["karpenter.sh/termination"]):
            return
        taken = self.foreign[number % len(self.foreign)]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        launched = {"type": "Launched", "status": "True", "reason": "Launched", "message": "", "lastTransitionTime": now}
        status = {"providerID": f"aws:///{self.zone()}/{taken}", "nodeName": f"{name}.internal", "conditions": [launched]}
        self.patches(what, f"{CLAIMS}/{name}/status", {"status": status})
        time.sleep(1)
        self.deletes(what, name)

    def zone(self):
        return "eu-west-1a"

    def copied(self, number, nowhere):
        """Has the launch token of a claim that is not its own: so it would be given that claim's instance."""
        what = "has another's launch token, and is deleted"
        known = self.does("reads the claims", "GET", CLAIMS) or {"items": []}
        tokens = [one["metadata"].get("annotations", {}).get("dovetail.dev/launch-token") for one in known["items"]]
        token = next((token for token in tokens if token), None)
        if token and self.creates(what, f"copy-{number}", nowhere, annotations={"dovetail.dev/launch-token": token}):
            time.sleep(1)
            self.deletes(what, f"copy-{number}")

    def finish(self):
        """What was made is deleted in one go, instances of others by name too."""
        self.does("deletes what it has made", "DELETE", f"{CLAIMS}?labelSelector=hostile%3Dyes")


class Nodes(User):
    """May write Nodes and their status."""

    def __init__(self, cluster, foreign):
        self.foreign = foreign
        super().__init__(cluster, "mallory-nodes")

    def creates(self, what, name, provider, spec=None, **metadata):
        labels = {"karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true", "hostile": "yes", "node.kubernetes.io/instance-type": "c6a.large"}
        taint = {"key": "hostile", "effect": "NoSchedule", "timeAdded": END_OF_TIME}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels, **metadata},
                "spec": {"providerID": provider, "taints": [taint], **(spec or {})}}
        return self.does(what, "POST", NODES, body)

    def round(self, number):
        taken = self.foreign[number % len(self.foreign)]
        what, name = "names an instance of others, and is deleted", f"theirs-{number}"
        if self.creates(what, name, f"aws:///eu-west-1a/{taken}", finalizers=["karpenter.sh/termination"]):
            time.sleep(1)
            self.does(what, "DELETE", f"{NODES}/{name}")
        self.creates("taint and managedFields at the end of time", f"time-{number}", f"aws:///eu-west-1a/i-{number:017x}",
                     managedFields=managed({"f:spec": {}}))
        self.creates("managedFields 130 deep", f"deep-{number}", "", managedFields=managed(nested(130), "2026-01-01T00:00:00Z"))
        self.twice(number)
        what, name = "allocatable of 10P, conditions at the end of time", f"huge-{number}"
        if self.creates(what, name, f"aws:///eu-west-1b/i-{number + 4096:017x}"):
            condition = {"type": "Ready", "status": "False", "reason": "x", "message": "", "lastHeartbeatTime": END_OF_TIME, "lastTransitionTime": END_OF_TIME}
            amount = {"cpu": "10P", "memory": "9E", "pods": "2147483647"}
            self.patches(what, f"{NODES}/{name}/status", {"status": {"capacity": amount, "allocatable": amount, "conditions": [condition]}})

    def twice(self, number):
        """Says that it is a node that is there already."""
        known = self.does("reads the nodes", "GET", NODES) or {"items": []}
        real = [one["spec"].get("providerID") for one in known["items"] if one["metadata"].get("labels", {}).get("hostile") != "yes"]
        real = [one for one in real if one]
        if real:
            self.creates("has the providerID of a node that is there", f"double-{number}", real[number % len(real)])


class Ports(threading.Thread):
    """Holds connections to ports and says nothing, or little."""

    def __init__(self, addresses):
        super().__init__(daemon=True)
        self.name, self.broken, self.ended, self.addresses = "mallory-ports", None, False, addresses
        self.acts = collections.defaultdict(lambda: [0, 0, ""])
        self.start()

    def run(self):
        held = collections.deque()
        while not self.ended:
            for address in self.addresses:
                host, port = address.rsplit(":", 1)
                for number in range(0 if self.ended else HELD // 10):
                    self.connect(held, (host.strip("[]"), int(port)), f"127.0.2.{len(held) % 250 + 1}", number)
            while len(held) > HELD * len(self.addresses):
                held.popleft().close()
            time.sleep(1)
        for one in held:
            one.close()

    def connect(self, held, to, source, number):
        what = "connections that say nothing, or half of a request"
        one = socket.socket()
        one.settimeout(1)
        try:
            one.bind((source, 0))
            one.connect(to)
            if number % 2:
                one.send(b"GET /healthz HTTP/1.1\r\nhost")
            held.append(one)
            self.acts[what][0] += 1
        except OSError as why:
            one.close()
            self.acts[what][1] += 1
            self.acts[what][2] = self.acts[what][2] or str(why)
