"""The lint can fail: each of its rules on a text that breaks it, and on one that does not."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import lint
import rooms


class Lint(unittest.TestCase):
    def test_a_long_file_is_named_unless_it_is_allowed(self):
        files = {"src/long.rs": "\n" * 401, "src/allowed.rs": "\n" * 401, "src/short.rs": "\n" * 400}
        found = list(lint.long_files(files, {"src/allowed.rs"}))
        self.assertEqual([line.split(":")[0] for line in found], ["src/long.rs"])

    def test_an_entry_that_is_not_needed_any_more_is_named(self):
        files = {"src/long.rs": "\n" * 401, "src/short.rs": "\n" * 400}
        self.assertEqual(list(lint.stale_entries(files, {"src/long.rs"})), [])
        self.assertEqual(len(list(lint.stale_entries(files, {"src/short.rs", "src/gone.rs"}))), 2)

    def test_a_name_that_nobody_types_is_named(self):
        text = f"fn {'a' * 60}() {{}}\n\n    async fn {'b' * 61}() {{}}\n"
        found = list(lint.long_names([("src/one.rs", text)]))
        self.assertEqual([line.split(" ")[0] for line in found], ["src/one.rs:3:"])

    def test_a_root_that_does_not_say_what_belongs_there_is_named(self):
        files = [("crates/a/src/lib.rs", "pub mod b;\n"), ("src/main.rs", "//! Front door.\n"), ("crates/a/src/b/mod.rs", "use c;\n")]
        self.assertEqual([line.split(":")[0] for line in lint.unsaid_roots(files)], ["crates/a/src/lib.rs"])

    def test_wide_prose_is_named_and_tables_links_and_code_are_not(self):
        wide = "word " * 21
        text = f"{wide}\n| {wide} |\n[{wide}](a.md)\n`{wide}`\n\n    {wide}\n\n    {wide * 2}\n"
        self.assertEqual([line.split(":")[1] for line in lint.wide_lines([("a.md", text)])], ["1", "8"])

    def test_a_line_that_continues_a_list_is_prose(self):
        text = "- one\n    " + "word " * 21 + "\n"
        self.assertEqual([line.split(":")[1] for line in lint.wide_lines([("a.md", text)])], ["2"])

    def asked(self, text):
        found = lint.asking_openings([("actors/src/packer/a.rs", text)])
        return [line.split(":")[1] for line in found.get("actors/src/packer", [])]

    def test_a_block_that_opens_with_a_question_is_named(self):
        for opening in "What Whether How Who Whose Whom Which Of Why When Where".split():
            for slashes in ("///", "//!", "//"):
                self.assertEqual(self.asked(f"{slashes} {opening} it is.\n"), ["1"], f"{slashes} {opening}")
        self.assertEqual(self.asked("/// True if it is.\n    /// Often.\n\n/// Whatever comes.\n/// Offers.\nlet a = b; // What it is.\n"), [])

    def test_only_the_first_line_of_a_block_counts(self):
        self.assertEqual(self.asked("//! A room.\n//!\n//! What it has.\n/// A thing\n/// Whose name is long.\n"), [])
        self.assertEqual(self.asked("//! A room.\n/// How many.\n// Why.\n\n// When.\n"), ["2", "3", "5"])

    def test_rooms_on_the_list_may_not_grow_and_have_to_be_lowered(self):
        found = {"src": ["a", "b"], "xtask/src": ["c"], "tests/live": ["d"], "actors/src/packer": ["e"]}
        lines = list(lint.wrong_openings(found, {"src": 1, "xtask/src": 2, "tests/live": 1, "tests/gone": 1}))
        self.assertEqual(lines[:1] + lines[2:3], ["e", "b"])
        self.assertEqual([line.split(":")[-1] for line in lines[3:]], [" src has 2 such openings; 1 at most", " take it out", " lower it"])

    def test_collections_fields_and_changes_of_a_room_are_counted(self):
        text = (
            "pub struct Registrar {\n    /// Claims.\n    pub claims: BTreeMap<String, Arc<NodeClaim>>,\n    busy: usize,\n}\n"
            "pub(super) struct Held(BTreeSet<String>);\nstruct Empty;\nimpl Registrar {\n    fn forget(&mut self) {\n"
            "        let all: BTreeMap<u8, u8> = self.claims.remove(name);\n        self.known.gone(&key);\n    }\n}\n"
        )
        production = {"actors/src/registrar/mod.rs": text, "actors/src/packer/mod.rs": text}
        counts = [rooms.collections_of, rooms.changes_of, rooms.fields_of, rooms.lines_of]
        self.assertEqual([count(production, "registrar") for count in counts], [2, 2, 2, 13])

    def test_a_type_whose_impl_lies_in_five_files_of_a_crate_is_spread(self):
        impls = ["impl A {", "impl Actor for A {", "impl<'a, T: Ord> From<B<T>> for A {", "impl A {\n}\nimpl Other {", "impl A<'_> {"]
        production = {f"actors/src/{at}.rs": text for at, text in enumerate(impls)}
        self.assertEqual(rooms.spread(production), {("actors", "A"): 5})
        production["crates/core/src/0.rs"] = production.pop("actors/src/0.rs")
        self.assertEqual(rooms.spread(production), {})

    def test_a_figure_above_its_bound_is_named_and_so_is_one_without(self):
        found = {"a": (2, {}), "b": (2, {}), "c": (0, {})}
        lines = list(rooms.too_many(found, {"a": (9, 2, 1), "b": (9, 1, 1), "d": (1, 1, 1)}))
        self.assertEqual([line.split(": ")[1] for line in lines], ["b", "c", "d"])

    def test_a_room_is_the_folder_below_src_or_what_a_test_lies_in(self):
        names = ["actors/src/lib.rs", "actors/src/packer/a/b.rs", "crates/core/tests/packing/a.rs", "tests/live/a/b.rs", "src/main.rs"]
        rooms = ["actors/src", "actors/src/packer", "crates/core", "tests/live", "src"]
        self.assertEqual([lint.measure.room(name) for name in names], rooms)

    def used(self, row, code="", document=""):
        rows = [["on", *row]]
        return [place for _, place in lint.uses(rows, {"actors/src/a.rs": code}, [("docs/a.md", document)])]

    def test_a_part_of_a_name_is_found_and_words_in_strings_and_comments_are_not(self):
        row = ["name", "desk", ".", "context"]
        code = "fn of_desk() {}\nstruct DeskOf;\nlet desktop = \"desk\"; // desk\n/// A desk.\nlet a = 'd';\nlet b = desk;\n"
        self.assertEqual(self.used(row, code), ["actors/src/a.rs:1", "actors/src/a.rs:2", "actors/src/a.rs:6"])

    def test_a_declaration_is_found_and_a_use_is_not(self):
        self.assertEqual(self.used(["fn", "of", ".", "-"], "pub fn of() {}\nof();\nfn offer() {}\n"), ["actors/src/a.rs:1"])
        self.assertEqual(self.used(["const", "LOOK", ".", "-"], "const LOOK: u8 = 1;\nlet a = LOOK;\n"), ["actors/src/a.rs:1"])
        self.assertEqual(self.used(["type", "Spot", ".", "-"], "struct Spot;\nenum SpotPrice {}\n"), ["actors/src/a.rs:1"])

    def test_a_word_of_another_folder_is_left_alone(self):
        self.assertEqual(self.used(["name", "cell", "crates/core/src/pack", "-"], "fn cell() {}\n"), [])

    def test_a_phrase_is_found_in_comments_and_documents_over_the_end_of_a_line(self):
        row = ["text", "nobody is told of", ".", "no event is emitted"]
        self.assertEqual(self.used(row, "/// So nobody\n/// is told of it.\n", "nobody is\ntold of"), ["actors/src/a.rs", "docs/a.md"])

    def test_the_words_are_a_table_of_five_columns(self):
        self.assertTrue(all(len(row) == 5 for row in lint.words()))


if __name__ == "__main__":
    unittest.main()
