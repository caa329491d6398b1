"""The look through the repository's references can fail, and passes what is right."""

import pathlib
import tempfile
import unittest

import references

SPEC = "# Title\n\n## 3. Pods\n### 3.1 Which\nA pod is *provisionable*\nwhen it waits.\n### 3.10 Types\n"
OUT = "../"


class References(unittest.TestCase):
    def wrong(self, name, text):
        """What is wrong with one file in a small repository, without the file's name."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            files = {
                "docs/spec/karpenter-core.md": SPEC,
                "docs/spec/karpenter-aws.md": "## 6. Controllers\n",
                "docs/decisions/017-a-burst.md": "",
                "crates/api/Cargo.toml": "",
                "crates/api/tests/pods.rs": "",
                name: text,
            }
            for path, content in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(content)
            return [line.removeprefix(f"{name}:") for line in references.wrong(root)]

    def test_a_path_that_is_not_there_is_wrong_wherever_it_stands(self):
        self.assertEqual(self.wrong("crates/api/src/a.rs", "// see docs/gone.md\n"), ["1: docs/gone.md is not there"])
        self.assertEqual(self.wrong("README.md", "\n[a](docs/gone/b)\n")[-1], "2: the link docs/gone/b leads nowhere")
        self.assertEqual(self.wrong("a.py", "# gone.py does\n"), ["1: no file is called gone.py"])

    def test_a_path_may_begin_at_the_root_the_package_or_the_file(self):
        for text in ("docs/decisions/017", "tests/pods.rs", "pods.rs", "docs/spec/karpenter-*.md"):
            self.assertEqual(self.wrong("crates/api/src/a.rs", f"// {text}.\n"), [], text)
        self.assertEqual(self.wrong("docs/a.md", "[b](decisions/017-a-burst.md#what) [c](https://example.com/docs/x)\n"), [])

    def test_a_path_out_of_the_repository_is_wrong_even_where_there_is_a_file(self):
        for path in (OUT + "shared/pods.yaml", OUT * 3 + "shared/pods.yaml", OUT * 4 + "etc/passwd"):
            self.assertIn("leads out of the repository", self.wrong("crates/api/a.rs", f'open("{path}")\n')[0], path)
        self.assertEqual(self.wrong("crates/api/src/a.rs", f'open("{OUT * 3}docs/spec")\n'), [])

    def test_a_section_of_a_text_that_is_in_no_clone_is_wrong(self):
        called = "design" + ', "Safety" 1'
        self.assertEqual(self.wrong("a.rs", f"//! Who leads ({called}).\n"), ['1: design, "Safety" is a section of a text that is not here'])
        self.assertEqual(self.wrong("a.rs", '//! By design, "Safety first".split(", ")\n'), [])

    def test_a_section_has_to_be_in_the_specification(self):
        for text in ("(core spec 3.1)", "core spec 3, 3.1 and 3.10", "(aws spec 6)", "karpenter-aws 6"):
            self.assertEqual(self.wrong("a.rs", f"//! {text}.\n"), [], text)
        said = "docs/spec/karpenter-core.md has no section 3.2"
        for text in ("core spec 3.2", "core spec 3.1, 3.2", "core spec 3.1 to 3.2", "core\n/// spec 3.2"):
            self.assertEqual(self.wrong("a.rs", f"\n/// ({text}).\n"), [f"2: {said}"], text)

    def test_words_that_a_reference_quotes_are_in_the_section(self):
        self.assertEqual(self.wrong("a.rs", '// core spec 3.1, "when it waits"\n'), [])
        self.assertEqual(
            self.wrong("a.rs", '// core spec 3.1, "provisioned"\n'),
            ["1: section 3.1 of docs/spec/karpenter-core.md does not say 'provisioned'"],
        )


if __name__ == "__main__":
    unittest.main()
