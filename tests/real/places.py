"""Whose time it is that a pod waits: kube-scheduler's, or that of who makes places for it.

Watches tell a `Timeline` of Nodes and pods; `Timeline.places` plays it again and answers, for each pod, when there first was a
place for it: a Node, Ready and without a taint, with room for the pod beside all that waited before it and all that was bound.
What kube-scheduler takes by itself is known of *controls*: pods for which there is always room, on a Node of their own.
"""

import bisect
import http.client
import json
import threading
import time

CONTROL = "control"
#: A control every so many seconds. They stay, as a pod that goes may have kube-scheduler look again at pods that fit nowhere.
EVERY = 1.0
SUFFIXES = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
            "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60}


def amount(text):
    """A quantity as a number."""
    text = str(text)
    digits = text.rstrip("kmMGTPEKi")
    return float(digits) * SUFFIXES.get(text[len(digits):], 1.0)


def asked(pod):
    """What a pod takes of its node: cpu, memory, pods."""
    requests = [one.get("resources", {}).get("requests", {}) for one in pod["spec"]["containers"]]
    return tuple(sum(amount(one.get(name, "0")) for one in requests) for name in ("cpu", "memory")) + (1,)


def room(node):
    """What a Node has for pods that tolerate nothing; `None` while it takes none."""
    spec, status, meta = node.get("spec", {}), node.get("status", {}), node["metadata"]
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", []))
    hard = any(one["effect"] in ("NoSchedule", "NoExecute") for one in spec.get("taints", []))
    if not ready or hard or spec.get("unschedulable") or meta.get("deletionTimestamp"):
        return None
    return tuple(amount(status.get("allocatable", {}).get(name, "0")) for name in ("cpu", "memory", "pods"))


class Timeline:
    """Nodes and pods as watches have told of them. Times are monotonic."""

    def __init__(self):
        #: When, what, whose, and what of it.
        self.moments = []
        self.known = {}
        #: When each pod was created, was first said to fit nowhere, and was bound.
        self.created, self.marked, self.bound = {}, {}, {}

    def note(self, when, what, name, value):
        if self.known.get((what, name)) != (value,):
            self.known[what, name] = (value,)
            self.moments.append((when, what, name, value))

    def node(self, name, node, when):
        """A Node is there, or (`None`) is gone."""
        self.note(when, "room", name, room(node) if node else None)

    def pod(self, name, pod, when):
        """A pod is there, or (`None`) is gone."""
        if pod is None or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return self.note(when, "gone", name, None)
        takes = asked(pod)
        conditions = {one["type"]: one for one in pod.get("status", {}).get("conditions", [])}
        said = conditions.get("PodScheduled", {})
        if said.get("status") == "False" and said.get("reason") == "Unschedulable":
            self.marked.setdefault(name, when)
        if pod["spec"].get("nodeName"):
            self.bound.setdefault(name, when)
            self.note(when, "bound", name, (pod["spec"]["nodeName"], takes))
        elif tolerates_nothing(pod):
            self.note(when, "waits", name, takes)

    def waited(self, name, takes, when):
        """A pod has waited since then that was only seen when it was bound."""
        self.note(when, "waits", name, takes)

    def places(self):
        """When there first was a place for each pod that waited."""
        rooms, waiting, bound, found = {}, {}, {}, {}
        # What came at the same time is there before anybody waits for it.
        order = {"gone": 0, "room": 1, "bound": 2, "waits": 3}
        for when, what, name, value in sorted(self.moments, key=lambda one: (one[0], order[one[1]])):
            if what == "room":
                rooms[name] = value
            elif what == "waits" and name not in bound:
                waiting.setdefault(name, value)
            elif what == "bound":
                if waiting.pop(name, None) is not None:
                    found.setdefault(name, when)
                bound[name] = value
            elif what == "gone":
                waiting.pop(name, None), bound.pop(name, None)
            give(rooms, bound, waiting, lambda pod: found.setdefault(pod, when))
        return found


def give(rooms, bound, waiting, has_place):
    """Gives the room that is free to those that wait, in the order in which they came."""
    free = {name: list(value) for name, value in rooms.items() if value}
    for node, takes in bound.values():
        if node in free:
            free[node] = [left - take for left, take in zip(free[node], takes)]
    for pod, takes in waiting.items():
        for left in free.values():
            if all(has >= take for has, take in zip(left, takes)):
                left[:] = [has - take for has, take in zip(left, takes)]
                has_place(pod)
                break


