#!/usr/bin/env python3
"""What a thousand nodes take, and what grows faster than the cluster: `cargo xtask proof scale`.

    python3 tests/growth.py [PART…] [--minutes 20] [--pods 2000 20000] [--rest 60]

Parts: burst (pods of a node each, by EC2's published buckets), killed (the leader is killed at ten moments of a burst, over as many
seeds as fit into a fifth of the time), simulate (what `simulate` itself takes, by size), sizes (CPU of the control plane by size and by
what happens, in `simulate`), processes (two `dovetail run` beside a `dovetail sandbox`: CPU and memory of each process), day (hours of
churn, and memory). All of them unless named; of sizes those of `--pods`, with `--rest`
minutes at rest. Prints the tables of docs/performance.md, and ends with 1 if something is missed. The
binary is `DOVETAIL`, target/release/dovetail unless given.

How the control plane's CPU is told from the sandbox's: in `simulate` both are one thread, so its clock is read around each poll of a
replica, and what the API server took to answer meanwhile is taken off (`simulate --cost`; EC2 answers in tasks of its own, which are
none of a replica's). In `processes` each is a process of its own, and /proc has its CPU and memory.
"""

import argparse
import collections
import concurrent.futures
import datetime
import http.client
import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("DOVETAIL", str(ROOT / "target/release/dovetail"))
FOLDER = ROOT / "target/growth"
PARTS = ("burst", "killed", "simulate", "sizes", "processes", "day")
REGION = "ca-west-1"

CLASS = """apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
---
"""
POOL = """apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  disruption: {disruption}
  template:
    spec:
      expireAfter: Never
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements:
        - {{key: karpenter.sh/capacity-type, operator: In, values: [{bought}]}}
        - {{key: {key}, operator: In, values: [{types}]}}
---
"""
WORKLOAD = """apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}, of: burst}}, annotations: {{example.com/release: "{release}"}}}}
    spec:
      terminationGracePeriodSeconds: 1
{rules}      containers: [{{name: main, image: pause, resources: {{requests: {{cpu: {cpu}m, memory: {memory}Mi}}}}}}]
---
"""
A_NODE_EACH = """      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {of: burst}}}
"""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
CATEGORY = "karpenter.k8s.aws/instance-category"
MISSED = []


def asked(what, reached, most):
    """Notes what is missed; returns the figure as the table has it."""
    if reached > most:
        MISSED.append(f"{what}: {reached:.4g}, asked for are {most} at most")
    return f"{reached:.4g}"


def pool(types, key=INSTANCE_TYPE, bought="on-demand", disruption="{consolidationPolicy: WhenEmpty, consolidateAfter: Never}"):
    return CLASS + POOL.format(types=types, key=key, bought=bought, disruption=disruption)


class Run:
    """A scenario that was played: its report, its events, and what it took."""

    def __init__(self, name, manifests, scenario, seed=1, events=True, cost=False, more=None):
        folder = FOLDER / f"{name}-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "workload.yaml").write_text(manifests)
        for file, text in (more or {}).items():
            (folder / file).write_text(text)
        (folder / "scenario.yaml").write_text(f"region: {REGION}\napply: [workload.yaml]\n{scenario}")
        self.log = folder / "events.jsonl"
        command = [BINARY, "simulate", str(folder / "scenario.yaml"), "--json", "--seed", str(seed)]
        command += ["--events", str(self.log)] if events else []
        command += ["--cost"] if cost else []
        begun = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = child.communicate()
        self.seconds, self.said = time.monotonic() - begun, err
        self.costs = [tuple(map(float, one)) for one in COST.findall(err)]
        if child.returncode not in (0, 1) or not out:
            raise SystemExit(f"{name}: {err[-2000:]}")
        self.report = json.loads(out)
        self.violations = self.report["invariants"]["violations"]
        self.pending = self.report["pods"]["pending"]

    def entries(self):
        with self.log.open() as lines:
            for line in lines:
                yield json.loads(line)

    def holds(self, what, pods):
        """Everything is bound and no invariant is violated."""
        for violation in self.violations[:3]:
            MISSED.append(f"{what}: {violation['id']} {violation['what']}")
        if self.pending or self.report["pods"]["bound"] != pods:
            MISSED.append(f"{what}: {self.report['pods']['bound']} of {pods} pods bound, {len(self.pending)} pending")
        self.log.unlink(missing_ok=True)


