#!/usr/bin/env python3
"""A hostile hour on the real control plane: users with few rights do their worst beside ordinary pods that come and go.

    hostile.py [--minutes MINUTES]      7 minutes of load unless said: three tenths of it quiet, the rest hostile; 2 is short

Fifty ordinary pods a minute come in batches of ten, and go when they have had a node for 25 s. First that is measured in
peace, then while

  mallory-pods      may create pods in one namespace, and nothing else
  mallory-claims    may write NodeClaims and their status
  mallory-nodes     may write Nodes and their status
  mallory-daemons   may create DaemonSets in one namespace: those that fit no node, and many that do
  mallory-kubelet   is the kubelet of one node, with what the Node authorizer and NodeRestriction let one write
  mallory-ports     has no rights at all, and holds connections to the health and metrics ports
  mallory-webhook   has none either, and calls the conversion webhook's port, from three tenths of the hostile time on

do what `hostile_acts.py` and the files beside it list. What the API server itself refuses is counted and said. Instances of
others run beside, in the same account. It has to hold that

  - ordinary pods are bound at most twice as late as in peace, or FEW seconds later where that is more, at the median and for
    nine of ten, and every one is bound: what kube-scheduler takes by itself is taken off, as those who may create pods make it
    slow for everybody (`places.py`). It looks at a pod once to say that there is no place for it, which counts as long as that
    took, and once to bind it, which counts as long as it took for a *control* of that second: a pod for which there is room all
    the time, on a Node that is not Dovetail's;
  - and so are places made: from kube-scheduler's word that there is none for a pod to a Node that is Ready, has no taint, and
    has room for that pod beside all that have waited longer;
  - no instance of others is ended;
  - launches stay within the bound: those of peace for as long, half as many again, one for each claim made by hand, and
    SPARE for what the hostile pods may rightly have;
  - no process and no actor is started again, nothing panics, and /healthz and /readyz answer;
  - a pod with the longest name there is gets its event, as does each DaemonSet that fits nowhere, and the class of a node that
    lies;
  - of what that node says no more than a fifth is believed, and nothing of other types than its own;
  - while the webhook is called the replica that does not lead takes at most 200 MiB more, by /proc, the leader stays below the
    chart's limit, and what others ask them, and what the API server has converted, is answered within seconds;
  - afterwards, when what they made is deleted, nothing of it is left.

Prints tables in Markdown, and a line for each user: what was done, and what was held against it. Ends with 1 when anything was
otherwise.
"""

import argparse
import datetime
import json
import os
import sys
import threading
import time
import typing
import urllib.error
import urllib.request

import build
import hostile_daemons
import hostile_kubelet
import hostile_webhook
from cluster import Cluster
from hostile_account import cleaned, launched, others
from hostile_acts import AGENTS, LONG, NAMESPACE, Claims, Nodes, Pods as HostilePods, Ports, prepare
from joiner import every_instance
from kube import Kube, Refused
from load import REPLICAS, comes, provisioned, until
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
#: Ordinary pods may come so many times as late as in peace, or so many seconds later where that is more.
RATIO, FEW = 2.0, 4.0
#: Whose acts an assertion is about that is about all of them.
EVERYBODY = "everybody"


class Seen:
    """What watches tell of pods and Nodes."""

    def __init__(self, kube):
        self.times, self.wall = Timeline(), time.time() - time.monotonic()
        bound = lambda namespace: f"/api/v1/namespaces/{namespace}/pods?fieldSelector=spec.nodeName%21%3D"
        # A DaemonSet's pod waits for one node alone: it takes no other place, and that one only when it is there.
        self.watches = [Watch(kube, "/api/v1/nodes", self.times.node), Watch(kube, "/api/v1/namespaces/default/pods", self.times.pod),
                        Watch(kube, bound(NAMESPACE), self.guest), Watch(kube, bound(AGENTS), self.times.pod)]

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


#: What is judged, and of which times.
JUDGED = (
    ("from kube-scheduler's \"no place\" to a place", lambda phase: phase.to_place),
    ("time to bound less kube-scheduler's own", lambda phase: phase.own),
)


class Assertion(typing.NamedTuple):
    """What has to hold, of whose acts that is, and what was seen."""

    of: str
    text: str
    holds: bool
    seen: str = ""


def most(before):
    """So late something may be that took so long in peace."""
    return max(RATIO * before, before + FEW)


