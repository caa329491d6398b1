"""The book: every page is in it, every link leads somewhere, what is to be named is named, and mdBook builds it."""

import pathlib
import re
import subprocess
import unittest
import urllib.parse

import build
import reference

ROOT = reference.ROOT
DOCS = ROOT / "docs"
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
CODE = re.compile(r"^(?: {4,}|\t).*$|`[^`\n]*`", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
#: No pages, and pages of others' text.
NO_PAGES = {"SUMMARY.md"}


def pages():
    return sorted(path for path in DOCS.rglob("*.md") if path.name not in NO_PAGES)


def prose(text):
    """A page without code: what stands there is no link. Items of lists may be indented by four."""
    return CODE.sub("", FENCE.sub("", re.sub(r"^ +(?=[-*] |\d+\. )", "", text, flags=re.MULTILINE)))


def links(text):
    return LINK.findall(prose(text))


def slug(heading):
    """As mdBook and GitHub make an anchor of a heading."""
    text = re.sub(r"`|\*|\[([^\]]*)\]\([^)]*\)", lambda found: found[1] or "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text):
    return {slug(found) for found in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)}


def broken(root):
    """Links of the pages below a folder that lead nowhere, each with its page."""
    found = []
    for page in sorted(root.rglob("*.md")):
        for link in links(page.read_text()):
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            target = (page.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else page
            if not target.exists() or (parts.fragment and parts.fragment not in anchors(target.read_text())):
                found.append((page.relative_to(root).as_posix(), link))
    return found


class Book(unittest.TestCase):
    def test_every_link_of_the_docs_leads_somewhere(self):
        self.assertEqual(broken(DOCS), [])

    def test_every_page_is_in_the_summary_once(self):
        listed = [link for link in links((DOCS / "SUMMARY.md").read_text())]
        self.assertEqual(len(listed), len(set(listed)))
        self.assertEqual({path.relative_to(DOCS).as_posix() for path in pages()}, set(listed))

    def test_every_page_begins_with_its_title(self):
        for path in pages():
            self.assertRegex(path.read_text(), r"\A# \S", path)

    def test_uninstalling_deletes_every_crd_that_there_is_and_alpha_objects_first(self):
        text = (DOCS / "guide/uninstalling.md").read_text()
        crds = {"{1}.{0}".format(*path.stem.split("_")) for path in (ROOT / "deploy/crds").glob("*.yaml")}
        deleted = re.search(r"kubectl delete crd ((?:[a-z0-9.]+|\\|\s)+)\n\n", text)[1]
        self.assertEqual(set(deleted.replace("\\", "").split()), crds)
        self.assertLess(text.index("kubectl delete provisioners,"), text.index("kubectl delete nodepools"))

    def test_the_page_of_names_is_what_the_code_says(self):
        again = "python3 tests/docs/reference.py --write"
        self.assertEqual(reference.PAGE.read_text(), reference.page(), f"make it anew: {again}")

    def test_every_error_and_warning_of_the_log_has_a_run_book_and_no_other_has(self):
        text = (DOCS / "guide/run-books.md").read_text()
        named = set(re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE))
        self.assertGreater(len(reference.warnings()), 20)
        self.assertEqual(named, reference.warnings())

    def test_every_kubernetes_event_is_on_its_page_and_every_one_there_is_in_the_code(self):
        text = (DOCS / "guide/kubernetes-events.md").read_text()
        named = set(re.findall(r"^\| `([A-Z][A-Za-z]+)` \| (?:Normal|Warning) \|", text, re.MULTILINE))
        self.assertGreater(len(reference.event_reasons()), 30)
        self.assertEqual(reference.event_reasons() - named, set())
        self.assertEqual(named - reference.texts_of_code(), set())

    def test_every_alert_has_a_run_book(self):
        alerts = set(re.findall(r"alert: (\w+)", (ROOT / "observability/prometheus/rules.yaml").read_text()))
        headings = set(re.findall(r"^### (\w+)$", (DOCS / "observability.md").read_text(), re.MULTILINE))
        self.assertGreater(len(alerts), 10)
        self.assertEqual(alerts - headings, set())

    def test_pictures_are_well_formed_and_say_what_they_show(self):
        import xml.etree.ElementTree as tree

        pictures = sorted((DOCS / "guide/pictures").glob("*.svg"))
        self.assertGreaterEqual(len(pictures), 2)
        for path in pictures:
            title = tree.parse(path).getroot().find("{http://www.w3.org/2000/svg}title")
            self.assertTrue(title is not None and title.text, path)

    def test_mdbook_builds_it_without_a_warning_and_every_page_comes_out(self):
        book = ROOT / "target/book"
        mdbook = build.mdbook()
        done = subprocess.run([mdbook, "build", DOCS], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotRegex(done.stderr, r"(?i)\b(warn|error)\b")
        for path in pages():
            out = book / path.relative_to(DOCS).with_suffix(".html")
            out = out.with_name("index.html") if path.name == "README.md" else out
            self.assertTrue(out.exists(), out)
        self.assertTrue((book / "guide/pictures/actors.svg").exists())


class Checks(unittest.TestCase):
    """The checks above can fail."""

    def test_a_link_to_nowhere_and_an_anchor_that_is_not_there_are_found(self):
        import tempfile

        one, two, none = (f"{name}.md" for name in ("one", "two", "none"))
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            good = f"[b]({two}) [b]({two}#there) [w](https://a/b)\n\n    [code]({none})\n"
            (root / one).write_text(f"# A\n\n[x]({two}#not-there) [y]({none}) {good}")
            (root / two).write_text("# B\n\n## There\n")
            self.assertEqual(broken(root), [(one, f"{two}#not-there"), (one, none)])

    def test_anchors_are_made_as_mdbook_makes_them(self):
        self.assertEqual(slug("`dovetail plan --consolidate`"), "dovetail-plan---consolidate")
        self.assertEqual(slug("Upgrading, and going back"), "upgrading-and-going-back")


if __name__ == "__main__":
    unittest.main()
