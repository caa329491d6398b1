#!/usr/bin/env python3
"""A hostile hour on the real control plane: three users who may each do one thing, beside ordinary pods that come and go.

    hostile.py [--minutes MINUTES]      7 minutes of load unless said: three tenths of it quiet, the rest hostile; 2 is short

Fifty ordinary pods a minute come in batches of ten, and go when they have had a node for 25 s. First that is measured in
peace, then while

  mallory-pods     may create pods in one namespace, and nothing else
  mallory-claims   may write NodeClaims and their status
  mallory-nodes    may write Nodes and their status
  mallory-ports    has no rights at all, and holds connections to the health and metrics ports

do what `hostile_acts.py` lists. What the API server itself refuses is counted and said. Instances of others run beside, in the
same account. It has to hold that

  - ordinary pods are bound at most twice as late as in peace, at the median and for nine of ten, and every one is bound: what
    kube-scheduler takes by itself is taken off, as those who may create pods make it slow for everybody (`places.py`). It looks
    at a pod once to say that there is no place for it, which counts as long as that took, and once to bind it, which counts
    as long as it took for a *control* of that second: a pod for which there is room all the time, on a Node that is not
    Dovetail's;
  - and places are made at most twice as late as in peace: from kube-scheduler's word that there is none for a pod to a Node that is
    Ready, has no taint, and has room for that pod beside all that have waited longer;
  - no instance of others is ended;
  - launches stay within the bound: those of peace for as long, half as many again, one for each claim made by hand, and
    SPARE for what the hostile pods may rightly have;
  - no process and no actor is started again, nothing panics, and /healthz and /readyz answer;
  - a pod with the longest name there is gets its event;
  - afterwards, when what they made is deleted, nothing of it is left.

Prints tables in Markdown; ends with 1 when anything was otherwise.
"""

import argparse
import datetime
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as xml

import build
from cluster import Cluster
from hostile_acts import CLAIMS, LONG, NAMESPACE, NODES, Claims, Nodes, Pods as HostilePods, Ports, prepare
from joiner import every_instance
from kube import Kube, Refused
from load import REPLICAS, comes, provisioned
from parts import REGION
from places import Controls, Scheduler, Timeline, Waited, Watch, asked, control_node

#: A batch of so many pods, every so many seconds; each goes when it has had a node for so long.
BATCH, EVERY, LIVES = 10, 12.0, 25.0
CPU, MEMORY = "1", "1Gi"
#: The share of the time that is quiet, and how long one waits for what has to come at an end.
QUIET, PATIENCE = 0.3, 90
#: Launches that the hostile pods may have: nodes for what can run, and for what seems to and does not, as the brake on unused
#: nodes lets one through a minute.
SPARE = 12
RATIO = 2.0


class Seen:
    """What watches tell of pods and Nodes."""

    def __init__(self, kube):
        self.times, self.wall = Timeline(), time.time() - time.monotonic()
        guests = f"/api/v1/namespaces/{NAMESPACE}/pods?fieldSelector=spec.nodeName%21%3D"
        self.watches = [Watch(kube, "/api/v1/nodes", self.times.node), Watch(kube, "/api/v1/namespaces/default/pods", self.times.pod),
                        Watch(kube, guests, self.guest)]

    def guest(self, name, pod, when):
        """Pods of the users' are only seen once they are bound: there are many, and large ones. They have waited as well."""
        if pod:
            created = datetime.datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp() - self.wall
            self.times.waited(name, asked(pod), min(created, when))
        self.times.pod(name, pod, when)

    def end(self):
        for watch in self.watches:
            watch.ended = True


class Shop(threading.Thread):
    """The ordinary pods: created, and deleted again."""

    def __init__(self, cluster, seen, phase, seconds):
        super().__init__(daemon=True)
        self.kube = Kube(cluster.parts.server, cluster.parts.pki, "admin")
        self.phase, self.bound, self.made, self.failed = phase, seen.times.bound, {}, []
        self.ends, self.ended = time.monotonic() + seconds, False
        self.start()

    def run(self):
        try:
            self.trade()
        except (OSError, Refused) as why:
            self.failed.append(str(why))

    def trade(self):
        live, number, next_batch = [], 0, time.monotonic()
        while (live and not self.ended) or time.monotonic() < self.ends:
            now = time.monotonic()
            if now >= next_batch and now < self.ends:
                for _ in range(BATCH):
                    name = f"shop-{self.phase}-{number}"
                    number += 1
                    self.kube.create("/api/v1/namespaces/default/pods", ordinary(name))
                    self.made[f"default/{name}"] = time.monotonic()
                    live.append(name)
                next_batch += EVERY
            over = [name for name in live if self.bound.get(f"default/{name}", now) <= now - LIVES]
            for name in over:
                live.remove(name)
                self.delete(name)
            time.sleep(0.1)

    def delete(self, name):
        try:
            self.kube.call("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")
        except Refused as refused:
            if refused.status != 404:
                raise


