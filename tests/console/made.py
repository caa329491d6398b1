"""A cluster that is made up, served with the console: what no live sandbox has at once, hostile names among it."""

import http.server
import json
import os
import random
import threading
import urllib.parse

PAGE = os.path.join(os.path.dirname(__file__), "../../crates/telemetry/src/console.html")
#: The policy that the real servers send (PAGE_HEADERS).
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'"
GIB = 1 << 30
START = 1_800_000_000
#: What an attacker would like a page or a terminal to take for something else than text.
HOSTILE = ["<img src=x onerror=\"window.hurt=1\">", "</script><script>window.hurt=1</script>", "\u001b[31mred\u001b[0m", "left\u202eright", "a\nb", "javascript:window.hurt=1", "&lt;b&gt;", "__proto__"]


def node(number, pods, state="ready", pool="default", **more):
    dice = random.Random(number)
    capacity, there = dice.choice(["spot", "on-demand"]), state != "launching"
    states = {"ready": ["ready"] * 8 + ["starting", "daemon"], "leaving": ["leaving", "daemon"]}.get(state, ["expected"])
    own = {"key": f"{pool}-{number}", "name": f"ip-10-0-{number // 256}-{number % 256}.ec2.internal" if there else f"{pool}-{number}", "claim": f"{pool}-{number}", "instance": f"i-{number:017x}", "state": state,
           "next": {"launching": "it waits for its instance", "leaving": "its pods are moved"}.get(state, "expires in 700 h"), "joinsBy": START + 700 if state == "launching" else None,
           "type": dice.choice(["m5.large", "c6i.xlarge", "r5.2xlarge"]), "zone": f"us-east-1{dice.choice('abc')}", "capacity": capacity, "pool": pool, "price": 0.04 if capacity == "spot" else 0.1, "onDemand": 0.1, "since": START - 977 * number % 90_000,
           "cpu": [dice.randrange(1000, 8000), 8000] if there else [0, 0], "memory": [dice.randrange(GIB, 32 * GIB), 32 * GIB] if there else [0, 0], "pods": [[f"default/web-{number}-{n}", 500, 1 << 28, states[n % len(states)]] for n in range(pods)], "trace": f"{number:032x}", "end": None}
    return own | more


def sums(nodes):
    states = [one["state"] for one in nodes]
    total = lambda key: [sum(one[key][n] for one in nodes) for n in (0, 1)]  # noqa: E731
    return {"nodesReady": states.count("ready"), "nodesLeaving": states.count("leaving"), "nodesComing": states.count("launching") + states.count("booting"), "pods": sum(len(one["pods"]) for one in nodes),
            "price": sum(one["price"] for one in nodes), "cpu": total("cpu"), "memory": total("memory")}


def pool(name, nodes, limits=(), ready="True", why="", replicas=None):
    limits = [{"resource": resource, "used": str(used), "limit": str(limit), "share": used / limit} for resource, used, limit in limits]
    return {"name": name, "ready": ready, "why": why, "limits": limits, "replicas": replicas} | sums([one for one in nodes if one["pool"] == name])


def group(state, owner, why, count, namespace="default"):
    return {"state": state, "namespace": namespace, "owner": owner, "why": why, "count": count, "pods": [f"{owner}-{n}" for n in range(min(count, 8))], "since": START - 400, "cpu": 500 * count, "memory": count << 28}


def event(number, name="launched", text=None, **fields):
    return {"when": f"{number}.0s 0", "t": number, "actor": "launcher", "event": name, "text": text or f"launched instance i-{number:017x}", "level": "Info", "trace": f"{number:032x}", "fields": fields}


def recorded(kind, name, reason, message, namespace="", warning=True, written=True):
    """A Kubernetes event of Dovetail's."""
    return {"at": START - 60, "kind": kind, "namespace": namespace, "name": name, "warning": warning, "reason": reason, "message": message, "written": written}


def recorded_on_a_bad_day():
    return [recorded("NodePool", "edge", "NodeClassNotReady", "no subnet is selected"), recorded("Pod", "report-0", "FailedScheduling", "limits leave no room", "default"), recorded("Node", "ip-10-0-0-60.ec2.internal", "DisruptionTerminating", "its pods are moved", warning=False),
            recorded("NodeClaim", "default-61", "LaunchHeld", "a ceiling holds it", written=False), recorded("Namespace", "kube-system", "CollectionHeld", "ask an operator")]


