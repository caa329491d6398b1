#!/usr/bin/env python3
"""The README's first command, then kubectl: what docs/sandbox-session.txt records, played again and checked.

    python3 tests/session.py DOVETAIL KUBECTL              plays it; each check has to hold for this run and for the record
    UPDATE=1 python3 tests/session.py DOVETAIL KUBECTL     writes the record from this run

Times are told, not judged: how long a machine takes is no matter of right or wrong.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs/sandbox-session.txt"
README = ["sandbox", "-f", "deploy/examples/spot.yaml", "-f", "deploy/examples/inflate-400.yaml"]
# Nothing that is waited for takes longer, on however busy a machine.
PATIENCE = 600
HEAD = """\
The README's first command and kubectl, recorded by tests/session.py, which the tests run: each answer is checked there.
Before each command: the seconds since `dovetail` was started, more or fewer as the machine is busy. The port and the kubeconfig's path are shortened; KUBECONFIG is set to it.
"""
BAD = {
    "unknown.yaml": "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: bad}\nspec:\n  disrupton: {consolidateAfter: 30s}\n"
    "  template:\n    spec:\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n      requirements: []\n",
    "wrong.yaml": "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: bad}\nspec:\n  disruption: {consolidateAfter: soon}\n"
    "  template:\n    spec:\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n      requirements: []\n",
}


class Wrong(Exception):
    """An answer is not what it has to be."""


class Sandbox:
    """The process, and what it has said when."""

    def __init__(self, program):
        self.began = time.monotonic()
        env = {name: value for name, value in os.environ.items() if name not in ("CLUSTER_NAME", "AWS_REGION")}
        self.process = subprocess.Popen([program, *README], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
        self.lines, self.told = [], 0
        self.news = threading.Condition()
        self.ended = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            with self.news:
                self.lines.append(line.rstrip("\n"))
                self.news.notify_all()
        with self.news:
            self.ended = True
            self.news.notify_all()

    def until(self, pattern):
        """The lines not yet told, when one of them has the pattern."""
        limit = time.monotonic() + PATIENCE
        with self.news:
            while not any(re.search(pattern, line) for line in self.lines[self.told :]):
                if self.ended or not self.news.wait(limit - time.monotonic()):
                    raise Wrong(f"the sandbox does not say {pattern!r}: {self.lines[-20:]}")
            told, self.told = self.lines[self.told :], len(self.lines)
        return "\n".join(told)

    def end(self):
        """Ctrl-C, and what it says then."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(PATIENCE)
        said = self.until("^stopped")
        return f"{said}\n(exit status {status})"

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def thinned(text):
    """Without what the sandbox says of one pod after the other, but for the first."""
    kept, like, left = [], None, 0
    for line in [*text.split("\n"), ""]:
        of_pod = re.match(r" *[\d.]+s +(\d .*\bpod )\S+/\S+: (.*)", line)
        if of_pod and of_pod.groups() == like:
            left += 1
            continue
        if left:
            kept.append(f"            ({left} more like it)")
        kept.append(line)
        like, left = of_pod and of_pod.groups(), 0
    return "\n".join(kept[:-1])


class Play:
    """The session as it happens. `steps` become the record."""

    def __init__(self, dovetail, kubectl, folder):
        self.kubectl, self.folder = kubectl, folder
        self.steps, self.seen = [], {}
        self.sandbox = Sandbox(dovetail)
        self.kubeconfig = ""

    def shortened(self, text):
        if self.kubeconfig:
            text = text.replace(self.kubeconfig, "/tmp/dovetail-sandbox.kubeconfig")
        return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)

    def note(self, at, command, output):
        """Adds a step, whose checks have to hold."""
        output = thinned(self.shortened(output).rstrip("\n"))
        check(command, output, self.seen)
        self.steps.append((f"{at:.1f}", command, output))
        print(f"{at:7.1f} s  {command}", file=sys.stderr, flush=True)

    def start(self):
        said = self.sandbox.until("batched")
        self.kubeconfig = re.search(r"^kubeconfig: (\S+)", said, re.MULTILINE).group(1)
        self.note(0, "dovetail " + " ".join(README), said)

    def story(self, until):
        """What the sandbox has said since, up to a line."""
        said = self.sandbox.until(until)
        self.note(time.monotonic() - self.sandbox.began, "(the sandbox, meanwhile)", said)

    def run(self, command, status=0):
        """A command with kubectl, as it stands in the record."""
        command = command.format(**self.seen)
        at = time.monotonic() - self.sandbox.began
        env = {**os.environ, "KUBECONFIG": self.kubeconfig, "PATH": f"{pathlib.Path(self.kubectl).parent}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["sh", "-c", command], cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE + 60
        )
        if done.returncode != status:
            raise Wrong(f"{command}: ended with {done.returncode}: {done.stdout}")
        self.note(at, command, done.stdout)

    def end(self):
        self.note(time.monotonic() - self.sandbox.began, "(Ctrl-C)", self.sandbox.end())