def of_ordinary_pods(quiet, hostile):
    """All are bound, and in time. What was never measured is infinite, and no time."""
    for phase in (quiet, hostile):
        yield Assertion(EVERYBODY, f"nothing else goes wrong, {phase.name}", not phase.failed, "; ".join(phase.failed[:3]))
        lost = len(phase.made) - len(phase.whole)
        seen = f"{len(phase.whole)} of {len(phase.made)}"
        yield Assertion(EVERYBODY, f"ordinary pods are bound, {phase.name}", not lost, seen)
    for name, of in JUDGED:
        for what, at in SHARES:
            before, now = share(of(quiet), at), share(of(hostile), at)
            seen = f"{now:.1f} s, quiet {before:.1f} s, at most {most(before):.1f} s"
            yield Assertion(EVERYBODY, f"{name}, {what}", now <= most(before) < float("inf"), seen)


def of_users(users, state):
    """What each has tried to bring about and has not."""
    for user in users:
        if user.broken:
            yield Assertion(user.name, "it can go on", False, user.broken)
    yield Assertion("mallory-pods", "the pod with a name of 253 letters has an event that says why it waits", state["event"])
    ended = ", ".join(state["ended"])
    for name in ("mallory-claims", "mallory-nodes"):
        yield Assertion(name, "no instance of others is ended", not ended, ended)
    unnamed = state["not_named"]
    without = f"without: {', '.join(unnamed)}" if unnamed else ""
    yield Assertion("mallory-daemons", "each DaemonSet that fits nowhere has its event", not unnamed, without)
    kubelet, believed = hostile_kubelet.NAME, state["believed"]
    yield Assertion(kubelet, "no more than a fifth is believed, of its own type alone", not believed, "; ".join(believed[:3]))
    yield Assertion(kubelet, "the class has an event that names the node", state["doubted"])
    probes = state["probes"]
    seen = f"{len(probes.failed)} of {probes.asked} failed" + "".join(f"; {why}" for why in probes.failed[:3])
    yield Assertion("mallory-ports", "probes are answered", not probes.failed, seen)
    for one in (state["caller"], state["reader"]):
        for text, holds, seen in one.asserted():
            yield Assertion(hostile_webhook.NAME, text, holds, seen)


def judged(quiet, hostile, users, state):
    """All assertions, and the bound on launches."""
    by_hand = sum(getattr(user, "by_hand", 0) for user in users)
    bound = round(quiet.launches * hostile.seconds / quiet.seconds * 1.5) + by_hand + SPARE
    asserted = [*of_ordinary_pods(quiet, hostile), *of_users(users, state)]
    seen = f"{hostile.launches} instances, at most {bound}"
    asserted.append(Assertion(EVERYBODY, "launches are bounded", hostile.launches <= bound, seen))
    restarts, left = state["restarts"], state["left"]
    asserted.append(Assertion(EVERYBODY, "nothing is started again, nothing panics", not restarts, "; ".join(restarts[:3])))
    seen = f"{len(left)} in all: {'; '.join(left[:5])}" if left else ""
    asserted.append(Assertion(EVERYBODY, "nothing is left over", not left, seen))
    return asserted, bound


def table(quiet, hostile, users, bound, state):
    print(f"\n| ordinary pods | quiet, {quiet.seconds:.0f} s | hostile, {hostile.seconds:.0f} s | at most |\n|---|---|---|---|")
    print(f"| created, and bound | {len(quiet.made)}, {len(quiet.whole)} | {len(hostile.made)}, {len(hostile.whole)} | |")
    print(f"| of those, without a place at first | {len(quiet.to_place)} | {len(hostile.to_place)} | |")
    told = [(name, of, True) for name, of in JUDGED]
    told += [("time to bound", lambda phase: phase.whole, False), ("kube-scheduler's own (controls)", lambda phase: phase.scheduler, False)]
    for name, of, counts in told:
        for what, at in SHARES:
            bound_of = f"{most(share(of(quiet), at)):.1f} s" if counts else ""
            print(f"| {name}, {what} | {share(of(quiet), at):.1f} s | {share(of(hostile), at):.1f} s | {bound_of} |")
    print(f"| instances launched | {quiet.launches} | {hostile.launches} | {bound} |")
    probes = state["probes"]
    print(f"| probes that failed | | {len(probes.failed)} of {probes.asked} | 0 |")
    print(f"| instances of others that were ended | | {len(state['ended'])} of {state['others']} | 0 |")
    print(f"| starts of a process or an actor, panics | | {len(state['restarts'])} | 0 |")
    print("\n| who | what | taken | refused | the first refusal |\n|---|---|---|---|---|")
    for user in users:
        for what, (taken, refused, why) in user.acts.items():
            print(f"| {user.name} | {what} | {taken} | {refused} | {' '.join(why.split())[:160].replace('|', '/')} |")


