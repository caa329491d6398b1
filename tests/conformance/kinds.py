"""Kinds of requests: what is alike of two requests that differ in names, versions and times only, and examples of each."""

import json
import re
import urllib.parse

#: Members whose own members have names that users give.
MAPS = {"annotations", "labels", "capacity", "allocatable", "limits", "requests", "fieldsV1", "matchLabels"}
#: Parameters that are only told of: their values are another's each time.
VALUES = {"watch", "dryRun", "propagationPolicy", "sendInitialEvents", "resourceVersionMatch"}
#: What is another's each time, and what stands for it.
SCRUBBED = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "00000000-0000-4000-8000-000000000000"),
    (re.compile(r"\b(i|ami|subnet|sg|lt|vpc)-[0-9a-f]{8,}\b"), r"\1-00000000000000000"),
    (re.compile(r"\b00-[0-9a-f]{32}-[0-9a-f]{16}-0\d\b"), f"00-{'1' * 32}-{'1' * 16}-01"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"), "2026-01-01T00:00:00.000000Z"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z"), "2026-01-01T00:00:00Z"),
    (re.compile(r"\b(dovetail-\d)_[0-9a-f]+"), r"\1_0"), (re.compile(r"\bip-[0-9-]+\.ec2\.internal"), "node"),
    (re.compile(r"\bdt-[0-9a-f]{32}-\d+"), f"dt-{'0' * 32}-1"), (re.compile(r"http://127\.0\.0\.1:\d+"), "http://127.0.0.1"),
    (re.compile(r"(?<![0-9a-f-])\d{15,}(?![0-9a-f-])"), "1"), (re.compile(r"\b(load-\d)-[0-9a-z]+-[0-9a-z]{5}\b"), r"\1-0"),
    (re.compile(r"\bdefault-[0-9a-z]{5}\b"), "default-0"), (re.compile(r"\bdovetail-term-\d+"), "dovetail-term-1"),
    (re.compile(r"(?<=\.)[0-9a-f]{16}$"), "0"), (re.compile(r"^[0-9a-f]{12,16}-\d{10,}$"), "0-1"),
]
LONG = 300


def place(path):
    """A path's resource with the names taken out, and the names: `/api/v1/namespaces/{namespace}/pods/{name}/eviction`."""
    head = re.match(r"/api/v1|/apis/[^/]+/[^/]+", path)
    rest = path[head.end():].strip("/").split("/") if head else []
    if not head or not rest[0]:
        return path, {}
    names, out = {}, head[0]
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        names["namespace"], out, rest = rest[1], out + "/namespaces/{namespace}", rest[2:]
    out += f"/{rest[0]}"
    if len(rest) > 1:
        names["name"], out = rest[1], out + "/{name}"
    return "/".join([out, *rest[2:]]), names


def of_kube(exchange):
    """The kind of a request to an API server."""
    target = urllib.parse.urlsplit(exchange["target"])
    query = sorted(urllib.parse.parse_qsl(target.query, keep_blank_values=True))
    told = lambda name, value: f"{name}={value}" if name in VALUES else (
        f"{name}={re.sub('=.*', '', value)}" if name.endswith("Selector") else name)
    parameters = "&".join(told(name, value) for name, value in query)
    patch = exchange["headers"].get("content-type", "").removeprefix("application/") if exchange["method"] == "PATCH" else ""
    return " ".join(filter(None, (exchange["method"], place(target.path)[0] + (f"?{parameters}" if parameters else ""), patch)))


def of_aws(exchange):
    """The kind of a request to AWS: its service and action; and its parameters."""
    text = exchange["body"].decode(errors="replace")
    target = exchange["headers"].get("x-amz-target")
    if target:
        return target.replace(".", " "), json.loads(text)
    if text.startswith("Action="):
        given = dict(urllib.parse.parse_qsl(text, keep_blank_values=True))
        given.pop("Version")
        return f"{(exchange.get('service') or ['?'])[0]} {given.pop('Action')}", given
    return f"eks {exchange['method']} {re.sub('(?<=/clusters/)[^/?]+', '{name}', exchange['target'])}", {}


def fields(value, path=""):
    """Paths of the leaves; numbers of lists, and names that users give, are one."""
    if isinstance(value, list):
        return set().union(*(fields(one, f"{path}[]") for one in value)) if value else {path}
    if isinstance(value, dict) and value:
        wild = path.rsplit(".", 1)[-1] in MAPS
        return set().union(*({f"{path}.*"} if wild else fields(one, f"{path}.{key}") for key, one in value.items()))
    return {path}


def parameters(given):
    """The same of parameters of AWS: `Filter.1.Name` is one with `Filter.2.Name`."""
    return {re.sub(r"\.\d+", ".N", path.lstrip(".")) for path in fields(given)}


def scrubbed(value, name=""):
    """An example without what is another's each time."""
    if isinstance(value, dict):
        return {key: scrubbed(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [scrubbed(one, name) for one in value]
    if not isinstance(value, str):
        return value
    if name in ("resourceVersion", "ReceiptHandle"):
        return "0"
    if len(value) > LONG or name.endswith("last-applied-configuration"):
        return "{}" if value.startswith("{") else "dGVzdA=="
    for found, instead in SCRUBBED:
        value = found.sub(instead, value)
    return value


def examples(bodies, of):
    """As few bodies as have all fields that any of them has, the richest first."""
    chosen, known = [], set()
    for body in sorted(bodies, key=lambda one: (-len(of(one)), json.dumps(one, sort_keys=True))):
        if not of(body) <= known:
            chosen.append(scrubbed(body))
            known |= of(body)
    return chosen


def distilled(api, aws):
    """The record of a run: each kind once, with the statuses that it was answered with and examples of what was sent."""
    kube, cloud = {}, {}
    for exchange in api:
        entry = kube.setdefault(of_kube(exchange), {"statuses": set(), "bodies": []})
        entry["statuses"].add(exchange["status"])
        if exchange["body"]:
            entry["bodies"].append(json.loads(exchange["body"]))
    for exchange in aws:
        kind, given = of_aws(exchange)
        entry = cloud.setdefault(kind, {"statuses": set(), "bodies": []})
        entry["statuses"].add(exchange["status"])
        entry["bodies"].append(given)
    short = lambda entries, of: {
        kind: {"statuses": sorted(entry["statuses"] - {0}), "examples": examples(entry["bodies"], of)}
        for kind, entry in sorted(entries.items())}
    return {"kubernetes": short(kube, fields), "aws": short(cloud, parameters)}


def uncovered(record, sent, of):
    """What was sent (kind: bodies) and is not in a record: kinds, and fields of kinds."""
    missing = []
    for kind, bodies in sorted(sent.items()):
        if kind not in record:
            missing.append(kind)
            continue
        known = set().union(set(), *(of(body) for body in record[kind]["examples"]))
        missing += [f"{kind}: {path}" for path in sorted(set().union(set(), *(of(body) for body in bodies)) - known)]
    return missing


def written(record):
    """The record as a file: a line an example."""
    lines = []
    for part, entries in record.items():
        kinds = []
        for kind, entry in entries.items():
            bodies = "".join(f"\n      {json.dumps(body, sort_keys=True)}," for body in entry["examples"]).rstrip(",")
            kinds.append(f'    {json.dumps(kind)}: {{"statuses": {entry["statuses"]}, "examples": [{bodies}]}}')
        lines.append(f'  "{part}": {{\n' + ",\n".join(kinds) + "\n  }")
    return "{\n" + ",\n".join(lines) + "\n}\n"