WAIT = f"--timeout={PATIENCE}s"


def all_batched(output):
    """All 400 pods are in batches; in one, unless the machine is so busy that a batch's time is over before all are marked."""
    return sum(map(int, re.findall(r"packer +batched (\d+) pods", output))) >= 400


# What the answer to a command has to contain, by how the command begins: patterns of which each is found, or a function that
# says whether it is so. Named groups are kept, and {node} stands for what was kept before; a pattern after a ! is not found anywhere.
CHECKS = [
    ("dovetail sandbox", [
        r"^kubeconfig: /tmp/\S+   \(kubectl --kubeconfig \S+ get nodes\)$", r"^page: http://127\.0\.0\.1:PORT/$", r"^prices of spot capacity are synthetic",
        r"leader +elected by lease", r"packer +batched \d+ pods"]),
    ("kubectl wait --for=jsonpath={.status.readyReplicas}=400", [r"^deployment.apps/inflate condition met$"]),
    ("kubectl get deployment inflate", [r"^NAME +READY +UP-TO-DATE +AVAILABLE +AGE$", r"^inflate +400/400 +400 +400 "]),
    ("kubectl get nodes -L", [r"^ip-\S+ +Ready .* spot$", r"^ip-\S+ +Ready .* on-demand$", r"!NotReady"]),
    ("kubectl get nodes -o wide", [r"^NAME +STATUS +ROLES +AGE +VERSION +INTERNAL-IP +EXTERNAL-IP +OS-IMAGE", r"^ip-\S+ +Ready +<none> "]),
    ("kubectl get nodeclaims", [r"^NAME +TYPE +CAPACITY +ZONE +NODE +READY +AGE", r"^default-\S+ +\S+ +(?:spot|on-demand) +us-east-1\w +ip-\S+ +True "]),
    ("kubectl get pods --field-selector=status.phase!=Running", [r"^No resources found"]),
    ("kubectl logs", [all_batched]),
    ("kubectl scale", [r"^deployment.apps/inflate scaled$"]),
    ("kubectl get nodes,nodeclaims", [r"^No resources found$"]),
    ("kubectl wait --for=jsonpath={.status.readyReplicas}=40 ", [r"^deployment.apps/inflate condition met$"]),
    ("kubectl get nodes --no-headers", [r"^(?P<node>ip-\S+) +Ready "]),
    ("kubectl delete node ", [r"^node \"{node}\" deleted$"]),
    ("kubectl get nodes", [r"^ip-\S+ +Ready ", r"!^{node} "]),
    ("cat unknown.yaml", [r"^  disrupton:"]),
    ("kubectl apply -f unknown.yaml", [r"strict decoding error: unknown field \"spec\.disrupton\""]),
    ("cat wrong.yaml", [r"consolidateAfter: soon"]),
    ("kubectl apply -f wrong.yaml", [r"^The NodePool \"bad\" is invalid: .*spec\.disruption\.consolidateAfter: Invalid value: \"soon\""]),
    ("kubectl get nodepools", [r"^NAME +NODECLASS +NODES +READY +AGE$", r"^default +default +\d+ +True ", r"!^bad"]),
    ("kubectl delete nodepool", [r"^nodepool.karpenter.sh \"default\" deleted$"]),
    ("kubectl wait --for=delete nodeclaims", [r"^nodeclaim.karpenter.sh/default-\S+ condition met$"]),
    ("kubectl get nodepools,nodeclaims,nodes", [r"^No resources found$"]),
    ("kubectl get --raw /sandbox/state", [r"^\"instances\":0$"]),
    ("(Ctrl-C)", [r"^stopped: ", r"^\(exit status 0\)$"]),
]


