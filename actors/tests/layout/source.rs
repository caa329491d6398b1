//! The crate's source as text, without comments and tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The text of one file as it is, by its path below src/.
pub fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// What runs in production of every file, by its path below src/.
pub fn production() -> BTreeMap<String, String> {
    let (mut all, mut folders) = (BTreeMap::new(), vec![root()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
                all.insert(name, without_tests_and_comments(&std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    all
}

/// A text without comments on lines of their own or after code, and without modules of tests.
pub fn without_tests_and_comments(text: &str) -> String {
    let (mut out, mut of_tests) = (String::new(), false);
    for line in text.lines() {
        if line.trim() == "#[cfg(test)]" {
            of_tests = true;
        } else if of_tests {
            // A module ends at the margin, or in the line that declares it.
            of_tests = line != "}" && !line.ends_with(';');
            // Its attributes and what is in it say nothing.
            if line.starts_with(' ') || line.starts_with('#') {
                of_tests = true;
            }
        } else if !line.trim_start().starts_with("//") {
            out.push_str(line.split(" // ").next().unwrap());
            out.push('\n');
        }
    }
    out
}

/// The room that a file lies in: the folder, or the file's own name where it lies in none.
pub fn room(path: &str) -> &str {
    path.split_once('/').map_or_else(|| path.trim_end_matches(".rs"), |(room, _)| room)
}

/// Whether a character may stand in a name.
pub fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The name at the beginning of a text.
pub fn word(text: &str) -> &str {
    text.split(|c| !is_word(c)).next().unwrap()
}

#[test]
fn tests_and_comments_are_no_production_code() {
    let text =
        "use a;\n// use crate::b;\nfn f() {} // crate::c\n#[cfg(test)]\nmod tests {\n    use crate::d;\n}\nuse e;\n";
    assert_eq!(without_tests_and_comments(text), "use a;\nfn f() {}\nuse e;\n");
    assert_eq!(without_tests_and_comments("#[cfg(test)]\nmod tests;\nmod text;\n"), "mod text;\n");
}
