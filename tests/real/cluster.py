#!/usr/bin/env python3
"""A real Kubernetes control plane and a foreign AWS on loopback, for tests and by hand; what is missing is built first.

    cluster.py run  [--state DIR] [--boot SECONDS] [--jaeger] [--set NAME=VALUE…] [--gates NAME=true|false,…] [--chart NAME=VALUE…]
                                                      until its standard input ends, or a signal
    cluster.py up   [--state DIR] [--boot SECONDS]    the same with Jaeger, left running; says how to use it
    cluster.py down [--state DIR]                     stops it and removes its files
    cluster.py status [--state DIR]

`run` prints one line of JSON when all is there, and then takes orders, a line each, and answers each with `done` or what
was wrong: `kill PART`, `start PART`, `stop PART`, `cont PART` and `term PART` (the signals), `runs PART` (whether), `seed` (moto's account anew),
`refuse GLOB…` (instance types that EC2 has none of from now on), `certify dovetail-N SECONDS` (dovetail-N.kubeconfig with a
certificate of the chart's account that holds for so long), `warn INSTANCE` (a spot interruption's warning in the queue),
`start way` (a way to the API server, and way.kubeconfig by it), `forget way` (whatever is connected by it hears nothing more).
`start dovetail-N [NAME=VALUE…]` starts a replica of the binary, under the account and in the environment that the chart
renders, and with these besides. Every process is started with the kernel's order to die with the one that started it:
nothing outlives a test, however that ends.
"""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

import build
from parts import CLUSTER, HERE, JAEGER, NAMESPACE, ORDER, REGION, SECOND, WAY, Parts

ROOT = HERE.parent.parent
# What is tried: as the tests build it, unless DOVETAIL names another.
BINARY = pathlib.Path(os.environ.get("DOVETAIL") or ROOT / "target/release/dovetail").resolve()
PATIENCE = 120
LIBC = ctypes.CDLL(None, use_errno=True)
NEEDED = ("certs", "etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl", "kwok", "helm")
SIGNALS = {"stop": signal.SIGSTOP, "cont": signal.SIGCONT, "term": signal.SIGTERM, "forget": signal.SIGUSR1}


class Failed(Exception):
    """A part did not come."""


def die_with_parent():
    """In a new process: it is killed when the one that started it ends, however that ends."""
    LIBC.prctl(1, signal.SIGKILL)


