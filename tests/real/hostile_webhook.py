"""A user of `hostile.py` without any right: a pod, as any pod of the cluster, that calls the conversion webhook's port
(docs/decisions/057). The reviews are those of tests/live/run/hostile_reviews.py, from programs of their own, one for each
replica. Beside them the API server has objects converted for somebody who reads v1beta1."""

import collections
import json
import pathlib
import subprocess
import sys
import threading
import time

from cluster import ROOT, die_with_parent
from conversion import BETA, Way, free_port
from hostile_acts import CLAIMS
from kube import Kube, Refused
from load import REPLICAS, comes

NAME = "mallory-webhook"
REVIEWS = ROOT / "tests/live/run/hostile_reviews.py"
#: Each kind of review rests so long between two, and comes from so many addresses.
PAUSE, ADDRESSES = 6.0, 8
#: The share of the time before it begins: what the other users take of memory is there then.
WAITS = 0.3
#: MiB that the replica which does not lead may take while it is called beyond what it had before: docs/guide/threats.md promises
#: that for a whole replica without a cluster's load. The other leads meanwhile, through all that the other users do.
MOST_MIB = 200
#: The chart's limit, in MiB: beyond it either is killed.
LIMIT_MIB = 1024
#: Seconds within which others' small reviews are answered, and what the API server converts for whoever reads v1beta1.
ANSWERED_WITHIN, CONVERTED_WITHIN = 8.0, 12.0
#: Both objects of others' reviews come back converted (hostile_reviews.py).
WELL_MET = "200 2 True"


class Served:
    """Where the replicas serve the webhook, and the one address of all."""

    def __init__(self):
        self.ports = {replica: free_port() for replica in REPLICAS}
        self.way = Way(list(self.ports.values()))

    def settings(self, replica):
        url = f"https://127.0.0.1:{self.way.port}/conversion/karpenter.sh"
        return ["WEBHOOK_ENABLED=true", f"WEBHOOK_PORT={self.ports[replica]}", f"WEBHOOK_URL={url}"]


def converts(kube):
    """Whether v1beta1 is served."""
    try:
        return bool(kube.call("GET", BETA["nodepool"]))
    except (OSError, Refused):
        return False


def memory(pid, proc="/proc"):
    """MiB that a process has in memory, and the most that it had since its start, or since `forget_peak`."""
    text = pathlib.Path(proc, str(pid), "status").read_text()
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return tuple(int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))


def forget_peak(pid, proc="/proc"):
    """The peak is what the process has now."""
    pathlib.Path(proc, str(pid), "clear_refs").write_text("5")


class Caller(threading.Thread):
    """Calls both replicas' webhooks, from some time on."""

    def __init__(self, cluster, served, seconds):
        super().__init__(daemon=True)
        self.name, self.ended, self.broken, self.acts = NAME, False, None, collections.OrderedDict()
        self.served, self.waits, self.seconds = served, WAITS * seconds, (1 - WAITS) * seconds
        self.pids = {replica: cluster.running[replica].pid for replica in REPLICAS}
        #: By replica: MiB before, the peak meanwhile, and what the reviews of others met.
        self.before, self.peak, self.told = {}, {}, {}
        self.start()

    def run(self):
        try:
            comes(lambda: self.ended, self.waits)
            if not self.ended:
                self.call()
        except Exception as why:  # A mistake of this program's is to be seen, not to look like a calm webhook.
            self.broken = f"{type(why).__name__}: {why}"

    def call(self):
        for replica, pid in self.pids.items():
            self.before[replica] = memory(pid)[0]
            forget_peak(pid)
        options = [f"{self.seconds:.0f}", f"--pause={PAUSE}", f"--addresses={ADDRESSES}"]
        started = {replica: subprocess.Popen(
            [sys.executable, REVIEWS, f"127.0.0.1:{port}", *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True, preexec_fn=die_with_parent) for replica, port in self.served.ports.items()}
        for replica, process in started.items():
            said, _ = process.communicate(timeout=self.seconds + 120)
            self.peak[replica] = memory(self.pids[replica])[1]
            self.told[replica] = json.loads(said)
        self.acts.update(acts(self.told.values()))

    def asserted(self):
        """What has to hold, whether it does, and what was seen."""
        more = {replica: self.peak[replica] - self.before[replica] for replica in self.peak}
        mib = ", ".join(f"{replica} {self.before[replica]:.0f}, then {peak:.0f} MiB" for replica, peak in self.peak.items())
        measured = len(more) == len(REPLICAS)
        yield (f"the replica that only answers takes at most {MOST_MIB} MiB more, the leader stays below {LIMIT_MIB} MiB",
               measured and min(more.values()) <= MOST_MIB and max(self.peak.values()) < LIMIT_MIB, mib or "nothing was measured")
        slowest, met = max((one["slowest"] for one in self.told.values()), default=0.0), collections.Counter()
        for one in self.told.values():
            met.update(one["met"])
        yield (f"others' small reviews are converted within {ANSWERED_WITHIN:.0f} s",
               set(met) == {WELL_MET} and slowest <= ANSWERED_WITHIN, f"{dict(met)}, the slowest after {slowest:.1f} s")


def acts(told):
    """What was done, as the other users count it: taken, refused, and the statuses of those."""
    found = {}
    for one in told:
        for what, statuses in one["others"].items():
            entry = found.setdefault(f"reviews: {what}", [0, 0, collections.Counter()])
            for status, count in statuses.items():
                taken = int(status) in (-1, 200)
                entry[0 if taken else 1] += count
                entry[2].update({} if taken else {status: count})
    why = lambda statuses: ", ".join(f"{count} times {status}" for status, count in sorted(statuses.items()))
    return {what: [taken, refused, why(statuses)] for what, (taken, refused, statuses) in found.items()}


class Reader(threading.Thread):
    """Reads v1beta1 as an older client does: a pool every second, and now and then NodeClaims of others."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.kube, self.ended = Kube(cluster.parts.server, cluster.parts.pki, "admin"), False
        self.read, self.slowest, self.failed = 0, 0.0, []
        self.start()

    def run(self):
        lists = CLAIMS.replace("/v1/", "/v1beta1/")
        while not self.ended:
            self.reads(BETA["nodepool"] if self.read % 10 else f"{lists}?limit=5")
            time.sleep(1)

    def reads(self, path):
        begun = time.monotonic()
        self.read += 1
        try:
            self.kube.call("GET", path)
        except (OSError, Refused) as why:
            self.failed.append(f"{path}: {' '.join(str(why).split())[:160]}")
        self.slowest = max(self.slowest, time.monotonic() - begun)

    def asserted(self):
        seen = f"{self.read} times, the slowest after {self.slowest:.1f} s"
        yield (f"the API server converts for those who read v1beta1 within {CONVERTED_WITHIN:.0f} s",
               self.read > 0 and not self.failed and self.slowest <= CONVERTED_WITHIN, "; ".join([seen, *self.failed[:3]]))
