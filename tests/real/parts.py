"""The parts of a cluster: how each is started, and how one sees that it is there."""

import base64
import json
import pathlib
import random
import socket

import build

HERE = pathlib.Path(__file__).resolve().parent
REGION = "eu-west-1"
CLUSTER = "demo"
#: Where the control plane lives, and its account there, as the chart has it.
NAMESPACE = "kube-system"
CHARTS_ACCOUNT = f"system:serviceaccount:{NAMESPACE}:dovetail"
#: The account of `run --shadow` beside it (shadow.py).
SHADOWS_ACCOUNT = f"{CHARTS_ACCOUNT}-shadow"
#: Whoever runs the commands that only read, of which the audit log says so.
READERS_ACCOUNT = f"{CHARTS_ACCOUNT}-reader"
#: kube-scheduler's and the controller manager's own limits of 50 and 20 requests a second alone cost minutes at 5,000 pods.
QPS, BURST = 1000, 2000
#: In the order in which they start.
ORDER = (
    "etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kwok", "moto", "joiner", "csi",
)
#: Only where a test asks for it.
JAEGER = "jaeger"
SECOND = "kube-apiserver-2"
WAY = "way"
#: Port: the flag of Jaeger's that it is for.
JAEGER_PORTS = {
    "query": "query.http-server", "query-grpc": "query.grpc-server", "jaeger-admin": "admin.http",
    "otlp-grpc": "collector.otlp.grpc", "otlp-http": "collector.otlp.http",
    "collector-grpc": "collector.grpc-server", "collector-http": "collector.http-server",
}


def free_ports(count):
    """Ports that nobody has, below those that the system gives to connections."""
    held, ports = [], []
    while len(ports) < count:
        port = random.randrange(20000, 32000)
        one = socket.socket()
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            one.close()
            continue
        held.append(one)
        ports.append(port)
    for one in held:
        one.close()
    return ports


