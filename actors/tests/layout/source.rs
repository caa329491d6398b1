//! A crate's source as text, without comments and tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The source of this crate, from its own folder.
pub const ACTORS: &str = "src";

fn root(source: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(source)
}

/// The text of one file of this crate as it is, by its path below src/.
pub fn text(path: &str) -> String {
    std::fs::read_to_string(root(ACTORS).join(path)).unwrap()
}

/// Production code of every file of this crate, by its path below src/.
pub fn production() -> BTreeMap<String, String> {
    production_of(ACTORS)
}

/// Production code of every file of the crate whose source lies there.
pub fn production_of(source: &str) -> BTreeMap<String, String> {
    let root = root(source);
    let (mut all, mut folders, mut of_tests) = (BTreeMap::new(), vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                of_tests.extend(modules_of_tests(&name, &text));
                all.insert(name, without_tests_and_comments(&text));
            }
        }
    }
    let tests = |name: &str| {
        of_tests.iter().any(|module| name == format!("{module}.rs") || name.starts_with(&format!("{module}/")))
    };
    all.retain(|name, _| !tests(name));
    all
}

/// The modules that a file declares for tests alone, as paths below src/ without `.rs`.
fn modules_of_tests(name: &str, text: &str) -> Vec<String> {
    let folder = match name.rsplit_once('/') {
        Some((folder, "mod.rs")) => format!("{folder}/"),
        None if name == "lib.rs" || name == "main.rs" => String::new(),
        _ => format!("{}/", name.trim_end_matches(".rs")),
    };
    let after = text.lines().zip(text.lines().skip(1)).filter(|(line, _)| line.trim() == "#[cfg(test)]");
    let declared = after.filter_map(|(_, line)| line.trim().strip_suffix(';')?.rsplit_once("mod "));
    declared.map(|(_, module)| format!("{folder}{module}")).collect()
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

/// True if a character may stand in a name.
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

#[test]
fn a_module_that_is_declared_for_tests_is_no_production_code() {
    let text = "#[cfg(test)]\nmod random;\nmod node;\n#[cfg(test)]\nmod tests {\n}\n";
    assert_eq!(modules_of_tests("termination/mod.rs", text), ["termination/random"]);
    assert_eq!(modules_of_tests("lease.rs", text), ["lease/random"]);
    assert_eq!(modules_of_tests("lib.rs", text), ["random"]);
}
