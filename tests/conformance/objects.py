"""Cases of plain reading and writing: what is created, read, replaced, patched, deleted, and how each is refused."""

MAPS = "configmaps"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
POOLS = "/apis/karpenter.sh/v1/nodepools"


def config_map(name, data=None, **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {"a": "1"}}


def pool(name, **spec):
    return {
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "none"},
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}}, **spec},
    }


def claim(name, **metadata):
    return {
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name, **metadata},
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "none"},
                 "requirements": [], "expireAfter": "Never"},
    }


def what_is_created_is_read_back_and_is_there_once(it):
    maps = f"{it.space()}/{MAPS}"
    it.do("created", "POST", maps, config_map("one"), expect=201)
    it.do("read", "GET", f"{maps}/one", expect=200)
    it.do("again", "POST", maps, config_map("one"), expect=409)
    it.do("of a kind of ours", "POST", POOLS, pool("made-once"), expect=201)
    it.do("of a kind of ours, again", "POST", POOLS, pool("made-once"), expect=409)
    made = it.quiet("POST", maps, config_map(None, generateName="some-"))
    it.must(made["metadata"]["name"].startswith("some-") and len(made["metadata"]["name"]) == 10, made["metadata"]["name"])
    it.do("list", "GET", f"{maps}?fieldSelector=metadata.name=one", expect=200)


def what_is_not_there_is_not_found(it):
    space = it.space()
    it.do("object", "GET", f"{space}/{MAPS}/none", expect=404)
    it.do("object of ours", "GET", f"{CLAIMS}/none", expect=404)
    it.do("kind", "GET", f"{space}/nothings", expect=404)
    it.do("group", "GET", "/apis/nowhere.example/v1/things", expect=404)
    it.do("version", "GET", "/apis/karpenter.sh/v9/nodepools", expect=404)
    it.do("subresource", "GET", f"{space}/{MAPS}/none/scale", expect=404)
    it.do("namespace", "GET", "/api/v1/namespaces/none", expect=404)
    it.do("created in no namespace", "POST", f"/api/v1/namespaces/none/{MAPS}", config_map("a"), expect=404)
    it.do("deleted", "DELETE", f"{CLAIMS}/none", expect=404)
    it.do("replaced", "PUT", f"{space}/{MAPS}/none", config_map("none"), expect=404)
    it.do("patched", "PATCH", f"{CLAIMS}/none", {"metadata": {"labels": {"a": "b"}}}, "merge", expect=404)
    it.do("listed nowhere", "GET", f"/api/v1/namespaces/none/{MAPS}", expect=200)


def a_body_that_cannot_be_meant_is_refused(it):
    maps = f"{it.space()}/{MAPS}"
    for label, kind, text, expect in (
        ("no JSON", None, "{", 400), ("nothing", None, "", 400), ("a list", None, "[]", 400), ("another type", "text/plain", "{}", 415),
        ("no kind", None, "{}", 422), ("another kind", None, '{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}', 400),
        ("another version", None, '{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"a"}}', 400),
        ("no name", None, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}', 422),
        ("a bad name", None, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"A_b"}}', 422),
        ("a bad label", None, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"-":"b c"}}}', 422),
        ("a string for a map", None, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":"x"}', 400),
        ("elsewhere", None, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}', 400),
    ):
        it.do(label, "POST", maps, kind=kind, text=text, expect=expect, only_reason=True)
    it.quiet("POST", maps, config_map("a"))
    it.do("another name", "PUT", f"{maps}/a", config_map("b"), expect=400)
    for label, kind, text, expect in (
        ("patch of no type", "application/json", "{}", 415), ("patch that is no JSON", "merge", "{", 400),
        ("patch that is a list", "merge", "[]", 400), ("JSON patch that is an object", "json", "{}", 400),
        ("an operation that is none", "json", '[{"op":"jump","path":"/data/a"}]', 422),
    ):
        it.do(label, "PATCH", f"{maps}/a", kind=kind, text=text, expect=expect, only_reason=True)