def ordinary(name, cpu=CPU, memory=MEMORY):
    """A pod that asks for nothing special; by default it takes a node's CPU."""
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "shop"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }


class Probes(threading.Thread):
    """What a kubelet does: asks the replicas again and again how they are."""

    def __init__(self, addresses):
        super().__init__(daemon=True)
        self.addresses, self.ended, self.asked, self.failed = addresses, False, 0, []
        self.start()

    def run(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while not self.ended:
            for replica, address in self.addresses.items():
                for path in ("healthz", "readyz"):
                    self.asked += 1
                    try:
                        with opener.open(f"http://{address}/{path}", timeout=5) as answer:
                            answer.read()
                    except urllib.error.HTTPError as error:
                        self.failed.append(f"{replica} /{path}: {error.code} {error.read(200).decode(errors='replace').strip()}")
                    except OSError as error:
                        self.failed.append(f"{replica} /{path}: {error}")
            time.sleep(1)


def said(cluster, replica):
    """The lines of a replica's log that are JSON."""
    for line in (cluster.state / "log" / f"{replica}.log").read_text(errors="replace").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def addresses(cluster, port):
    """Where the replicas serve health or metrics."""
    return {replica: next(line[port] for line in said(cluster, replica) if line.get(port)) for replica in REPLICAS}


def ec2(aws, action, **parameters):
    """A call to moto; what it answers, as XML."""
    query = {"Action": action, "Version": "2016-11-15"} | {name.replace("__", "."): value for name, value in parameters.items()}
    scope = f"Credential=others/20200101/{REGION}/ec2/aws4_request"
    headers = {"authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0"}
    with urllib.request.urlopen(urllib.request.Request(aws, urllib.parse.urlencode(query).encode(), headers), timeout=30) as answer:
        return xml.parse(answer).getroot()


def others(cluster, image):
    """Instances that are not Dovetail's: without a tag, of another cluster's Karpenter, and of this cluster's node group."""
    tags = (
        {},
        {"kubernetes.io/cluster/other": "owned", "karpenter.sh/nodepool": "default", "karpenter.sh/nodeclaim": "default-x"},
        {"kubernetes.io/cluster/demo": "owned", "eks:cluster-name": "demo", "eks:nodegroup-name": "system"},
    )
    made = []
    for own in tags:
        parameters = {"ImageId": image, "MinCount": 1, "MaxCount": 1, "InstanceType": "m5.large"}
        if own:
            parameters["TagSpecification__1__ResourceType"] = "instance"
        for number, (key, value) in enumerate(own.items(), 1):
            parameters |= {f"TagSpecification__1__Tag__{number}__Key": key, f"TagSpecification__1__Tag__{number}__Value": value}
        answer = ec2(cluster.parts.aws, "RunInstances", **parameters)
        made += [item.text for item in answer.iter() if item.tag.rpartition("}")[2] == "instanceId"]
    return made


def launched(cluster, foreign):
    """All instances that were ever launched for the cluster."""
    return {one["id"] for one in every_instance(cluster.parts.aws, REGION)} - set(foreign)


class Phase:
    """A time of ordinary pods, and what came of them."""

    def __init__(self, cluster, seen, foreign, name, seconds):
        self.name, self.seconds, self.since = name, seconds, time.monotonic()
        before = launched(cluster, foreign)
        shop = Shop(cluster, seen, name, seconds)
        shop.join(seconds + LIVES + PATIENCE)
        shop.ended = True
        shop.join(PATIENCE / 3)
        self.failed, self.made, self.until = shop.failed, dict(shop.made), time.monotonic()
        self.launches = len(launched(cluster, foreign) - before)
        if shop.is_alive():
            self.failed.append("the ordinary pods' own client hangs")

    def judge(self, times, places, controls):
        """Whose time it was that they waited."""
        scheduler = Scheduler(controls.made, times.bound)
        pods = [Waited(at, times.marked.get(name), places.get(name, times.bound[name]), times.bound[name], scheduler)
                for name, at in self.made.items() if name in times.bound]
        self.whole, self.own = sorted(pod.whole for pod in pods), sorted(pod.own for pod in pods)
        self.to_place = sorted(pod.to_place for pod in pods if pod.to_place is not None)
        self.scheduler = scheduler.between(self.since, self.until)
        lost = [name for name, at in controls.made.items() if self.since <= at < self.until - PATIENCE and name not in times.bound]
        self.failed += [f"{len(lost)} controls were never bound"] if lost else []


def share(times, share):
    """So large a share came within so many seconds."""
    return times[min(len(times) - 1, int(share * len(times)))] if times else float("inf")


#: The shares that are judged.
SHARES = (("median", 0.5), ("nine of ten", 0.9))


def restarts(cluster, pids):
    """What was started again, or panicked."""
    wrong = []
    for replica in REPLICAS:
        process = cluster.running[replica]
        if process.poll() is not None or process.pid != pids[replica]:
            wrong.append(f"{replica} has ended with {process.poll()}: {cluster.tail(replica)}")
        for line in said(cluster, replica):
            if line.get("event") in ("restarting", "exiting") or line.get("logger") == "panic":
                wrong.append(f"{replica}: {line.get('event') or 'panic'}: {str(line.get('message'))[:300]}")
    return wrong


def has_event(kube):
    """Whether the pod with the longest name was told why it waits."""
    events = kube.list(f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name%3D{LONG}")
    return any(one.get("reportingComponent") == "karpenter" for one in events)


def cleaned(cluster, kube, foreign):
    """Takes away what the users have made; what is left of it that should not be."""
    for path, ours in ((CLAIMS, "hostile"), (NODES, "hostile")):
        for one in kube.list(path):
            if one["metadata"].get("labels", {}).get(ours) == "yes":
                delete(kube, f"{path}/{one['metadata']['name']}")
    delete(kube, f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0")
    last = []
    def settled():
        last[:] = leftovers(cluster, kube, foreign)
        return not last
    comes(settled, 2 * PATIENCE)
    return last


def delete(kube, path):
    try:
        kube.call("DELETE", path)
    except Refused as refused:
        if refused.status != 404:
            raise


def leftovers(cluster, kube, foreign):
    """Claims and instances that are not one to one, and objects of the users' that do not go."""
    claims, nodes = kube.list(CLAIMS), kube.list(NODES)
    machine = lambda one: one.get("status", {}).get("providerID", "").rsplit("/", 1)[-1]
    running = {one["id"] for one in every_instance(cluster.parts.aws, REGION) if one["state"] == "running"} - set(foreign)
    of = {machine(one): one["metadata"]["name"] for one in claims}
    stay = [one["metadata"]["name"] for one in claims + nodes if one["metadata"].get("labels", {}).get("hostile") == "yes"]
    return ([f"{name} is still there" for name in stay] + [f"instance {one} runs without a NodeClaim" for one in running - of.keys()]
            + [f"NodeClaim {name} has no running instance" for one, name in of.items() if one not in running])


#: What is judged, and of which times.
JUDGED = (
    ("from kube-scheduler's \"no place\" to a place", lambda phase: phase.to_place),
    ("time to bound less kube-scheduler's own", lambda phase: phase.own),
)


def judged(quiet, hostile, users, state):
    """What did not hold, and the bound on launches."""
    by_hand = users[1].by_hand
    bound = round(quiet.launches * hostile.seconds / quiet.seconds * 1.5) + by_hand + SPARE
    wrong = [f"{phase.name}: {why}" for phase in (quiet, hostile) for why in phase.failed]
    for phase in (quiet, hostile):
        if len(phase.whole) < len(phase.made):
            wrong.append(f"{phase.name}: {len(phase.made) - len(phase.whole)} of {len(phase.made)} ordinary pods were never bound")
    for name, of in JUDGED:
        for what, at in SHARES:
            before, now = share(of(quiet), at), share(of(hostile), at)
            # Also where one of them is infinite, as nothing was measured.
            if not now <= RATIO * before < float("inf"):
                wrong.append(f"{name}, {what}: {now:.1f} s, quiet {before:.1f} s (at most {RATIO} times that)")
    if hostile.launches > bound:
        wrong.append(f"{hostile.launches} instances were launched, at most {bound} were to be")
    if not state["event"]:
        wrong.append("the pod with a name of 253 letters has no event that says why it waits")
    wrong += [f"instance {one} of others was ended" for one in state["ended"]]
    wrong += state["restarts"][:10]
    if state["left"]:
        wrong.append(f"left over, {len(state['left'])} in all: {'; '.join(state['left'][:5])}")
    wrong += [f"{user.name} could not go on: {user.broken}" for user in users if user.broken]
    if state["probes"].failed:
        few = "; ".join(state["probes"].failed[:3])
        wrong.append(f"{len(state['probes'].failed)} of {state['probes'].asked} probes failed: {few}")
    return wrong, bound


def table(quiet, hostile, users, bound, state):
    print(f"\n| ordinary pods | quiet, {quiet.seconds:.0f} s | hostile, {hostile.seconds:.0f} s | at most |\n|---|---|---|---|")
    print(f"| created, and bound | {len(quiet.made)}, {len(quiet.whole)} | {len(hostile.made)}, {len(hostile.whole)} | |")
    print(f"| of those, without a place at first | {len(quiet.to_place)} | {len(hostile.to_place)} | |")
    told = [(name, of, True) for name, of in JUDGED]
    told += [("time to bound", lambda phase: phase.whole, False), ("kube-scheduler's own (controls)", lambda phase: phase.scheduler, False)]
    for name, of, counts in told:
        for what, at in SHARES:
            most = f"{RATIO * share(of(quiet), at):.1f} s" if counts else ""
            print(f"| {name}, {what} | {share(of(quiet), at):.1f} s | {share(of(hostile), at):.1f} s | {most} |")
    print(f"| instances launched | {quiet.launches} | {hostile.launches} | {bound} |")
    probes = state["probes"]
    print(f"| probes that failed | | {len(probes.failed)} of {probes.asked} | 0 |")
    print(f"| instances of others that were ended | | {len(state['ended'])} of {state['others']} | 0 |")
    print(f"| starts of a process or an actor, panics | | {len(state['restarts'])} | 0 |")
    print("\n| who | what | taken | refused | the API server's first refusal |\n|---|---|---|---|---|")
    for user in users:
        for what, (taken, refused, why) in user.acts.items():
            print(f"| {user.name} | {what} | {taken} | {refused} | {' '.join(why.split())[:160].replace('|', '/')} |")
    sys.stdout.flush()


def play(minutes):
    cluster, seconds = Cluster(build.TARGET / "run" / "hostile", boot=1), 60 * minutes
    try:
        kube = provisioned(cluster)
        image = kube.call("GET", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default")["status"]["amis"][0]["id"]
        foreign = others(cluster, image)
        prepare(cluster, kube)
        pids = {replica: cluster.running[replica].pid for replica in REPLICAS}
        control_node(kube)
        seen = Seen(kube)
        controls = Controls(Kube(cluster.parts.server, cluster.parts.pki, "admin"), ordinary)
        quiet = Phase(cluster, seen, foreign, "quiet", seconds * QUIET)
        print(f"quiet: {len(quiet.made)} pods, {quiet.launches} launches", flush=True)
        probes = Probes(addresses(cluster, "health"))
        ports = [*addresses(cluster, "health").values(), *addresses(cluster, "metrics").values()]
        users = [HostilePods(cluster), Claims(cluster, foreign), Nodes(cluster, foreign), Ports(ports)]
        hostile = Phase(cluster, seen, foreign, "hostile", seconds * (1 - QUIET))
        print(f"hostile: {len(hostile.made)} pods, {hostile.launches} launches", flush=True)
        controls.ended = True
        for user in users:
            user.ended = True
        for user in users:
            user.join(30)
        probes.ended = True
        alive = {one["id"] for one in every_instance(cluster.parts.aws, REGION) if one["state"] == "running"}
        state = {"probes": probes, "others": len(foreign), "restarts": restarts(cluster, pids), "event": has_event(kube)}
        # Also by what is still to be ended when the claims that named them go.
        state["left"] = cleaned(cluster, kube, foreign)
        late = {one["id"] for one in every_instance(cluster.parts.aws, REGION) if one["state"] == "running"}
        state["ended"] = [one for one in foreign if one not in alive & late]
        seen.end()
    finally:
        cluster.end()
    places = seen.times.places()
    for phase in (quiet, hostile):
        phase.judge(seen.times, places, controls)
        phase.failed += [f"no controls: {controls.broken}"] if controls.broken else []
    wrong, bound = judged(quiet, hostile, users, state)
    table(quiet, hostile, users, bound, state)
    print(f"\nload average {os.getloadavg()[0]:.0f}; the logs are in {cluster.state / 'log'}")
    print("".join(f"WRONG: {line}\n" for line in wrong) or "it held", flush=True)
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=7.0, help="of load, the start and the end aside")
    sys.exit(1 if play(parser.parse_args().minutes) else 0)
