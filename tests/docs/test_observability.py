"""What an operator loads into Jaeger, the collector and Prometheus fits what Dovetail says of itself."""

import json
import re
import unittest
import urllib.parse

import reference

OBSERVABILITY = reference.ROOT / "observability"
UI = json.loads((OBSERVABILITY / "jaeger/ui.json").read_text())
COLLECTOR = (OBSERVABILITY / "collector/config.yaml").read_text()
PAGE = (reference.ROOT / "docs/observability.md").read_text()
#: Names of spans, out of the picture in the page.
OPERATIONS = set(re.findall(r"^ {4,}[│ ]*[└├]? ?([A-Za-z ]+?)(?: {2,}| → |\s*\(|$)", PAGE.split("## Metrics")[0].split("Search by")[0], re.MULTILINE))
ATTRIBUTES = set(re.findall(r"`((?:k8s|dovetail|cloud)\.[a-z._]+|error)`?", PAGE)) | {"error"}


def names(block):
    """The names that a block of the collector's configuration has, at its first level."""
    return set(re.findall(r"^  ([\w/]+):", re.search(rf"^{block}:\n((?:(?: +|#).*\n|\n)+)", COLLECTOR, re.MULTILINE)[1], re.MULTILINE))


class Jaeger(unittest.TestCase):
    def test_saved_searches_look_for_spans_and_tags_that_there_are(self):
        searches = [one["url"] for menu in UI["menu"] for one in menu["items"]]
        self.assertGreaterEqual(len(searches), 5)
        for url in searches:
            asked = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
            self.assertEqual(asked["service"], ["dovetail"], url)
            for operation in asked.get("operation", []):
                self.assertTrue(operation in OPERATIONS or re.search(rf"\b{operation}\b", PAGE), operation)
            for tags in asked.get("tags", []):
                self.assertLessEqual(set(json.loads(tags)), ATTRIBUTES)

    def test_links_are_made_of_tags_that_spans_have(self):
        keys = [one["key"] for one in UI["linkPatterns"]]
        self.assertLessEqual({"k8s.node.name", "dovetail.nodeclaim", "dovetail.instance.id"}, set(keys))
        for one in UI["linkPatterns"]:
            used = {one["key"], *re.findall(r"#\{([\w.]+)\}", one["url"] + one["text"])}
            self.assertLessEqual(used, ATTRIBUTES, one)

    def test_the_deployments_load_it(self):
        for name in ("all-in-one.yaml", "production.yaml"):
            text = (OBSERVABILITY / "jaeger" / name).read_text()
            self.assertIn("--query.ui-config=/etc/jaeger/ui.json", text, name)
            self.assertIn("METRICS_STORAGE_TYPE", text, name)


class Collector(unittest.TestCase):
    def test_what_its_pipelines_name_is_configured_and_what_is_configured_is_used(self):
        known = {block: names(block) for block in ("receivers", "processors", "connectors", "exporters")}
        pipelines = COLLECTOR.split("  pipelines:\n")[1]
        used = {kind: {one.strip() for found in re.findall(rf"{kind}: \[([^\]]*)\]", pipelines) for one in found.split(",")} for kind in ("receivers", "processors", "exporters")}
        self.assertEqual(used["processors"], known["processors"])
        self.assertEqual(used["receivers"], known["receivers"] | known["connectors"])
        self.assertEqual(used["exporters"], known["exporters"] | known["connectors"])

    def test_spans_are_counted_before_some_are_left_out(self):
        counted = re.search(r"traces/counted:\n(?: {6}.*\n)+", COLLECTOR)[0]
        self.assertIn("spanmetrics", counted)
        self.assertNotIn("tail_sampling", counted)


class Prometheus(unittest.TestCase):
    def test_it_scrapes_the_service_that_the_chart_makes(self):
        scrape = (OBSERVABILITY / "prometheus/scrape.yaml").read_text()
        chart = re.search(r"^name: (\S+)$", (reference.ROOT / "deploy/helm/dovetail/Chart.yaml").read_text(), re.MULTILINE)[1]
        wanted = re.search(r"service_label_app_kubernetes_io_name\], regex: (\S+),", scrape)[1]
        self.assertRegex(chart, rf"^(?:{wanted})$")

    def test_it_scrapes_what_the_collector_counts(self):
        port = re.search(r"^  prometheus:\n    endpoint: 0\.0\.0\.0:(\d+)$", COLLECTOR, re.MULTILINE)[1]
        self.assertIn(f'regex: "{port}"', (OBSERVABILITY / "prometheus/scrape.yaml").read_text())


if __name__ == "__main__":
    unittest.main()
