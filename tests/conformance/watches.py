"""Cases of lists and watches: what is selected, in what pages, from when on, in what order."""

import json
import threading
import time
import urllib.parse

from lives import pod
from objects import CLAIMS, MAPS, POOLS, claim, config_map, pool


def told(event):
    """What is alike on both of an event: its kind, its object's name, labels and data."""
    thing = event["object"]
    if event["type"] == "ERROR":
        return {"type": "ERROR", "code": thing["code"], "reason": thing["reason"]}
    meta = thing["metadata"]
    return {"type": event["type"], "kind": thing["kind"], "apiVersion": thing["apiVersion"], "name": meta.get("name"),
            "labels": meta.get("labels"), "annotations": meta.get("annotations"), "data": thing.get("data")}


def watched(it, path, seconds=3):
    """The events of a watch that ends by itself, and when one that came has come."""
    return it.side.ask("GET", f"{path}{'&' if '?' in path else '?'}watch=true&timeoutSeconds={seconds}")


def a_watch_tells_what_came_since(it):
    maps = f"{it.space()}/{MAPS}"
    it.quiet("POST", maps, config_map("before"))
    listed = it.quiet("GET", maps)["metadata"]["resourceVersion"]
    it.quiet("POST", maps, config_map("a", labels={"g": "x"}))
    it.quiet("PATCH", f"{maps}/a", {"data": {"a": "2"}}, "merge")
    it.quiet("PATCH", f"{maps}/a", {"metadata": {"labels": {"g": "y"}}}, "merge")
    it.quiet("DELETE", f"{maps}/a")
    it.quiet("DELETE", f"{maps}/before")
    since = f"{maps}?resourceVersion={listed}"
    events = [one for one in watched(it, since).events() if one["object"]["metadata"]["name"] != "kube-root-ca.crt"]
    it.tell("since", [told(one) for one in events])
    versions = [int(one["object"]["metadata"]["resourceVersion"]) for one in events]
    it.must(versions == sorted(set(versions)) and versions[0] > int(listed), f"in order, each later: {versions}")
    it.tell("selected", [told(one) for one in watched(it, f"{since}&labelSelector=g%3Dx").events()])
    it.tell("one", [told(one) for one in watched(it, f"{since}&fieldSelector=metadata.name%3Dbefore").events()])


def a_watch_without_a_version_begins_with_all(it):
    maps = f"{it.space()}/{MAPS}"
    for name in ("a", "b"):
        it.quiet("POST", maps, config_map(name, labels={"own": "yes"}))
    for label, query in (("none", ""), ("zero", "&resourceVersion=0")):
        found = watched(it, f"{maps}?labelSelector=own{query}", 2).events()
        it.tell(label, sorted((told(one) for one in found), key=lambda one: one["name"]))
    streamed = f"{maps}?labelSelector=own&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    found = [one for one in watched(it, streamed, 2).events()]
    ends = [n for n, one in enumerate(found) if (one["object"]["metadata"].get("annotations") or {}).get("k8s.io/initial-events-end")]
    it.must(ends == [2], f"two objects, then the bookmark: {found}")
    it.tell("streamed", sorted((told(one) for one in found[:3]), key=lambda one: one["name"] or ""))
    for label, query in (("without a match", "sendInitialEvents=true"), ("exactly", "sendInitialEvents=true&resourceVersionMatch=Exact"),
                         ("match without a version", "resourceVersionMatch=Exact")):
        it.do(label, "GET", f"{maps}?watch=true&timeoutSeconds=1&{query}", expect=422)


def a_watch_goes_on_while_things_happen_and_has_bookmarks(it):
    maps = f"{it.space()}/{MAPS}"
    listed = it.quiet("GET", maps)["metadata"]["resourceVersion"]
    answers = []
    ask = lambda: answers.append(watched(it, f"{maps}?allowWatchBookmarks=true&resourceVersion={listed}&labelSelector=own", 6))
    watching = threading.Thread(target=ask)
    watching.start()
    time.sleep(0.5)
    it.quiet("POST", maps, config_map("a", labels={"own": "yes"}))
    time.sleep(0.5)
    it.quiet("DELETE", f"{maps}/a")
    watching.join()
    answer = answers[0]
    it.tell("status", {"status": answer.status, "type": answer.headers["content-type"]})
    it.tell("events", [told(one) for one in answer.events() if one["type"] != "BOOKMARK"])
    marks = [one for one in answer.events() if one["type"] == "BOOKMARK"]
    it.must(len(marks) >= 1, "a bookmark before the end")
    it.tell("bookmark", {"kind": marks[-1]["object"]["kind"], "apiVersion": marks[-1]["object"]["apiVersion"]})
    it.must(int(marks[-1]["object"]["metadata"]["resourceVersion"]) >= int(answer.events()[1]["object"]["metadata"]["resourceVersion"]), marks)


