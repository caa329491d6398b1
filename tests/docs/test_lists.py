"""Lists that are written by hand have all that they are to have: a part that is left out is silent otherwise."""

import re
import unittest

import reference

ROOT = reference.ROOT
DOCS = ROOT / "docs"


def read(path):
    return (ROOT / path).read_text()


def block(text, head):
    """What stands between the braces that `head` (a pattern) ends with; nested ones count."""
    found = re.search(head, text)
    if not found:
        return ""
    depth, start = 1, found.end()
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start:at]
    return text[start:]


def variants(body):
    """The variants of an enum, without comments, attributes and what they hold."""
    bare = re.sub(r"//.*|#\[[^\]]*\]", "", body)
    while bare != (bare := re.sub(r"\{[^{}]*\}|\([^()]*\)", "", bare)):
        pass
    return set(re.findall(r"\b([A-Z]\w*)\b", bare))


def incomplete(text):
    """Lists of a file that are called ALL and lack a variant of their enum, each with what it lacks."""
    for found in re.finditer(r"impl (\w+) \{(?:(?!\nimpl ).)*?const ALL: \[Self; \d+\] =\s*\[(.*?)\];", text, re.DOTALL):
        there = variants(block(text, rf"enum {found[1]} \{{"))
        if lacking := there - set(re.findall(r"Self::(\w+)", found[2])):
            yield found[1], sorted(lacking)


def arms(text, head):
    """The texts that a function answers, arm by arm."""
    return re.findall(r'=> "([^"]+)"', block(text, head))


class Lists(unittest.TestCase):
    def test_a_list_of_all_variants_has_all_of_them(self):
        lists, wrong = 0, []
        for top in ("actors", "crates", "observability", "src"):
            for path in sorted((ROOT / top).rglob("*.rs")):
                text = path.read_text()
                found = text.count("const ALL: [Self;")
                lists += found
                if not found:
                    continue
                wrong += [(path.relative_to(ROOT).as_posix(), *one) for one in incomplete(text)]
        self.assertGreater(lists, 4)
        self.assertEqual(wrong, [])

    def test_the_collector_keeps_traces_of_every_kind_of_interruption(self):
        labels = set(arms(read("crates/core/src/interruption/mod.rs"), r"fn label\(self\) -> [^{]*\{"))
        self.assertGreater(len(labels), 5)
        kept = re.search(r"key: dovetail\.reason, values: \[([^\]]*)\]", read("observability/collector/config.yaml"))[1]
        # Failed status checks go by the reason of any unhealthy node.
        self.assertEqual(set(kept.split(", ")), labels | {"unhealthy"})

    def test_every_event_that_is_read_has_a_rule_that_sends_it(self):
        code = read("crates/core/src/interruption/announcement.rs").split("#[cfg(test)]")[0]
        events = set(re.findall(r'\("0", "aws\.\w+", "([^"]+)"\)', code))
        self.assertGreater(len(events), 4)
        ruled = set(re.findall(r"^ +detail-type: \[(.+)\]$", read("deploy/cloudformation/dovetail.yaml"), re.MULTILINE))
        self.assertEqual(ruled, events)
        self.assertEqual(set(re.findall(r'detail-type += \["(.+)"\]', read("deploy/terraform/main.tf"))), events)

    def test_ami_families_are_alike_in_the_code_the_schema_and_the_check_of_manifests(self):
        families = set(arms(read("crates/cloud/src/ec2/family.rs"), r"fn as_str\(self\) -> [^{]*\{"))
        self.assertGreater(len(families), 5)
        schema = re.search(r'"amiFamily": \{"type": "string", "enum": \[([^\]]*)\]', read("crates/api/src/crds/class.rs"))[1]
        check = re.search(r"const FAMILIES: \[&str; \d+\] =\s*\[([^\]]*)\]", read("crates/api/src/manifest/check/class.rs"))[1]
        for text in (schema, check):
            self.assertEqual(set(re.findall(r'"(\w+)"', text)), families)
        aliases = re.findall(r"in \['([^\]]*)'\]|one of '(.*?)'\"", read("crates/api/src/crds/class.rs"))
        self.assertEqual(len(aliases), 2)
        for one in aliases:
            self.assertEqual({*"".join(one).split("', '"), "custom"}, {family.lower() for family in families})

    def test_pods_are_one_class_only_where_all_that_scheduling_reads_is_equal(self):
        pod = read("crates/core/src/pod/mod.rs")
        fields = set(re.findall(r"^    pub (\w+):", block(pod, r"pub struct Pod \{"), re.MULTILINE))
        self.assertGreater(len(fields), 15)
        compared = set(re.findall(r"\ba\.(\w+) == b\.\1\b", block(read("crates/core/src/pack/model/classes.rs"), r"fn equal\([^{]*\{")))
        # Who a pod is, and what only its order, its waiting and its end go by.
        # Claims for devices are another's for each pod, like its name: the stage before packing reads them (docs/decisions/090).
        self.assertEqual(fields - compared, {"name", "uid", "created", "devices"})

    def test_every_measure_is_counted_somewhere(self):
        there = variants(block(read("actors/src/telemetry/measure.rs"), r"pub enum \w+<'a> \{"))
        self.assertGreater(len(there), 20)
        # A list of variants that is passed on to another function counts nothing by itself.
        code = re.sub(r"(?:\w+::\w+ \{ \.\. \}\s*\|\s*)*\w+::\w+ \{ \.\. \} => \w+\(metrics, measure\)", "", read("crates/telemetry/src/measures.rs"))
        self.assertEqual(there - set(re.findall(r"\bMeasure::(\w+)", code)), set())

    def test_every_metric_of_the_table_is_counted_by_somebody(self):
        table = ROOT / "observability/src/metrics/table.rs"
        ids = set(re.findall(r'^    (\w+) "\w+" ', table.read_text(), re.MULTILINE))
        self.assertGreater(len(ids), 30)
        places = [path for top in ("observability/src", "crates", "actors/src", "src") for path in (ROOT / top).rglob("*.rs") if path != table]
        counted = {found for path in places for found in re.findall(r"\bId::(\w+)", path.read_text())}
        self.assertEqual(ids - counted, set())

    def test_every_metric_of_ours_is_in_the_docs_and_every_one_there_is_in_the_code(self):
        places = [*(ROOT / "observability/src").rglob("*.rs"), *(ROOT / "crates/telemetry/src").rglob("*.rs"), ROOT / "src/run/shadow/published.rs", ROOT / "src/run/process.rs"]
        code = {found.removesuffix("_total") for path in places for found in re.findall(r'"(dovetail_[a-z_]+)"', path.read_text())}
        # Crates, as the log calls them.
        code -= {f"dovetail_{path.name}" for path in (ROOT / "crates").iterdir()} | {"dovetail_actors", "dovetail_observability"}
        page = read("docs/observability.md").split("## Metrics")[1].split("\n## ")[0]
        rows = "\n".join(line.split(" | ")[0] for line in page.split("\n") if line.startswith("| `"))
        named = {found.removesuffix("_total") for found in re.findall(r"`(dovetail_[a-z_]+)", rows)}
        self.assertGreater(len(code), 20)
        self.assertEqual(code, named)