def a_put_needs_the_version_it_was_read_at(it):
    maps = f"{it.space()}/{MAPS}"
    first = it.quiet("POST", maps, config_map("a"))
    version = first["metadata"]["resourceVersion"]
    it.do("at its version", "PUT", f"{maps}/a", config_map("a", {"a": "2"}, resourceVersion=version), expect=200)
    it.do("stale", "PUT", f"{maps}/a", config_map("a", {"a": "3"}, resourceVersion=version), expect=409)
    it.do("without", "PUT", f"{maps}/a", config_map("a", {"a": "4"}), expect=200)
    it.do("another uid", "PUT", f"{maps}/a", config_map("a", uid="00000000-0000-4000-8000-000000000000"), expect=409, only_reason=True)
    before = it.quiet("GET", f"{maps}/a")
    same = it.quiet("PUT", f"{maps}/a", before)
    it.must(same["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"], "a PUT that changes nothing is no change")
    made = it.quiet("POST", POOLS, pool("put"))
    it.do("of ours, without", "PUT", f"{POOLS}/put", pool("put"), expect=422)
    made["spec"]["weight"] = 3
    changed = it.do("of ours", "PUT", f"{POOLS}/put", made, expect=200)
    it.must(changed["metadata"]["generation"] == 2, "a change of the spec is a generation")
    it.do("of ours, stale", "PUT", f"{POOLS}/put", made, expect=409)


def a_json_patch_is_done_whole_or_not_at_all(it):
    maps = f"{it.space()}/{MAPS}"
    it.quiet("POST", maps, config_map("a", {"a": "1", "b": "2"}))
    step = lambda op, path, **more: {"op": op, "path": path, **more}
    it.do("adds", "PATCH", f"{maps}/a", [step("test", "/data/a", value="1"), step("add", "/data/c", value="3")], "json", expect=200)
    it.do("tests", "PATCH", f"{maps}/a", [step("add", "/data/d", value="4"), step("test", "/data/a", value="9")], "json", expect=422)
    it.do("removes what is not there", "PATCH", f"{maps}/a", [step("remove", "/data/none")], "json", expect=422)
    it.do("moves", "PATCH", f"{maps}/a", [{"op": "move", "from": "/data/b", "path": "/data/e"}, step("replace", "/data/a", value="7")], "json", expect=200)
    it.do("left", "GET", f"{maps}/a", only=["data"])
    stale = [step("test", "/metadata/resourceVersion", value="1"), step("remove", "/data/c")]
    it.do("of another version", "PATCH", f"{maps}/a", stale, "json", expect=422)


def a_merge_patch_takes_out_what_is_null(it):
    maps = f"{it.space()}/{MAPS}"
    version = it.quiet("POST", maps, config_map("a", {"a": "1", "b": "2"}))["metadata"]["resourceVersion"]
    it.do("merged", "PATCH", f"{maps}/a", {"data": {"a": None, "c": "3"}, "metadata": {"labels": {"x": "y"}}}, "merge", expect=200)
    it.do("stale", "PATCH", f"{maps}/a", {"metadata": {"resourceVersion": version}, "data": {"d": "4"}}, "merge", expect=409)
    it.do("another name", "PATCH", f"{maps}/a", {"metadata": {"name": "b"}}, "merge", expect=400)
    it.do("another uid", "PATCH", f"{maps}/a", {"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}}, "merge", expect=422)
    it.do("another type", "PATCH", f"{maps}/a", {"data": {"a": 5}}, "merge", only_reason=True)
    before = it.quiet("GET", f"{maps}/a")
    same = it.do("nothing", "PATCH", f"{maps}/a", {"data": {"c": "3"}}, "merge", expect=200)
    it.must(same["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"], "a patch that changes nothing is no change")


def a_strategic_patch_knows_lists_by_their_keys(it):
    deployments = f"/apis/apps/v1/namespaces/{it.ns}/deployments"
    it.space()
    box = lambda name, image: {"name": name, "image": image}
    it.do("made", "POST", deployments, {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "d"}}, "template": {
            "metadata": {"labels": {"app": "d"}}, "spec": {"containers": [box("a", "a:1"), box("b", "b:1")]}}}},
        expect=201, only=["spec", "metadata.generation"])
    spec = lambda *boxes, **more: {"spec": {"template": {"spec": {"containers": [*boxes], **more}}}}
    only = ["spec.template.spec"]
    it.do("one", "PATCH", f"{deployments}/d", spec(box("b", "b:2")), "strategic", expect=200, only=only)
    it.do("out", "PATCH", f"{deployments}/d", spec({"name": "a", "$patch": "delete"}), "strategic", expect=200, only=only)
    it.do("merged whole", "PATCH", f"{deployments}/d", spec(box("z", "z:1")), "merge", expect=200, only=only)
    tolerations = {"tolerations": [{"key": "a", "operator": "Exists"}]}
    it.do("atomic", "PATCH", f"{deployments}/d", {"spec": {"template": {"spec": tolerations}}}, "strategic", expect=200, only=only)
    order = {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "y"}, {"name": "z"}], "containers": [box("y", "y:1")]}}}}
    it.do("in order", "PATCH", f"{deployments}/d", order, "strategic", expect=200, only=only)
    it.quiet("POST", POOLS, pool("strategic"))
    it.do("of ours", "PATCH", f"{POOLS}/strategic", {"spec": {"weight": 1}}, "strategic", expect=415)
    it.do("selector", "PATCH", f"{deployments}/d", {"spec": {"selector": {"matchLabels": {"app": "e"}}}}, "merge", expect=422)


