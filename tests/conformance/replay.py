"""The recorded requests themselves, sent to both as they were sent: with names, uids and versions of what is there."""

import copy
import json
import re
import urllib.parse

from lives import node, running
from objects import CLAIMS, POOLS, claim, pool
from rules import CLASSES, node_class
from sides import HERE

RECORD = json.loads((HERE / "recorded.json").read_text()) if (HERE / "recorded.json").exists() else {"kubernetes": {}, "aws": {}}
#: Makers of what has to be there beforehand, by resource: where it is created, and what.
BEFORE = {
    "nodeclaims": (CLAIMS, lambda name: claim(name)), "nodepools": (POOLS, lambda name: pool(name)),
    "ec2nodeclasses": (CLASSES, lambda name: node_class(name)), "nodes": ("/api/v1/nodes", lambda name: node(name)),
    "leases": (None, lambda name: {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {"holderIdentity": "x"}}),
}
#: What others write too while it is asked: only this of it is told.
ONLY = {"nodes": ["metadata.labels", "metadata.annotations", "metadata.finalizers", "spec.providerID", "kind"]}


def split(kind):
    """The method, the path, and the parameters of a kind."""
    method, target, *_ = kind.split(" ")
    path, _, query = target.partition("?")
    return method, path, query.split("&") if query else []


def filled(body, name, namespace, live, owner):
    """A recorded body with names, uids and versions of what is there."""
    body = copy.deepcopy(body)
    meta = body.get("metadata", {})
    mine = {"name": name, "namespace": namespace, **{key: live.get(key) for key in ("uid", "resourceVersion")}}
    for thing in (meta, body.get("preconditions", {}), body.get("deleteOptions", {}).get("preconditions", {})):
        thing.update({key: value for key, value in mine.items() if key in thing and value})
    if "involvedObject" in body:
        body["involvedObject"]["namespace"] = namespace
    for reference in meta.get("ownerReferences") or []:
        reference.update(owner)
    return body


def what_a_run_writes_is_taken_alike(it):
    space = it.space()
    made = it.quiet("POST", POOLS, pool("replayed-owner"))
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "replayed-owner", "uid": made["metadata"]["uid"]}
    number = 0
    for kind, entry in RECORD["kubernetes"].items():
        method, path, query = split(kind)
        for example in entry["examples"]:
            number += 1
            name, resource = f"replayed-{number}", re.sub(r"/namespaces/\{namespace\}", "", path).split("/{name}")[0].rsplit("/", 1)[1]
            before = path.replace("{namespace}", it.ns).replace("{name}", name)
            if resource == "pods":
                running(it, space, name, {"app": name})
                live = it.quiet("GET", f"{space}/pods/{name}")["metadata"]
            elif "{name}" in path:
                where, what = BEFORE[resource]
                live = it.quiet("POST", where or before.rsplit("/", 1)[0], what(name))["metadata"]
            else:
                live = {}
            target = before + ("?" + "&".join(query) if query else "")
            patch = kind.rsplit(" ", 1)[1].split("-")[0] if method == "PATCH" else None
            body = filled(example, name, it.ns, live, owner)
            plain = before.removesuffix("/status").removesuffix("/eviction")
            if resource == "nodes" and method != "POST":
                # The controllers write it at the same time: as the binary does, it is read and tried again.
                body = again_until_taken(it, method, target, body, patch, plain)
                it.tell(f"{kind} {number}", {"taken": True})
            elif resource == "pods" and method == "DELETE":
                # What is answered is the pod as others have written it meanwhile; the cases on pods compare that.
                it.quiet(method, target, body)
                it.tell(f"{kind} {number}", {"taken": True})
            else:
                it.do(f"{kind} {number}", method, target, body, patch, expect=201 if method == "POST" else 200)
            if "resourceVersion" in (body.get("metadata") or {}):
                body["metadata"]["resourceVersion"] = "1"
                it.do(f"{kind} {number}, stale", method, target, body, patch, expect=409)
            if resource != "pods" and "dryRun=All" not in query and "{name}" in path and method != "DELETE":
                it.do(f"{kind} {number}, as it is then", "GET", plain, expect=200, only=ONLY.get(resource))
            if resource == "nodes":
                it.side.ask("PATCH", plain, {"metadata": {"finalizers": None}}, "merge")
                it.side.ask("DELETE", plain)


def again_until_taken(it, method, target, body, patch, plain):
    """Sends a write of something that others write, with the version that it has, until it is taken and nobody who had read
    what was there before has undone it."""
    for _ in range(30):
        now = it.quiet("GET", plain)["metadata"]
        body = filled(body, now["name"], it.ns, now, {})
        taken = it.side.ask(method, target, body, patch).status == 200
        if taken and (method != "PATCH" or target != plain or stands(body, it.quiet("GET", plain))):
            return body
    it.must(False, f"{method} {target} is never taken")