def state(nodes, pools=(), waiting=(), timeline=(), turn=0, **more):
    """What /console/state answers: each node has a line of its own."""
    pods = sum(len(one["pods"]) for one in nodes)
    own = {"now": START + turn, "cluster": "demo", "about": "A cluster that is made up.", "traces": "", "leader": "dovetail-0", "term": 1, "actors": [["packer", [["handled", turn]]], ["launcher", [["queued", 0]]]], "ec2": None, "held": [], "events": [], "pools": list(pools), "totals": sums(nodes),
           "waiting": list(waiting), "waitingTotal": sum(one["count"] for one in waiting), "pods": {"bound": pods, "total": pods}, "price": sum(one["price"] for one in nodes), "saved": 3.5,
           "cost": [[START - 3600 + 5 * t, 10 + 4 * (t // 90 % 3) + .1 * (t % 7), 16 + 4 * (t // 90 % 3)] for t in range(720)], "timeline": list(timeline)} | more
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in nodes)
    return f'{{"nodes":[\n{lines}\n],\n{json.dumps(own)[1:]}'.encode()


def committed(*ids):
    """Reserved Instances of which a quarter is unused."""
    lines = [{"id": name, "cost": 0.54, "unused": 0.12, "ends": "2027-03-01T00:00:00Z"} for name in ids]
    return {"cost": 0.54 * len(ids), "unused": 0.12 * len(ids), "why": "", "lines": lines, "others": 3}


def busy():
    """A cluster on a bad day: a pool that is full, one that is not Ready, pods that wait, a node that is late."""
    nodes = [node(n, 3 + 7 * n % 40) for n in range(40)] + [node(40 + n, 5, pool="batch") for n in range(9)] + [node(60, 9, "leaving"), node(61, 12, "launching"), node(62, 4, "launching", joinsBy=START - 90), node(63, 0, pool="gpu", price=12.24, onDemand=12.24, type="p4d.24xlarge", capacity="on-demand")]
    pools = sorted([pool("default", nodes, [("cpu", 312, 1000)]), pool("batch", nodes, [("cpu", 72, 72), ("memory", 9, 100)]), pool("gpu", nodes, [("nvidia.com/gpu", 8, 8.5)], replicas=1), pool("edge", nodes, ready="False", why="no subnet is selected by its EC2NodeClass")], key=lambda one: -one["price"])
    waits = [group("stuck", "report", "nodepool batch: its limits leave no room: cpu 72 of 72 is used", 25), group("stuck", "huge", "needs 400 CPU, the largest of 714 instance types allows 382.97 CPU", 1), group("expected", "web", "expected on nodeclaim default-61, default-62", 16)]
    return nodes, pools, waits, [event(n, nodepool="default", nodeclaim=f"default-{n}") for n in range(60)]


def hostile():
    """The same with names and messages of an attacker, wherever a name can be."""
    nodes, pools, waits, events = busy()
    for n, text in enumerate(HOSTILE):
        nodes[n] |= {"name": text, "claim": text + "-claim", "zone": text, "type": text, "next": text, "pool": text}
        nodes[n]["pods"][0][0] = "default/" + text
        waits.append(group("stuck", text, text, 2, namespace=text))
        pools.append(pool(text, nodes, ready="False", why=text))
        events.append(event(100 + n, "odd", text, message=text, **{f"field {n}": {"deep": [text]}}))
    return nodes, pools, waits, events


def answer(kind, name, namespace=""):
    """What /console/explain answers, with the name in it."""
    lines = [f"{kind} {namespace}/{name} gets no node", "  created        2027-01-15T08:00:00Z, 400s ago", "  nodepool batch: its limits leave no room: cpu 72 of 72 is used", "    limits            takes 714 instance type(s), 0 left", "", "Any one of these lets it run:", "  - raise spec.limits.cpu of nodepool batch to 73",
             "    then nodepool batch launches a c8i.large, spot in us-east-1c, from $0.0334 an hour"]
    return {"state": "done", "lines": lines}


class Made:
    """Serves the page with states, each turn the next of them."""

    def __init__(self, states):
        self.states, self.polls, self.asked = states, 0, []
        made = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path, query = urllib.parse.urlsplit(self.path)[2:4]
                asked = dict(urllib.parse.parse_qsl(query))
                if path == "/":
                    with open(PAGE, "rb") as file:
                        self.send(file.read(), "text/html; charset=utf-8")
                elif path == "/console/state":
                    made.polls += 1
                    self.send(made.states[made.polls % len(made.states)], "application/json")
                elif path == "/console/explain":
                    made.asked.append(asked)
                    first = sum(one == asked for one in made.asked) == 1
                    self.send(json.dumps({"state": "computing", "seconds": 0} if first else answer(**asked)).encode(), "application/json")
                else:
                    self.send_error(404)

            def send(self, body, kind):
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-security-policy", POLICY)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