COST = re.compile(r"cost at (\d+) s: ([\d.]+) CPU seconds of replicas, ([\d.]+) of all; (\d+) MiB, (\d+) at most")


# -- Bursts


def burst_manifests(pods, shapes):
    if shapes == 1:
        return pool("m5.large, m6i.large") + workload("web", pods, 500, 256, A_NODE_EACH)
    text = pool("c, m, r", CATEGORY)
    for shape in range(shapes):
        share = pods // shapes + (shape < pods % shapes)
        text += workload(f"web-{shape}", share, 300 + 290 * shape, 256 + 640 * (shape % 7), A_NODE_EACH)
    return text


def workload(name, replicas, cpu, memory, rules="", release=1):
    return WORKLOAD.format(name=name, replicas=replicas, cpu=cpu, memory=memory, rules=rules, release=release)


def burst(name, pods, shapes, goals):
    """Plays a burst; a row of its table."""
    run = Run(f"burst-{name}", burst_manifests(pods, shapes), "faults: {ec2: {requestLimits: true}}\nsettled: 1m\nuntil: 40m\n")
    calls, first, bound, begun, ready, writes, throttled = [], None, 0.0, {}, {}, collections.Counter(), 0
    for event in run.entries():
        kind, at = event["kind"], event["t"]
        if kind == "aws" and event.get("action") == "CreateFleet" and event["replica"] is not None:
            calls.append(event.get("sent", {}).get("t", at))
        if kind == "aws" and event.get("code") == "RequestLimitExceeded":
            throttled += 1
        if kind == "api" and event["replica"] is not None and event.get("resource") == "nodeclaims":
            if event["verb"] == "create" and first is None:
                first = at
            writes[event["verb"]] += 1
        if kind == "pod" and event.get("change") == "bound":
            bound = at
        if kind == "instance" and event.get("change") in ("pending", "launched") and event["id"] not in begun:
            begun[event["id"]] = at
        if kind == "node" and event.get("change") == "joined":
            ready.setdefault(event["name"], [event["instance"], None])
        if kind == "node" and event.get("change") == "ready" and event["name"] in ready:
            ready[event["name"]][1] = ready[event["name"]][1] or at
    boots = [at - begun[instance] for instance, at in ready.values() if at and instance in begun]
    slowest = max(boots, default=0.0)
    sent, most = max(calls) - first, goals.get("calls")
    row = [name, f"{pods:,}", str(len(calls)), f"{sent:.1f}", f"{bound - first:.1f}", f"{slowest:.1f}"]
    row += [f"{sum(writes.values()) / pods:.1f}", str(throttled), f"{run.seconds:.1f}"]
    if most:
        asked(f"{name}: CreateFleet calls", len(calls), most)
        asked(f"{name}: seconds to the last call", sent, goals["seconds"])
    if "bound" in goals:
        asked(f"{name}: seconds to the last bound pod, less the slowest boot", bound - first - slowest, goals["bound"])
    run.holds(name, pods)
    return row


def bursts(_):
    print("| burst | pods | CreateFleet calls | last sent, s | all bound, s | slowest boot, s | writes of claims a node | throttled | real s |")
    print("|---|---|---|---|---|---|---|---|---|")
    all_bursts = [
        ("one shape", 1000, 1, {"calls": 20, "seconds": 15, "bound": 15}),
        ("50 shapes", 1000, 50, {"calls": 120, "seconds": 40, "bound": 40}),
        ("hundred", 100, 1, {"calls": 6, "seconds": 3}),
        ("one", 1, 1, {"calls": 1, "seconds": 0.5}),
        ("beyond EC2's thousand", 1300, 1, {}),
    ]
    for one in all_bursts:
        print("| " + " | ".join(burst(*one)) + " |", flush=True)


# -- The leader's end


def killed_once(job):
    pods, seed, moment = job
    steps = f"replicas: 2\nsteps:\n  - {{at: {moment:.2f}s, kill: {{replica: leader, for: 1m}}}}\n"
    run = Run(f"killed-{pods}", burst_manifests(pods, 1), f"{steps}settled: 3m\nuntil: 40m\n", seed, events=False)
    what = f"{pods} pods, killed at {moment:.2f} s, seed {seed}"
    wrong = [f"{what}: {one['id']} {one['what']}" for one in run.violations[:3]]
    nodes, bound = len(run.report["nodes"]), run.report["pods"]["bound"]
    left = run.report["launched"] - run.report["terminated"]
    if run.pending or bound != pods or nodes != pods or left != pods:
        wrong.append(f"{what}: {bound} pods bound on {nodes} nodes, {left} instances left")
    return run.report["launched"] - pods, wrong