def stands(body, there):
    """Whether labels and annotations are as they were written."""
    def own(thing, member):
        return (thing.get("metadata") or {}).get(member) or {}
    return all(own(there, member).get(key) == value for member in ("labels", "annotations") for key, value in own(body, member).items())


def what_a_run_reads_is_answered_alike(it):
    space = it.space()
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "read"}, "spec": {"holderIdentity": "x"}}
    it.quiet("POST", f"/apis/coordination.k8s.io/v1/namespaces/{it.ns}/leases", lease)
    it.quiet("POST", CLAIMS, claim("read"))
    it.quiet("POST", "/api/v1/nodes", node("read"))
    cidr = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "read"}, "spec": {"cidrs": ["10.200.0.0/24"]}}
    it.quiet("POST", "/apis/networking.k8s.io/v1/servicecidrs", cidr)
    for kind, entry in RECORD["kubernetes"].items():
        method, path, query = split(kind)
        if method != "GET":
            continue
        if path in ("/version",) or path.count("/") == 3 and "{" not in path and path.startswith("/apis/"):
            tell_discovery(it, kind, path)
            continue
        if path.startswith("/openapi/"):
            tell_fields(it, kind, path)
            continue
        name = "read"
        if path in ("/api/v1/namespaces/{name}", "/api/v1/namespaces/{namespace}/services/{name}"):
            name = "kube-system" if path.endswith("namespaces/{name}") else "kube-dns"
        path = path.replace("{namespace}", it.ns).replace("{name}", name)
        known = {"limit": "500", "timeoutSeconds": "1", "allowWatchBookmarks": "true", "watch": "true", "dryRun": "All"}
        parameters = {}
        for one in query:
            key, _, value = one.partition("=")
            parameters[key] = f"{value}=read" if key == "fieldSelector" else value or known.get(key, "")
        if "resourceVersion" in parameters:
            parameters["resourceVersion"] = it.quiet("GET", f"{path}?limit=500")["metadata"]["resourceVersion"]
        target = path + ("?" + urllib.parse.urlencode(parameters) if parameters else "")
        if parameters.get("watch"):
            answer = it.side.ask("GET", target)
            told = {"status": answer.status, "type": answer.headers.get("content-type")}
            if "fieldSelector" in parameters:
                told["types"] = sorted({one["type"] for one in answer.events()} - {"BOOKMARK"})
            it.tell(kind, told)
        elif "{name}" in split(kind)[1]:
            it.do(kind, "GET", target, only=["kind", "apiVersion", "metadata.name", "metadata.namespace", *(["spec"] if "servicecidrs" in path else [])])
        else:
            answer = it.do(kind, "GET", target, expect=200, only=["kind", "apiVersion", "metadata"])
            typed = {key for one in answer["items"] for key in ("kind", "apiVersion") if key in one}
            custom = "karpenter" in path
            it.must(not answer["items"] or typed == ({"kind", "apiVersion"} if custom else set()), f"{path}: items have {typed}")
    missing = f"{CLAIMS}/not-read"
    it.do("not there", "GET", missing, expect=404)
    it.side.ask("DELETE", "/api/v1/nodes/read")


def tell_fields(it, kind, path):
    """Which fields of `spec` and `status` the kinds of a group have."""
    def fields(schema, at):
        below = [(f"{at}.{name}", one) for name, one in schema.get("properties", {}).items()]
        below += [(at, schema[part]) for part in ("items", "additionalProperties") if isinstance(schema.get(part), dict)]
        return {at}.union(*(fields(one, name) for name, one in below))

    schemas = it.side.ask("GET", path).json["components"]["schemas"].values()
    marks = [(one["x-kubernetes-group-version-kind"][0], one) for one in schemas if "x-kubernetes-group-version-kind" in one]
    it.tell(kind, {mark["kind"]: sorted(set().union(*(fields(one["properties"][part], part) for part in ("spec", "status") if part in one["properties"])))
                   for mark, one in marks if mark["group"] in path and "spec" in one.get("properties", {})})


def tell_discovery(it, kind, path):
    """What is served, and by which verbs."""
    answer = it.side.ask("GET", path)
    if answer.status == 404:
        # A version that is not served, such as those of before v1, which a replica looks for at its start.
        it.tell(kind, {"status": answer.status})
        return
    found = answer.json
    if path == "/version":
        it.tell(kind, {"members": sorted(name for name in ("major", "minor", "gitVersion", "platform") if found.get(name))})
        return
    for one in found["resources"]:
        one.pop("storageVersionHash", None)
        one["verbs"] = sorted(one["verbs"])
    found["resources"].sort(key=lambda one: one["name"])
    it.tell(kind, found)


CASES = [what_a_run_writes_is_taken_alike, what_a_run_reads_is_answered_alike]