def tolerates_nothing(pod):
    return not any(one.get("key") == CONTROL for one in pod["spec"].get("tolerations", []))


class Watch(threading.Thread):
    """Hands each object of a path to `hear(name, object or None, when)`, from a list and then a watch, for ever."""

    def __init__(self, kube, path, hear):
        super().__init__(daemon=True)
        self.kube, self.path, self.hear, self.names, self.ended = kube, path, hear, set(), False
        self.list()
        self.start()

    def list(self):
        found, when = self.kube.call("GET", self.path), time.monotonic()
        there = {called(one): one for one in found["items"]}
        for name in self.names - there.keys():
            self.hear(name, None, when)
        self.names = set(there)
        for name, one in there.items():
            self.hear(name, one, when)
        self.version = found["metadata"]["resourceVersion"]

    def run(self):
        while not self.ended:
            # A watch that hears nothing may be one that nobody serves any more.
            connection = http.client.HTTPSConnection(self.kube.address, context=self.kube.tls, timeout=60)
            try:
                self.follow(connection)
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
            connection.close()

    def follow(self, connection):
        more = "&" if "?" in self.path else "?"
        connection.request("GET", f"{self.path}{more}watch=1&resourceVersion={self.version}")
        stream, text = connection.getresponse(), b""
        while read := stream.read1(1 << 16):
            *lines, text = (text + read).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return self.list()
                self.take(event["type"], event["object"])

    def take(self, kind, one):
        self.version = one["metadata"]["resourceVersion"]
        name, when = called(one), time.monotonic()
        if kind == "DELETED":
            self.names.discard(name)
            return self.hear(name, None, when)
        self.names.add(name)
        self.hear(name, one, when)


def called(one):
    return "/".join(filter(None, (one["metadata"].get("namespace"), one["metadata"]["name"])))


def control_node(kube):
    """A Node that is not Dovetail's, on which controls have room whatever happens."""
    kube.create("/api/v1/nodes", {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": CONTROL, "labels": {CONTROL: "yes"}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": [{"key": CONTROL, "effect": "NoSchedule"}]},
        "status": {name: {"cpu": "64", "memory": "64Gi", "pods": "1000"} for name in ("capacity", "allocatable")},
    })


class Controls(threading.Thread):
    """A control after the other. What waits of them is kube-scheduler's alone."""

    def __init__(self, kube, pod):
        super().__init__(daemon=True)
        self.kube, self.ended, self.broken, self.made, self.pod = kube, False, None, {}, pod
        self.start()

    def run(self):
        path = "/api/v1/namespaces/default/pods"
        try:
            while not self.ended:
                begun = time.monotonic()
                name = f"{CONTROL}-{len(self.made)}"
                body = self.pod(name, "1m", "1Mi")
                body["spec"] |= {"nodeSelector": {CONTROL: "yes"}, "tolerations": [{"key": CONTROL, "operator": "Exists"}]}
                self.kube.create(path, body)
                self.made[f"default/{name}"] = time.monotonic()
                time.sleep(max(0.0, begun + EVERY - time.monotonic()))
        except Exception as why:  # Without controls nothing can be said: that is to be seen.
            self.broken = f"{type(why).__name__}: {why}"


class Scheduler:
    """How long kube-scheduler takes by itself, as controls have shown."""

    def __init__(self, made, bound):
        seen = sorted((at, bound[name] - at) for name, at in made.items() if name in bound)
        self.times, self.waits = [at for at, _ in seen], [wait for _, wait in seen]

    def at(self, when):
        """What it took for the control that was created nearest to that time."""
        after = bisect.bisect_left(self.times, when)
        near = [one for one in (after - 1, after) if 0 <= one < len(self.times)]
        return self.waits[min(near, key=lambda one: abs(self.times[one] - when))] if near else 0.0

    def between(self, since, until):
        return sorted(wait for at, wait in zip(self.times, self.waits) if since <= at < until)


class Waited:
    """A pod's time to bound, and what of it is not kube-scheduler's."""

    def __init__(self, created, marked, place, bound, scheduler):
        self.whole = bound - created
        # It had to be told that there is no place, before anybody made one.
        had_none = marked is not None and marked < place
        #: From that to when there was one; `None` for pods that had one.
        self.to_place = place - marked if had_none else None
        looks = (marked - created) + scheduler.at(place) if had_none else scheduler.at(created)
        self.own = max(0.0, self.whole - looks)