def an_apply_knows_who_owns_what(it):
    maps = f"{it.space()}/{MAPS}"
    here = lambda who, **more: f"{maps}/a?fieldManager={who}" + "".join(f"&{name}={value}" for name, value in more.items())
    it.do("made", "PATCH", here("one"), config_map("a", {"a": "1", "b": "2"}), "apply", expect=201)
    it.do("the same", "PATCH", here("one"), config_map("a", {"a": "1", "b": "2"}), "apply", expect=200)
    it.do("conflict", "PATCH", here("two"), config_map("a", {"a": "9"}), "apply", expect=409)
    it.do("force", "PATCH", here("two", force="true"), config_map("a", {"a": "9"}), "apply", expect=200)
    it.do("shared", "PATCH", here("three"), config_map("a", {"a": "9"}), "apply", expect=200)
    it.do("given up", "PATCH", here("one"), config_map("a", {"c": "3"}), "apply", expect=200)
    it.do("nobody", "PATCH", f"{maps}/a", config_map("a"), "apply", only_reason=True)
    it.do("with managed fields", "PATCH", here("one"), config_map("a", managedFields=[{"manager": "x"}]), "apply", only_reason=True)
    it.do("stale", "PATCH", here("one"), config_map("a", {"c": "4"}, resourceVersion="1"), "apply", expect=409)
    it.do("of ours", "PATCH", f"{POOLS}/applied?fieldManager=one", pool("applied", weight=1), "apply", expect=201)
    it.do("of ours, conflict", "PATCH", f"{POOLS}/applied?fieldManager=two", pool("applied", weight=2), "apply", expect=409)
    it.do("of ours, force", "PATCH", f"{POOLS}/applied?fieldManager=two&force=true", pool("applied", weight=2), "apply", expect=200)
    status = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "status": {"nodes": 1}}
    it.do("status", "PATCH", f"{POOLS}/applied/status?fieldManager=three", status, "apply", expect=200)


def the_status_is_written_apart(it):
    made = it.do("made", "POST", POOLS, pool("status") | {"status": {"nodes": 9}}, expect=201)
    it.must("status" not in made, "a status is not taken at creation")
    path = f"{POOLS}/status"
    status = {"spec": {"weight": 9}, "status": {"nodes": 3}}
    it.do("status patched", "PATCH", f"{path}/status", status, "merge", expect=200)
    now = it.do("spec patched", "PATCH", path, {"spec": {"weight": 5}, "status": {"nodes": 7}}, "merge", expect=200)
    it.must((now["metadata"]["generation"], now["status"]["nodes"], now["spec"]["weight"]) == (2, 3, 5), "each its own")
    it.do("status replaced", "PUT", f"{path}/status", now | {"status": {"nodes": 4}, "spec": {}}, only_reason=True)
    now = it.quiet("GET", path)
    it.do("status replaced well", "PUT", f"{path}/status", now | {"status": {"nodes": 4}}, expect=200)
    it.do("stale", "PATCH", f"{path}/status", {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "status": {"nodes": 5}}, "merge", expect=409)
    it.do("read", "GET", f"{path}/status", expect=200)
    it.do("metadata", "PATCH", f"{path}/status", {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}}, "merge", expect=200)


