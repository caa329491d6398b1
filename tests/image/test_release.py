"""What the release workflow rests on: versions that agree, files and lines that it names, and no more rights than it needs."""

import pathlib
import re
import sys
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORKFLOW = ROOT / ".github/workflows/release.yaml"
TEXT = WORKFLOW.read_text()

sys.path.insert(0, str(ROOT / "tools"))
import changelog  # noqa: E402


class Release(unittest.TestCase):
    def test_workspace_and_charts_have_one_version(self):
        version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
        charts = sorted((ROOT / "deploy/helm").glob("*/Chart.yaml"))
        self.assertEqual(len(charts), 2)
        for chart in charts:
            self.assertRegex(chart.read_text(), rf"(?m)^version: {re.escape(version)}$")
            self.assertRegex(chart.read_text(), rf"(?m)^appVersion: {re.escape(version)}$")

    def test_the_toolchains_are_those_of_the_repository(self):
        rust = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
        self.assertIn(f"rustup default {rust}", TEXT)
        self.assertIn(f"ARG RUST={rust}\n", (ROOT / "deploy/image/Dockerfile").read_text())
        helm = re.search(r"helm\.sh/helm/v3 (v\S+)", (ROOT / "tests/real/helm/go.mod").read_text())[1]
        self.assertIn(f"version: {helm}", TEXT)

    def test_every_file_that_it_names_is_there(self):
        for path in re.findall(r"(?:deploy|tools)/[\w./-]+\w", TEXT):
            self.assertTrue((ROOT / path).exists(), path)

    def test_the_lines_of_the_chart_that_it_changes_are_there(self):
        values = (ROOT / "deploy/helm/dovetail/values.yaml").read_text().splitlines()
        for line in ("    repository: dovetail/controller", '    digest: ""'):
            self.assertEqual(values.count(line), 1, line)
            self.assertIn(line.replace('"', r"\""), TEXT)

    def test_it_may_write_where_it_publishes_alone(self):
        self.assertRegex(TEXT, r"(?m)^permissions:\n  contents: read$")
        self.assertEqual(len(re.findall(r": write$", TEXT, re.MULTILINE)), 2)
        for uses in re.findall(r"uses: (\S+)", TEXT):
            self.assertRegex(uses, r"@v\d+$")

    def test_a_version_has_its_section_of_the_changelog(self):
        text = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.2.0 (2026-01-01)\n\n- two\n\n## 0.1.0\n\n- one\n"
        self.assertEqual([changelog.section(text, version) for version in ("v0.2.0", "0.1.0", "0.3.0")], ["- two", "- one", "- new"])
        self.assertTrue(changelog.section((ROOT / "CHANGELOG.md").read_text(), "999.0.0"))


if __name__ == "__main__":
    unittest.main()