def line(user, asserted):
    """One line: what a user did, and what was held against it."""
    taken, refused = (sum(act[at] for act in user.acts.values()) for at in (0, 1))
    return f"{user.name}: {len(user.acts)} kinds of acts, {taken} taken, {refused} refused; asserted: {sentence(user.name, asserted)}"


def sentence(name, asserted):
    """What was asserted of somebody's acts, and whether it holds."""
    own = [one for one in asserted if one.of == name]
    each = [f"{one.text}{f' ({one.seen})' if one.seen else ''}: {'ok' if one.holds else 'WRONG'}" for one in own]
    return "; ".join(each) or "that others do not notice"


def end(users, asserted):
    """Says it all at the end; what does not hold."""
    print()
    for user in users:
        print(line(user, asserted))
    print(f"{EVERYBODY}: {sentence(EVERYBODY, asserted)}")
    wrong = [one for one in asserted if not one.holds]
    for one in wrong:
        print(f"WRONG: {one.of}: {one.text}{f': {one.seen}' if one.seen else ''}")
    print("" if wrong else "it held", flush=True)
    return wrong


def begun(cluster):
    """A cluster with replicas that serve the webhook, instances of others, users, and a node that one of these has taken over."""
    served = hostile_webhook.Served()
    kube = provisioned(cluster, served.settings)
    until("v1beta1 is converted", lambda: hostile_webhook.converts(kube))
    image = kube.call("GET", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default")["status"]["amis"][0]["id"]
    foreign = others(cluster, image)
    prepare(cluster, kube)
    control_node(kube)
    return kube, served, foreign, hostile_kubelet.take_over(cluster, kube)


def play(minutes):
    cluster, seconds = Cluster(build.TARGET / "run" / "hostile", boot=1), 60 * minutes
    try:
        kube, served, foreign, node = begun(cluster)
        pids = {replica: cluster.running[replica].pid for replica in REPLICAS}
        seen = Seen(kube)
        controls = Controls(Kube(cluster.parts.server, cluster.parts.pki, "admin"), ordinary)
        quiet = Phase(cluster, seen, foreign, "quiet", seconds * QUIET)
        print(f"quiet: {len(quiet.made)} pods, {quiet.launches} launches", flush=True)
        state = {"others": len(foreign), "probes": Probes(addresses(cluster, "health"))}
        state["reader"] = hostile_webhook.Reader(cluster)
        users = begin(cluster, served, foreign, node, seconds * (1 - QUIET))
        hostile = Phase(cluster, seen, foreign, "hostile", seconds * (1 - QUIET))
        print(f"hostile: {len(hostile.made)} pods, {hostile.launches} launches", flush=True)
        for one in (controls, *users):
            one.ended = True
        for user in users:
            user.join(30)
        state["caller"] = users[-1]
        state["probes"].ended = state["reader"].ended = True
        looked_at(cluster, kube, pids, node, state)
        alive = {one["id"] for one in every_instance(cluster.parts.aws, REGION) if one["state"] == "running"}
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
    asserted, bound = judged(quiet, hostile, users, state)
    table(quiet, hostile, users, bound, state)
    print(f"\nload average {os.getloadavg()[0]:.0f}; the logs are in {cluster.state / 'log'}")
    return end(users, asserted)


def begin(cluster, served, foreign, node, seconds):
    """The users, who begin at once; the last is the one who calls the webhook."""
    ports = [*addresses(cluster, "health").values(), *addresses(cluster, "metrics").values()]
    return [HostilePods(cluster), Claims(cluster, foreign), Nodes(cluster, foreign), hostile_daemons.Daemons(cluster),
            hostile_kubelet.Kubelet(cluster, node), Ports(ports), hostile_webhook.Caller(cluster, served, seconds)]


def looked_at(cluster, kube, pids, node, state):
    """What is there while what the users have made still is. Events may come a moment later."""
    state["restarts"], state["event"] = restarts(cluster, pids), has_event(kube)
    comes(lambda: hostile_kubelet.is_doubted(kube, node) and not hostile_daemons.not_named(kube), 20)
    state["doubted"], state["not_named"] = hostile_kubelet.is_doubted(kube, node), hostile_daemons.not_named(kube)
    state["believed"] = hostile_kubelet.believed(kube, node)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=7.0, help="of load, the start and the end aside")
    sys.exit(1 if play(parser.parse_args().minutes) else 0)