def a_dry_run_changes_nothing(it):
    maps = f"{it.space()}/{MAPS}"
    it.do("create", "POST", f"{maps}?dryRun=All", config_map("a"), expect=201)
    it.do("is not there", "GET", f"{maps}/a", expect=404)
    it.do("of ours", "POST", f"{CLAIMS}?&dryRun=All", claim("dry"), expect=201)
    it.do("of ours is not there", "GET", f"{CLAIMS}/dry", expect=404)
    it.do("refused", "POST", f"{CLAIMS}?&dryRun=All", claim("dry") | {"spec": {"nodeClassRef": {}}}, expect=422)
    it.quiet("POST", maps, config_map("b"))
    it.do("patch", "PATCH", f"{maps}/b?dryRun=All", {"data": {"a": "2"}}, "merge", expect=200)
    it.do("put", "PUT", f"{maps}/b?dryRun=All", config_map("b", {"a": "3"}), expect=200)
    it.do("apply", "PATCH", f"{maps}/c?dryRun=All&fieldManager=x", config_map("c"), "apply", expect=201)
    it.do("delete", "DELETE", f"{maps}/b?dryRun=All", expect=200)
    it.do("delete by its body", "DELETE", f"{maps}/b", {"dryRun": ["All"]}, expect=200)
    it.do("stays as it was", "GET", f"{maps}/b", expect=200)
    it.do("some", "POST", f"{maps}?dryRun=Some", config_map("a"), only_reason=True)


def a_lease_is_held_by_who_wrote_last(it):
    it.space()
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{it.ns}/leases"
    held = lambda who, **more: {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"} | more, "spec": {
            "holderIdentity": who, "leaseDurationSeconds": 15, "leaseTransitions": 0, "renewTime": "2026-01-01T00:00:00.000000Z"}}
    it.do("none", "GET", f"{leases}/l", expect=404)
    made = it.do("made", "POST", f"{leases}?", held("a"), expect=201)
    it.do("made by another", "POST", f"{leases}?", held("b"), expect=409)
    version = made["metadata"]["resourceVersion"]
    patch = lambda who: held(who, resourceVersion=version)
    it.do("renewed", "PATCH", f"{leases}/l?", patch("a") | {"spec": {"renewTime": "2026-01-01T00:00:01.123456Z"}}, "merge", expect=200)
    it.do("taken too late", "PATCH", f"{leases}/l?", patch("b"), "merge", expect=409)
    now = it.quiet("GET", f"{leases}/l")
    now["spec"]["holderIdentity"] = ""
    it.do("given up", "PUT", f"{leases}/l?", now, expect=200)
    it.do("given up twice", "PUT", f"{leases}/l?", now, expect=409)
    it.do("no time", "PATCH", f"{leases}/l", {"spec": {"leaseDurationSeconds": 0}}, "merge", expect=422)
    it.do("a time that is none", "PATCH", f"{leases}/l", {"spec": {"renewTime": "noon"}}, "merge", only_reason=True)
    it.do("put where none is", "PUT", f"{leases}/m", held("c", name="m"))


def a_table_and_the_metadata_alone_can_be_asked_for(it):
    maps = f"{it.space()}/{MAPS}"
    it.quiet("POST", maps, config_map("a"))
    form = lambda kind: f"application/json;as={kind};g=meta.k8s.io;v=v1"
    it.do("metadata", "GET", f"{maps}/a", accept=form("PartialObjectMetadata"), expect=200)
    it.do("metadata of a list", "GET", f"{maps}?fieldSelector=metadata.name=a", accept=form("PartialObjectMetadataList"), expect=200)
    table = it.do("table", "GET", f"{maps}?fieldSelector=metadata.name=a", accept=form("Table"), expect=200, only=["kind", "apiVersion", "metadata"])
    it.must(table["columnDefinitions"][0]["name"] == "Name" and [str(cell) for cell in table["rows"][0]["cells"][:2]] == ["a", "1"], table)
    it.do("nothing that is known", "GET", f"{maps}/a", accept="text/html", only_reason=True)


CASES = [
    what_is_created_is_read_back_and_is_there_once, what_is_not_there_is_not_found, a_body_that_cannot_be_meant_is_refused,
    a_put_needs_the_version_it_was_read_at, a_json_patch_is_done_whole_or_not_at_all, a_merge_patch_takes_out_what_is_null,
    a_strategic_patch_knows_lists_by_their_keys, an_apply_knows_who_owns_what, the_status_is_written_apart,
    a_dry_run_changes_nothing, a_lease_is_held_by_who_wrote_last, a_table_and_the_metadata_alone_can_be_asked_for,
]