def check(command, output, seen):
    """Whether an answer is what it has to be; what it names is kept."""
    known = [patterns for start, patterns in sorted(CHECKS, key=lambda one: -len(one[0])) if command.startswith(start)]
    if not known and not command.startswith("("):
        raise Wrong(f"{command}: nothing is known of its answer")
    for pattern in (known or [[]])[0]:
        if callable(pattern):
            if not pattern(output):
                raise Wrong(f"{command}: not so: {pattern.__doc__}\n{output}")
            continue
        absent = pattern.startswith("!")
        wanted = re.sub(r"\{(node)\}", lambda name: re.escape(seen.get(name.group(1), "?")), pattern.lstrip("!"))
        found = re.search(wanted, output, re.MULTILINE)
        if bool(found) == absent:
            raise Wrong(f"{command}: the answer {'has' if absent else 'lacks'} {wanted!r}:\n{output}")
        if found:
            seen.update(found.groupdict())


def session(play):
    """The whole of it."""
    play.start()
    play.run(f"kubectl wait --for=jsonpath={{{{.status.readyReplicas}}}}=400 deployment/inflate {WAIT}")
    play.story("registrar +bound")
    play.run("kubectl get deployment inflate")
    play.run("kubectl get nodes -o wide")
    play.run("kubectl get nodeclaims")
    play.run("kubectl get nodes -L karpenter.sh/capacity-type --no-headers")
    play.run("kubectl get pods --field-selector=status.phase!=Running")
    play.run("kubectl logs -n kube-system -l karpenter=controller --tail=-1 | grep batched")
    play.run("kubectl scale deployment inflate --replicas=0")
    # The claims, as a node may still be on its way when the last pod has its place elsewhere.
    play.run(f"kubectl wait --for=delete nodeclaims --all {WAIT}")
    play.run("kubectl get nodes,nodeclaims")
    play.story("deleted nodeclaim")
    play.run("kubectl scale deployment inflate --replicas=40")
    play.run(f"kubectl wait --for=jsonpath={{{{.status.readyReplicas}}}}=40 deployment/inflate {WAIT}")
    play.run("kubectl get nodes --no-headers")
    play.story("registrar +bound")
    play.run("kubectl delete node {node}")
    play.run(f"kubectl wait --for=jsonpath={{{{.status.readyReplicas}}}}=40 deployment/inflate {WAIT}")
    play.story("deleted nodeclaim")
    play.run("kubectl get nodes")
    for name, text in BAD.items():
        (pathlib.Path(play.folder) / name).write_text(text)
        play.run(f"cat {name}")
        play.run(f"kubectl apply -f {name}", status=1)
    play.run("kubectl get nodepools")
    play.run("kubectl delete nodepool default")
    play.run(f"kubectl wait --for=delete nodeclaims --all {WAIT}")
    play.run("kubectl get nodepools,nodeclaims,nodes")
    play.story("deleted nodeclaim")
    play.run("kubectl get --raw /sandbox/state | grep -o '\"instances\":[0-9]*'")
    play.end()


def written(steps):
    """The record as text."""
    return HEAD + "".join(f"\n# {at} s\n$ {command}\n{output}\n" for at, command, output in steps)


def recorded():
    """The steps of the record."""
    text = RECORD.read_text() if RECORD.exists() else ""
    parts = re.split(r"^# ([\d.]+) s\n\$ (.*)\n", text, flags=re.MULTILINE)
    return list(zip(parts[1::3], parts[2::3], [output.strip("\n") for output in parts[3::3]]))


def held(steps):
    """The record has the same commands as the run, and its answers pass the same checks."""
    seen, record = {}, recorded()
    without = lambda command: re.sub(r"ip-\S+", "NODE", command)
    if [without(command) for _, command, _ in record] != [without(command) for _, command, _ in steps]:
        raise Wrong("docs/sandbox-session.txt records another session; UPDATE=1 writes it anew")
    for _, command, output in record:
        check(command, output, seen)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: session.py DOVETAIL KUBECTL")
    dovetail, kubectl = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as folder:
        play = Play(dovetail, kubectl, folder)
        try:
            session(play)
            if os.environ.get("UPDATE"):
                RECORD.write_text(written(play.steps))
            held(play.steps)
        except (Wrong, subprocess.TimeoutExpired) as why:
            sys.exit(f"session.py: {why}")
        finally:
            play.sandbox.kill()
            if play.kubeconfig:
                pathlib.Path(play.kubeconfig).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