class Cluster:
    """What runs, by name."""

    def __init__(self, state, boot, settings=(), jaeger=False, gates="", chart=()):
        self.state, self.boot, self.jaeger, self.running, self.values = state, boot, jaeger, {}, chart
        self.environment = dict(one.split("=", 1) for one in settings)
        shutil.rmtree(state, ignore_errors=True)
        (state / "log").mkdir(parents=True)
        self.programs = {name: build.build(name) for name in (*NEEDED, *([JAEGER] if jaeger else ()))}
        subprocess.run([self.programs["certs"], state / "pki"], check=True)
        self.parts = Parts(state, self.programs, build.python(), boot, gates)
        self.tls = ssl.create_default_context(cafile=str(state / "pki/ca.crt"))
        self.tls.load_cert_chain(str(state / "pki/admin.crt"), str(state / "pki/admin.key"))
        self.loose = ssl.create_default_context()
        self.loose.check_hostname, self.loose.verify_mode = False, ssl.CERT_NONE
        self.admin = self.parts.by_certificate("admin")

    def start(self, name, settings=()):
        """Starts a part and waits until it answers; a replica with these settings besides."""
        variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
        foreign = name in (*ORDER, JAEGER, SECOND, WAY)
        command = self.parts.command(name) if foreign else [BINARY, "run"]
        if not foreign:
            # As in a pod: nothing but what the chart gives.
            variables = {"PATH": os.environ["PATH"], "HOME": str(self.state), "POD_NAME": name} | self.environment
            variables |= dict(one.split("=", 1) for one in settings)
            # But for where the test runner has it write down what it asks of AWS.
            variables |= {name: value for name, value in os.environ.items() if name == "DOVETAIL_RECORD_AWS"}
        with open(self.state / "log" / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.state, preexec_fn=die_with_parent,
                env=variables,
            )
        if foreign:
            self.wait(name)

    def wait(self, name):
        """Waits until a part answers its health check."""
        url, until = self.parts.health(name), time.monotonic() + PATIENCE
        tls = None if url is None or url.startswith("http:") else self.tls if name in ("kube-apiserver", SECOND) else self.loose
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
        while url:
            try:
                with opener.open(url, timeout=2):
                    return
            except OSError as why:
                last = why
            if self.running[name].poll() is not None or time.monotonic() > until:
                raise Failed(f"{name} does not answer ({last}); the end of its log:\n{self.tail(name)}")
            time.sleep(0.1)

    def tail(self, name):
        """The end of a part's log."""
        return "\n".join((self.state / "log" / f"{name}.log").read_text(errors="replace").splitlines()[-8:])

    def kill(self, name):
        """Ends a part at once."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def end(self):
        """Ends everything, last first."""
        for name in reversed(list(self.running)):
            self.running[name].kill()
        for process in self.running.values():
            process.wait()

    def kubectl(self, *args, text=None):
        """What kubectl says, as the cluster's administrator."""
        command = [self.programs["kubectl"], "--kubeconfig", self.admin, "--cache-dir", self.state / "cache", *args]
        said = subprocess.run(command, input=text, capture_output=True, text=True)
        if said.returncode:
            raise Failed(f"kubectl {' '.join(args)}: {said.stderr}")
        return said.stdout

    def seed(self):
        """Makes moto's account what a user's is before there is a cluster."""
        command = [build.python(), HERE / "moto/seed.py", self.parts.aws, REGION, CLUSTER]
        said = subprocess.run(command, capture_output=True, text=True)
        if said.returncode:
            raise Failed(f"moto/seed.py: {said.stderr}")
        return json.loads(said.stdout)

    def chart(self):
        """Installs what the chart renders but its Deployment; the environment of that, and a kubeconfig of its account."""
        folder = ROOT / "deploy/helm/dovetail"
        values = {"clusterName": CLUSTER, "clusterEndpoint": self.parts.server, "interruptionQueue": CLUSTER}
        given = [word for name, value in values.items() for word in ("--set", f"settings.{name}={value}")]
        given += [word for value in self.values for word in ("--set", value)]
        command = [self.programs["helm"], "template", "dovetail", folder, "--namespace", NAMESPACE, "--include-crds", "--skip-tests", *given]
        rendered = subprocess.run([*command, "--kube-version", "1.36.3"], capture_output=True, text=True)
        if rendered.returncode:
            raise Failed(f"helm template: {rendered.stderr}")
        # kubectl tells the CRDs from the rest by itself, and YAML from JSON.
        text = self.kubectl("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-", text=rendered.stdout)
        objects, decoder, at = [], json.JSONDecoder(), 0
        while text[at:].strip():
            at += len(text[at:]) - len(text[at:].lstrip())
            one, at = decoder.raw_decode(text, at)
            objects += one["items"] if one["kind"] == "List" else [one]
        deployment = next(one for one in objects if one["kind"] == "Deployment")
        rest = [one for one in objects if one["kind"] != "Deployment"]
        self.kubectl("apply", "--server-side", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": rest}))
        crds = [f"crd/{one['metadata']['name']}" for one in rest if one["kind"] == "CustomResourceDefinition"]
        self.kubectl("wait", "--for=condition=Established", "--timeout=60s", *crds)
        # kubectl remembers for minutes that there were no such kinds.
        shutil.rmtree(self.state / "cache", ignore_errors=True)
        pod = deployment["spec"]["template"]["spec"]
        environment = {"SYSTEM_NAMESPACE": NAMESPACE}
        for variable in pod["containers"][0]["env"]:
            if "value" in variable:
                environment[variable["name"]] = variable["value"]
        account = pod["serviceAccountName"]
        token = self.kubectl("create", "token", account, "--namespace", NAMESPACE, "--duration=24h").strip()
        self.account, self.user = {"token": token}, f"system:serviceaccount:{NAMESPACE}:{account}"
        return environment | {"KUBECONFIG": str(self.parts.kubeconfig("dovetail", self.account))}

    def begin(self):
        """Everything, in order; what a test needs to know of it."""
        begun = time.monotonic()
        for name in ORDER:
            self.start(name)
        if self.jaeger:
            self.start(JAEGER)
        seeded = self.seed()
        until = time.monotonic() + PATIENCE
        while self.kubectl("get", "serviceaccount", "default", "--ignore-not-found", "-o", "name") == "":
            if time.monotonic() > until:
                raise Failed("the controller manager makes no service account")
            time.sleep(0.1)
        environment = self.chart()
        environment |= {
            "AWS_ENDPOINT_URL": self.parts.aws, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests", "METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0",
            "CONSOLE_PORT": "0", "WEBHOOK_ENABLED": "false",
        }
        if self.jaeger:
            environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = self.parts.jaeger["grpc"]
        self.environment = environment | self.environment
        return {
            "seconds": round(time.monotonic() - begun, 1), "state": str(self.state), "server": self.parts.server,
            "aws": self.parts.aws, "kubeconfig": str(self.admin), "kubectl": str(self.programs["kubectl"]),
            "pids": {name: process.pid for name, process in self.running.items()},
            "environment": self.environment, "account": seeded, "jaeger": self.parts.jaeger if self.jaeger else None,
        }

    def certify(self, name, seconds):
        """A certificate for the chart's account that runs out, and NAME.kubeconfig with it."""
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"]
        command = [self.programs["certs"], "-valid", f"{seconds}s", self.parts.pki, "client", name, self.user, *groups]
        subprocess.run(command, check=True)
        self.parts.by_certificate(name)

    def order(self, line):
        """Does what a line says."""
        verb, *rest = line.split()
        name = rest[0] if rest else ""
        if verb == "seed":
            self.seed()
        elif verb == "refuse":
            self.parts.refused.write_text("\n".join(rest))
        elif verb == "certify" and name.startswith("dovetail-"):
            self.certify(name, rest[1])
        elif verb == "warn" and name:
            warn(self.parts.aws, name)
        elif verb == "start" and name == WAY:
            self.parts.kubeconfig(WAY, self.account, self.parts.way)
            self.start(WAY)
        elif verb == "start" and (name in (*ORDER, JAEGER, SECOND) or name.startswith("dovetail-")):
            self.start(name, rest[1:])
        elif verb == "runs" and name in self.running and self.running[name].poll() is None:
            pass
        elif verb == "kill" and name in self.running:
            self.kill(name)
        elif verb in SIGNALS and name in self.running:
            self.running[name].send_signal(SIGNALS[verb])
        else:
            raise Failed(f"there is no {line!r}")


def warn(aws, instance):
    """What EventBridge puts into the queue when a spot instance is to end in two minutes."""
    body = {
        "version": "0", "id": str(uuid.uuid4()), "detail-type": "EC2 Spot Instance Interruption Warning", "source": "aws.ec2",
        "account": "123456789012", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "region": REGION,
        "resources": [f"arn:aws:ec2:{REGION}:123456789012:instance/{instance}"],
        "detail": {"instance-id": instance, "instance-action": "terminate"},
    }
    scope = f"Credential=warn/20200101/{REGION}/sqs/aws4_request"
    headers = {
        "authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0",
        "content-type": "application/x-amz-json-1.0", "x-amz-target": "AmazonSQS.SendMessage",
    }
    message = json.dumps({"QueueUrl": f"{aws}/123456789012/{CLUSTER}", "MessageBody": json.dumps(body)}).encode()
    with urllib.request.urlopen(urllib.request.Request(aws, message, headers), timeout=30):
        pass


def run(state, boot, settings, jaeger, gates, chart, orders):
    """Until standard input ends (if it is heeded) or a signal comes."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set() or sys.exit(0))
    cluster = Cluster(state, boot, settings, jaeger, gates, chart)
    try:
        facts = cluster.begin()
        (state / "facts.json").write_text(json.dumps(facts | {"pid": os.getpid()}))
        print(json.dumps(facts), flush=True)
        while not orders:
            signal.pause()
        for line in sys.stdin:
            try:
                cluster.order(line.strip())
                print("done", flush=True)
            except (Failed, KeyError) as why:
                print(" ".join(str(why).split()), flush=True)
    except Failed as why:
        print(f"cluster.py: {why}", file=sys.stderr)
        return 1
    finally:
        cluster.end()
    return 0


def standing(state):
    """The facts of a cluster that was left running, if it still is."""
    path = state / "facts.json"
    if not path.exists():
        return None
    facts = json.loads(path.read_text())
    try:
        line = pathlib.Path(f"/proc/{facts['pid']}/cmdline").read_text()
    except OSError:
        return None
    return facts if "cluster.py" in line and str(state) in line else None


def up(state, boot):
    """Leaves a cluster running."""
    if standing(state):
        sys.exit(f"cluster.py: one is running already in {state}")
    state.parent.mkdir(parents=True, exist_ok=True)
    said = state.parent / f"{state.name}.log"
    with open(said, "wb") as log:
        command = [sys.executable, __file__, "run", "--state", state, "--boot", str(boot), "--jaeger", "--detached"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    while process.poll() is None and not standing(state):
        time.sleep(0.2)
    facts = standing(state)
    if not facts:
        sys.exit(said.read_text())
    variables = "".join(f"export {name}='{value}'\n" for name, value in sorted(facts["environment"].items()))
    (state / "environment").write_text(variables)
    print(f"up after {facts['seconds']} s: {facts['server']}, moto {facts['aws']}\n"
          f"  {facts['kubectl']} --kubeconfig {facts['kubeconfig']} get nodes\n"
          f"  . {state / 'environment'}; target/release/dovetail run\n"
          f"  Jaeger's API: http://{facts['jaeger']['query']}/api/traces?service=dovetail")


def down(state):
    """Stops it, by its id."""
    facts = standing(state)
    if facts:
        os.kill(facts["pid"], signal.SIGTERM)
        while standing(state):
            time.sleep(0.1)
    shutil.rmtree(state, ignore_errors=True)
    print("stopped" if facts else "nothing was running")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "up", "down", "status"])
    parser.add_argument("--state", type=pathlib.Path, default=build.TARGET / "by-hand")
    parser.add_argument("--boot", type=float, default=1.0, help="seconds from an instance to its Node")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the replicas")
    parser.add_argument("--jaeger", action="store_true", help="Jaeger too, and the replicas' traces go there")
    parser.add_argument("--gates", default="", metavar="NAME=true|false,…", help="feature gates of the API server")
    parser.add_argument("--chart", action="append", default=[], metavar="NAME=VALUE", help="a value of the chart")
    parser.add_argument("--detached", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    state = given.state.resolve()
    if given.what == "run":
        sys.exit(run(state, given.boot, given.set, given.jaeger, given.gates, given.chart, not given.detached))
    if given.what == "status":
        facts = standing(state)
        print(json.dumps(facts, indent=2) if facts else "nothing is running")
        sys.exit(0 if facts else 1)
    up(state, given.boot) if given.what == "up" else down(state)


if __name__ == "__main__":
    main()