class Guides(unittest.TestCase):
    def test_instances_are_ended_by_tags_that_the_launch_itself_sets(self):
        text = read("docs/guide/uninstalling.md")
        self.assertIn("aws ec2 terminate-instances", text)
        asked = set(re.findall(r"Name=tag-key,Values=(\S+?)\"", text)) | set(re.findall(r"Name=tag:(\S+?),Values=\$", text))
        self.assertGreaterEqual(len(asked), 2)
        found, _ = reference.constants("tags.rs")
        later = {value for _, value, comment in found if "after registration" in comment}
        self.assertIn("karpenter.sh/nodeclaim", later)
        self.assertEqual(asked & later, set())
        self.assertLessEqual(asked, {value for _, value, _ in found})

    def test_the_image_of_the_docs_is_the_one_that_the_chart_takes(self):
        pushed = re.search(r"docker buildx build .* -t (\S+):(\S+) --push", read("docs/guide/image.md"))
        version = re.search(r'^appVersion: "?([^"\s]+)', read("deploy/helm/dovetail/Chart.yaml"), re.MULTILINE)[1]
        self.assertEqual(pushed[2], version)
        for path in [ROOT / "README.md", *DOCS.rglob("*.md")]:
            text = path.read_text()
            for command in re.findall(r"helm (?:upgrade --install|install) dovetail\S* deploy/helm/dovetail (?:.*\\\n)*.*", text):
                self.assertIn(f"controller.image.repository={pushed[1]}", command, path)

    def test_the_chart_of_the_crds_says_how_each_is_deleted(self):
        crds = {"{1}.{0}".format(*path.stem.split("_")) for path in (ROOT / "deploy/crds").glob("*.yaml")}
        told = re.search(r"kubectl delete crd ((?:[a-z0-9.]+|\\|\s)+)", read("deploy/helm/dovetail-crd/templates/NOTES.txt"))[1]
        self.assertEqual(set(told.replace("\\", "").split()), crds)

    def test_values_that_the_guides_set_are_in_the_chart(self):
        values = read("deploy/helm/dovetail/values.yaml")
        for path in [ROOT / "README.md", *DOCS.rglob("*.md")]:
            for name in re.findall(r"--set \"?([a-z][a-zA-Z]*(?:\.[a-zA-Z]+)*)", path.read_text()):
                for part in name.partition(".annotations")[0].split("."):
                    self.assertTrue(re.search(rf"^ *{part}:", values, re.MULTILINE), f"{path}: {name}")

    def test_names_of_values_have_no_row_of_their_own(self):
        rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", reference.PAGE.read_text(), re.MULTILINE)
        self.assertGreater(len(rows), 100)
        self.assertEqual([name for name, what in rows if re.match(r"(?:The v|V)alue of|Effect\.|Status of", what)], [])


class Checks(unittest.TestCase):
    """The checks above can fail."""

    def test_a_variant_that_a_list_lacks_is_named(self):
        text = "pub enum Kind {\n    /// Apple.\n    A,\n    B { c: D },\n    #[serde(rename = \"x\")]\n    E(F),\n}\nimpl Kind {\n    pub const ALL: [Self; 2] = [Self::A, Self::B];\n}\n"
        self.assertEqual(list(incomplete(text)), [("Kind", ["E"])])
        self.assertEqual(list(incomplete(text.replace("Self::B]", "Self::B, Self::E]"))), [])


if __name__ == "__main__":
    unittest.main()