def versions_are_what_a_reader_may_ask_for(it):
    maps = f"{it.space()}/{MAPS}"
    it.quiet("POST", maps, config_map("a", labels={"own": "yes"}))
    own = f"{maps}?labelSelector=own"
    version = it.quiet("GET", own)["metadata"]["resourceVersion"]
    it.quiet("PATCH", f"{maps}/a", {"data": {"a": "2"}}, "merge")
    for label, query in (
        ("any", "resourceVersion=0"), ("not older", f"resourceVersion={version}&resourceVersionMatch=NotOlderThan"),
        ("exactly", f"resourceVersion={version}&resourceVersionMatch=Exact"),
    ):
        it.do(label, "GET", f"{own}&{query}", expect=200, only=["kind", "items"] if label == "exactly" else ["kind"])
    for label, query in (
        ("a word", "resourceVersion=new"), ("exactly any", "resourceVersion=0&resourceVersionMatch=Exact"),
        ("a match alone", "resourceVersionMatch=NotOlderThan"), ("no such match", "resourceVersion=5&resourceVersionMatch=About"),
        ("a limit that is none", "limit=many"), ("a time that is none", "timeoutSeconds=soon"),
    ):
        it.do(label, "GET", f"{own}&{query}", only_reason=True)
    it.do("object at any", "GET", f"{maps}/a?resourceVersion=0", expect=200, only=["kind"])
    it.do("the future", "GET", f"{own}&resourceVersion=999999999&resourceVersionMatch=NotOlderThan", expect=504, only=["never"])


def pages_follow_each_other(it):
    maps = f"{it.space()}/{MAPS}"
    for name in "abcde":
        it.quiet("POST", maps, config_map(name, labels={"own": "yes"}))
    own = f"{maps}?labelSelector=own"
    first = it.do("first", "GET", f"{own}&limit=2", expect=200, only=["kind", "metadata", "items"])
    it.quiet("DELETE", f"{maps}/d")
    token = urllib.parse.quote(first["metadata"]["continue"])
    second = it.do("second", "GET", f"{own}&limit=2&continue={token}", expect=200, only=["kind", "metadata", "items"])
    it.must([one["metadata"]["name"] for one in second["items"]] == ["c", "d"], "a list is of one moment")
    it.must(second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"], "which its version names")
    token = urllib.parse.quote(second["metadata"]["continue"])
    it.do("third", "GET", f"{own}&limit=2&continue={token}", expect=200, only=["kind", "metadata", "items"])
    it.do("all", "GET", f"{own}&limit=500", expect=200, only=["metadata"])
    it.do("unselected", "GET", f"{maps}?limit=1&fieldSelector=metadata.namespace%3D{it.ns}", expect=200, only=["metadata"])
    it.do("no token", "GET", f"{own}&limit=2&continue=x", only_reason=True)
    it.do("with a version", "GET", f"{own}&limit=2&continue={token}&resourceVersion=5", only_reason=True)
    of_ours = f"{POOLS}?labelSelector=pages"
    for name in "ab":
        it.quiet("POST", POOLS, pool(f"page-{name}") | {"metadata": {"name": f"page-{name}", "labels": {"pages": ""}}})
    it.do("of ours", "GET", f"{of_ours}&limit=1", expect=200, only=["kind", "metadata", "items"])


def labels_and_fields_select(it):
    space = it.space()
    for name, labels in (("a", {"x": "1", "y": "1"}), ("b", {"x": "2"}), ("c", {"y": "2"})):
        it.quiet("POST", f"{space}/pods", pod(name, labels))
    ask = lambda kind, query: f"{space}/pods?{kind}Selector={urllib.parse.quote(query)}"
    names = lambda answer: [one["metadata"]["name"] for one in answer["items"]]
    for query in ("x=1", "x==1", "x!=1", "x in (1,2)", "x notin (1)", "x", "!x", "x,y", "x=1,y in (1,2),!z"):
        it.tell(query, names(it.quiet("GET", ask("label", query))))
    for query in ("metadata.name=a", "metadata.name!=a", "spec.nodeName=", "status.phase=Pending", "spec.schedulerName=nobody",
                  "status.phase!=Running,metadata.name=b"):
        it.tell(query, names(it.quiet("GET", ask("field", query))))
    for kind, query in (("label", "x in"), ("label", "=1"), ("label", "x=a b"), ("field", "spec.none=1"), ("field", "x"), ("label", "x gt 1")):
        it.do(f"{kind} {query}", "GET", ask(kind, query), only_reason=True)
    it.quiet("POST", CLAIMS, claim("selected", labels={"own": "selected"}))
    it.do("of ours by its class", "GET", f"{CLAIMS}?fieldSelector=spec.nodeClassRef.name%3Dnone&labelSelector=own%3Dselected", only_reason=True)
    it.do("of ours by its name", "GET", f"{CLAIMS}?fieldSelector=metadata.name%3Dselected", expect=200)
    it.do("of ours by another field", "GET", f"{CLAIMS}?fieldSelector=spec.expireAfter%3DNever", only_reason=True)


def a_watch_from_before_all_that_is_known_is_told_so(it):
    answer = watched(it, f"/api/v1/namespaces/default/{MAPS}?resourceVersion=1", 2)
    it.must(answer.status in (200, 410), answer.text)
    events = answer.events()
    # Either still knows all since then, or says that it does not: nothing else.
    if answer.status == 200 and events and events[0]["type"] == "ERROR":
        it.must(events[0]["object"]["reason"] == "Expired" and events[0]["object"]["code"] == 410, json.dumps(events[0]))
    listed = it.do("listed", "GET", f"/api/v1/namespaces/default/{MAPS}?resourceVersion=1&resourceVersionMatch=NotOlderThan", expect=200, only=["kind"])
    it.must(int(listed["metadata"]["resourceVersion"]) > 1, "a list is as new as can be")


CASES = [
    a_watch_tells_what_came_since, a_watch_without_a_version_begins_with_all, a_watch_goes_on_while_things_happen_and_has_bookmarks,
    versions_are_what_a_reader_may_ask_for, pages_follow_each_other, labels_and_fields_select,
    a_watch_from_before_all_that_is_known_is_told_so,
]