def killed(minutes):
    """As many seeds as the time allows, each with its ten moments."""
    rng, until = random.Random(1), time.monotonic() + minutes * 60 / 5
    runs, more, seed = 0, collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        while time.monotonic() < until:
            seed += 1
            pods = 1000 if seed == 1 else 60
            jobs = [(pods, 10 * seed + number, 1.0 + number * 0.45 + rng.uniform(0, 0.45)) for number in range(10)]
            for launched, wrong in threads.map(killed_once, jobs):
                runs += 1
                more[launched] += 1
                MISSED.extend(wrong)
    launched = ", ".join(f"{extra} more in {count}" for extra, count in sorted(more.items()))
    print(f"\nThe leader killed at ten moments of a burst, {runs} runs: launched beyond one a pod, and ended by the janitor: {launched}.")


# -- What simulate itself takes


def cpu_of(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def simulated(_):
    print("\n| `simulate` | CPU s | to 100 nodes | asked |")
    print("|---|---|---|---|")
    taken = {}
    for nodes in (100, 300, 1000):
        folder = FOLDER / f"simulate-{nodes}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "workload.yaml").write_text(burst_manifests(nodes, 1))
        (folder / "scenario.yaml").write_text(f"region: {REGION}\nseed: 1\napply: [workload.yaml]\nuntil: 20m\n")
        taken[nodes] = cpu_of([BINARY, "simulate", str(folder / "scenario.yaml"), "--json"])
        times = taken[nodes] / taken[100]
        goal = "13 times, 40 s" if nodes == 1000 else ""
        print(f"| {nodes} nodes, 20 virtual minutes | {taken[nodes]:.2f} | {times:.1f} | {goal} |", flush=True)
    asked("simulate: CPU of 1,000 nodes to that of 100", taken[1000] / taken[100], 13)
    asked("simulate: CPU seconds of 1,000 nodes", taken[1000], 40)
    least = min(cpu_of([BINARY, "simulate", str(ROOT / "deploy/examples/scenario.yaml"), "--json"]) for _ in range(3))
    print(f"| README's scenario, a virtual minute | {least / 10:.3f} | | 0.1 s |", flush=True)
    asked("simulate: CPU seconds a virtual minute of README's scenario", least / 10, 0.1)


# -- The control plane by size


# Nodes and pods: the second is a tenth of the third.
SIZES = ((100, 1000), (100, 2000), (1000, 20000))


def sizes(pods_played, rest):
    print("\n| nodes | pods | phase | CPU s of the control plane | to a tenth | of all | MiB of all, at most |")
    print("|---|---|---|---|---|---|---|")
    taken = {}
    for nodes, pods in (one for one in SIZES if not pods_played or one[1] in pods_played):
        for phase, own, everything, peak in by_phase(nodes, pods, rest):
            taken[pods, phase] = own
            times = own / max(taken[2000, phase], 0.01) if pods == 20000 and (2000, phase) in taken else 0
            told = asked(f"control plane: {phase}, CPU of 20,000 pods to that of 2,000", times, 13) if times else ""
            print(f"| {nodes:,} | {pods:,} | {phase} | {own:.2f} | {told} | {everything:.2f} | {peak:.0f} |", flush=True)


def shape_of(nodes, pods):
    """Type of the nodes, millicores of a pod, and number of Deployments."""
    kind, vcpus = {10: ("m5.xlarge", 4), 20: ("m5.2xlarge", 8)}[pods // nodes]
    return kind, int((vcpus * 1000 - 200) * nodes / pods), max(1, nodes // 50)


PHASES = ("launch", "an hour at rest", "rolling restart", "a tenth interrupted", "hand-over")


def by_phase(nodes, pods, rest):
    """CPU seconds of the replicas and of all, by phase, and memory."""
    kind, each, groups = shape_of(nodes, pods)

    def manifests(release):
        share = pods // groups
        return pool(kind, bought="spot") + "".join(workload(f"web-{n}", share, each, 128, "", release) for n in range(groups))

    # Beyond EC2's thousand instances a launch lasts.
    begin = 10 + max(0, nodes - 1000) // 100
    at = [begin, begin + rest, begin + rest + 15, begin + rest + 30]
    steps = [
        f"  - {{at: {at[0]}m, scale: {{kind: Deployment, name: web-0, replicas: {pods // groups}}}}}",
        f"  - {{at: {at[1]}m, apply: [second.yaml]}}",
        f"  - {{at: {at[2]}m, interrupt: {{spot: 10%}}}}",
        f"  - {{at: {at[3]}m, kill: {{replica: leader, for: 1m}}}}",
    ]
    scenario = "replicas: 2\nsteps:\n" + "\n".join(steps) + f"\nuntil: {at[3] + 5}m\n"
    run = Run(f"sizes-{nodes}", manifests(1), scenario, events=False, cost=True, more={"second.yaml": manifests(2)})
    before = (0, 0.0, 0.0, 0, 0)
    for phase, cost in zip(PHASES, run.costs):
        yield phase, cost[1] - before[1], cost[2] - before[2], cost[4]
        before = cost
    run.holds(f"sizes: {nodes} nodes", pods)


# -- Processes of their own

TICKS = os.sysconf("SC_CLK_TCK")
# The account's buckets are large: what is measured is the control plane, and not EC2's pace.
LIMITS = "InstancesLaunched=100000/1000,Mutate=1000/100,Describe=1000/200,TerminateInstances=1000/100,Tags=1000/100"


class Live:
    """A sandbox without replicas, and the replicas beside it."""

    def __init__(self, name, manifests):
        self.folder = FOLDER / f"live-{name}"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "workload.yaml").write_text(manifests)
        self.kubeconfig, self.started = self.folder / "kubeconfig", []
        self.kubeconfig.unlink(missing_ok=True)
        files = ["--kubeconfig", str(self.kubeconfig), "-f", str(self.folder / "workload.yaml")]
        command = ["sandbox", "-q", "--replicas", "0", "--serve-aws", "0", "--region", REGION, *files]
        self.sandbox = self.start("sandbox", command, None)
        self.aws = self.hears("sandbox", r"AWS_ENDPOINT_URL=(\S+)")
        self.server = re.search(r'server: "?http://([^"\s]+)', self.kubeconfig.read_text()).group(1)

    def start(self, name, command, env):
        log = (self.folder / f"{name}.log").open("w")
        child = subprocess.Popen([BINARY, *command], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.started.append(child)
        return child

    def replica(self, name):
        own = {"POD_NAME": name, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder), "SYSTEM_NAMESPACE": "kube-system"}
        aws = {"AWS_ENDPOINT_URL": self.aws, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
        ports = {"METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0", "CONSOLE_PORT": "0", "WEBHOOK_ENABLED": "false"}
        return self.start(name, ["run"], {**own, **aws, **ports, "CLUSTER_NAME": "demo", "EC2_LIMITS": LIMITS})

    def hears(self, name, pattern, seconds=60):
        """The first group of a line that a process says within so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = re.search(pattern, (self.folder / f"{name}.log").read_text())
            if found:
                return found.group(1)
            time.sleep(0.05)
        raise SystemExit(f"{name} does not say {pattern!r}")

    def told(self, name, event):
        """Times at which a replica told an event, in seconds of this machine's clock."""
        times = []
        for line in (self.folder / f"{name}.log").read_text().splitlines():
            if f'"event":"{event}"' in line:
                times.append(datetime.datetime.fromisoformat(json.loads(line)["time"].replace("Z", "+00:00")).timestamp())
        return times

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.server, timeout=300)
        kind = {"Content-Type": "application/merge-patch+json"}
        connection.request(method, f"/apis/apps/v1/namespaces/default/deployments/{path}", body, kind)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:300]}")
        return json.loads(text)

    def scale(self, names, replicas):
        for name in names:
            self.ask("PATCH", name, json.dumps({"spec": {"replicas": replicas}}))

    def wait(self, names, replicas, seconds):
        """Waits until all are Ready; answers whether they are."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if all(self.ask("GET", name).get("status", {}).get("readyReplicas", 0) >= replicas for name in names):
                return True
            time.sleep(1)
        return False

    def end(self):
        for child in self.started:
            child.kill()
            child.wait()


def cpu_and_memory(child):
    """CPU seconds so far, MiB now, and MiB at most."""
    spent = pathlib.Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
    status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
    now, most = (int(re.search(rf"{field}:\s+(\d+)", status).group(1)) / 1024 for field in ("VmRSS", "VmHWM"))
    return (int(spent[11]) + int(spent[12])) / TICKS, now, most


def live(nodes, pods):
    """A row of the table of processes: launch, rest, a thousand pods more, another leader."""
    kind, each, groups = shape_of(nodes, pods)
    names, share = [f"web-{n}" for n in range(groups)], pods // groups
    manifests = "".join(workload(name, 0, each, 128) for name in [*names, "more"])
    world = Live(f"{nodes}", pool(kind, bought="spot") + manifests)
    what = f"{nodes:,} nodes and {pods:,} pods as processes"
    try:
        leader = world.replica("one")
        world.hears("one", r'"event":"(elected)"')
        standby = world.replica("two")
        world.scale(names, share)
        if not world.wait(names, share, 1200):
            MISSED.append(f"{what}: not all pods are Ready after 20 minutes")
        launch, beside = cpu_and_memory(leader), cpu_and_memory(standby)
        time.sleep(60)
        rest = (cpu_and_memory(leader)[0] - launch[0]) / 60
        begun = time.time()
        world.scale(["more"], 1000)
        world.wait(["more"], 1000, 300)
        batch = min(at for at in world.told("one", "batched") if at > begun)
        packed = max((at - batch for at in world.told("one", "nodeclaim_created") if at > batch), default=0)
        most = max(cpu_and_memory(one)[2] for one in (leader, standby))
        leader.send_signal(signal.SIGKILL)
        world.scale(["more"], 1000 + 10 * pods // nodes)
        world.hears("two", r'"event":"(elected)"')
        world.hears("two", r'"event":"(nodeclaim_created)"', 120)
        acts = world.told("two", "nodeclaim_created")[0] - world.told("two", "elected")[0]
    finally:
        world.end()
    row = [f"{nodes:,}", f"{pods:,}", f"{launch[0]:.1f}", f"{beside[0]:.1f}", f"{launch[1]:.0f}"]
    row.append(asked(f"{what}: MiB", most, 1536))
    row.append(asked(f"{what}: % of a core at rest", 100 * rest, 5))
    row.append(asked(f"{what}: seconds from a batch of 1,000 pods to the last claim", packed, 1))
    return [*row, asked(f"{what}: seconds from the Lease to a successor's first claim", acts, 5)]


def processes(_):
    print("\n| nodes | pods | leader's CPU s for the launch | standby's | MiB then | MiB at most | % of a core at rest | batch to claims, s | successor acts after, s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for nodes, pods in ((100, 2000), (1000, 20000), (5000, 100000)):
        print("| " + " | ".join(live(nodes, pods)) + " |", flush=True)


# -- A long time


def day(_):
    """Hours of churn: half of the pods' workloads scale up and down, memory at the second hour and at the end."""
    hours, nodes = 6, 200
    text = pool("m5.large, m6i.large", disruption="{consolidateAfter: 30s}")
    text += "".join(workload(f"web-{n}", nodes * 3 // 10, 500, 256) for n in range(10))
    steps, rng = [], random.Random(1)
    for minute in range(20, hours * 60, 20):
        for n in rng.sample(range(10), 3):
            steps.append(f"  - {{at: {minute}m, scale: {{kind: Deployment, name: web-{n}, replicas: {rng.randint(nodes // 10, nodes * 3 // 10)}}}}}")
    run = Run("day", text, "steps:\n" + "\n".join(steps) + f"\nuntil: {hours}h\n", events=False, cost=True)
    second = next(cost for cost in run.costs if cost[0] >= 7200)
    last = run.costs[-2]
    print(f"\n{hours} virtual hours, {nodes} nodes with churn: {second[3]:.0f} MiB after the second hour, {last[3]:.0f} at the end,")
    print("of which the record of all that happened, which `simulate` keeps for its checks, is the largest part.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--pods", type=int, nargs="+", help="sizes to play, by their pods; all unless given")
    parser.add_argument("--rest", type=int, default=60, help="minutes at rest after the launch, in sizes")
    args = parser.parse_args()
    wrong = [part for part in args.parts if part not in PARTS]
    if wrong:
        sys.exit(f"no such part: {', '.join(wrong)} (there are: {', '.join(PARTS)})")
    FOLDER.mkdir(parents=True, exist_ok=True)
    steps = dict(zip(PARTS, (bursts, killed, simulated, lambda _: sizes(args.pods, args.rest), processes, day)))
    for part in args.parts or PARTS:
        steps[part](args.minutes)
    if MISSED:
        sys.exit("\nMissed:\n" + "\n".join(f"- {one}" for one in MISSED))


if __name__ == "__main__":
    main()