class Parts:
    """Command lines and health checks of one cluster, whose files lie in `state`."""

    def __init__(self, state, programs, python, boot, gates=""):
        self.state, self.programs, self.python, self.boot, self.gates = state, programs, python, boot, gates
        self.pki = state / "pki"
        #: Files with rules of kwok that take the place of its own of that name, and one with kube-scheduler's profiles.
        self.more_stages, self.scheduler_profiles = (), None
        #: More flags of the API server, where a proof needs them.
        self.api_flags = ()
        names = ("etcd", "peer", "api", "api-2", "scheduler", "manager", "kwok", "moto", WAY, *JAEGER_PORTS)
        self.port = dict(zip(names, free_ports(len(names))))
        self.servers = [f"https://127.0.0.1:{self.port[name]}" for name in ("api", "api-2")]
        self.server = self.servers[0]
        self.way = f"https://127.0.0.1:{self.port[WAY]}"
        self.aws = f"http://127.0.0.1:{self.port['moto']}"
        self.refused = state / "refused-by-ec2"
        local = lambda name: f"127.0.0.1:{self.port[name]}"
        self.jaeger = {"query": local("query"), "grpc": f"http://{local('otlp-grpc')}", "http": f"http://{local('otlp-http')}"}

    def kubeconfig(self, name, user, server=None):
        """Writes a kubeconfig for a user; its path. The second API server where it is said."""
        path = self.state / f"{name}.kubeconfig"
        authority = base64.b64encode((self.pki / "ca.crt").read_bytes()).decode()
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server or self.server, "certificate-authority-data": authority}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return path

    def by_certificate(self, name):
        """The kubeconfig of one of the cluster's own clients."""
        data = lambda kind: base64.b64encode((self.pki / f"{name}.{kind}").read_bytes()).decode()
        return self.kubeconfig(name, {"client-certificate-data": data("crt"), "client-key-data": data("key")})

    def command(self, name):
        """The command line of a part."""
        return [str(word) for word in getattr(self, "_" + name.replace("-", "_"))()]

    def health(self, name):
        """Where a part says that it is there; `None` where it says nothing."""
        of = lambda scheme, port, path: f"{scheme}://127.0.0.1:{self.port[port]}{path}"
        return {
            "etcd": of("http", "etcd", "/health"),
            "kube-apiserver": of("https", "api", "/readyz"),
            SECOND: of("https", "api-2", "/readyz"),
            "kube-scheduler": of("https", "scheduler", "/readyz"),
            "kube-controller-manager": of("https", "manager", "/healthz"),
            "kwok": of("https", "kwok", "/healthz"),
            "moto": of("http", "moto", "/moto-api/config"),
            JAEGER: of("http", "jaeger-admin", "/"),
        }.get(name)

    def _etcd(self):
        client, peer = (f"http://127.0.0.1:{self.port[name]}" for name in ("etcd", "peer"))
        return [
            self.programs["etcd"], "--name=l", f"--data-dir={self.state / 'etcd'}", "--log-level=warn",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=l={peer}",
            "--quota-backend-bytes=8589934592", "--unsafe-no-fsync",
        ]

    def _kube_apiserver_2(self):
        return self._kube_apiserver("api-2")

    def _kube_apiserver(self, port="api"):
        pki, policy = self.pki, self.state / "audit.json"
        # What the chart's account asks for, of which tests/deploy/roles.py makes a list.
        account = {"level": "Metadata", "users": [CHARTS_ACCOUNT, SHADOWS_ACCOUNT, READERS_ACCOUNT], "omitStages": ["RequestReceived"]}
        rules = [account, {"level": "None"}]
        policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
        return [
            self.programs["kube-apiserver"], f"--etcd-servers=http://127.0.0.1:{self.port['etcd']}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self.port[port]}",
            "--endpoint-reconciler-type=none", f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}", f"--client-ca-file={pki / 'ca.crt'}",
            f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
            f"--kubelet-client-key={pki / 'kubelet-client.key'}", "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={pki / 'sa.pub'}",
            f"--service-account-signing-key-file={pki / 'sa.key'}", "--service-cluster-ip-range=10.0.0.0/16",
            # The plugin as EKS and kubeadm have it: a kubelet writes its own Node alone.
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true", "--anonymous-auth=false",
            "--max-requests-inflight=1000", "--max-mutating-requests-inflight=500", "--event-ttl=1h", "--v=1",
            f"--audit-policy-file={policy}", f"--audit-log-path={self.state / 'log' / f'audit-{port}.jsonl'}",
            *([f"--feature-gates={self.gates}"] if self.gates else []), *self.api_flags,
        ]

    def _kube_scheduler(self):
        config = self.by_certificate("scheduler")
        settings = self.state / "scheduler.json"
        settings.write_text(json.dumps({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(config), "qps": QPS, "burst": BURST},
            **({"profiles": build.yaml(self.scheduler_profiles)[0]["profiles"]} if self.scheduler_profiles else {}),
        }))
        return [
            self.programs["kube-scheduler"], f"--config={settings}", "--bind-address=127.0.0.1",
            f"--secure-port={self.port['scheduler']}", f"--cert-dir={self.state / 'scheduler-certs'}",
            f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}", "--v=1",
        ]

    def _kube_controller_manager(self):
        pki, config = self.pki, self.by_certificate("controller-manager")
        return [
            self.programs["kube-controller-manager"], f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1", f"--secure-port={self.port['manager']}",
            f"--cert-dir={self.state / 'manager-certs'}", "--leader-elect=false",
            "--use-service-account-credentials=true", f"--service-account-private-key-file={pki / 'sa.key'}",
            f"--root-ca-file={pki / 'ca.crt'}", f"--cluster-signing-cert-file={pki / 'ca.crt'}",
            f"--cluster-signing-key-file={pki / 'ca.key'}", "--allocate-node-cidrs=false",
            "--service-cluster-ip-range=10.0.0.0/16", f"--kube-api-qps={QPS}", f"--kube-api-burst={BURST}", "--v=1",
        ]

    def _kwok(self):
        port, stages = self.port["kwok"], build.stages(self.programs["kwok"])
        if self.more_stages:
            more = [one for path in self.more_stages for one in build.yaml(path)]
            names = {one["metadata"]["name"] for one in more}
            merged = [one for one in build.yaml(stages) if one["metadata"]["name"] not in names] + more
            stages = self.state / "stages.yaml"
            stages.write_text("\n---\n".join(json.dumps(one) for one in merged))
        return [
            self.programs["kwok"], f"--kubeconfig={self.by_certificate('kwok-client')}",
            f"--config={stages}", "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds=40",
            "--cidr=10.0.0.1/8", "--node-ip=127.0.0.1", f"--node-port={port}", f"--server-address=127.0.0.1:{port}",
            f"--tls-cert-file={self.pki / 'kwok.crt'}", f"--tls-private-key-file={self.pki / 'kwok.key'}",
        ]

    def _moto(self):
        answers = self.python.parent.parent / "answers"
        return [self.python, HERE / "moto/serve.py", self.port["moto"], answers, self.refused]

    def _joiner(self):
        return [self.python, HERE / "joiner.py", self.server, self.pki, self.aws, REGION, self.boot]

    def _csi(self):
        return [self.python, HERE / "csi.py", self.server, self.pki]

    def _way(self):
        return [self.python, HERE / "way.py", self.port[WAY], self.port["api"]]

    def _jaeger(self):
        ports = [f"--{flag}.host-port=127.0.0.1:{self.port[name]}" for name, flag in JAEGER_PORTS.items()]
        return [self.programs[JAEGER], *ports, "--log-level=warn"]
