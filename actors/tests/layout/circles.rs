//! No circle of rooms in any crate: what two of them share lies below both; in `actors` that is `messages`, `links`, `context`,
//! `telemetry` or `kube`.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{ACTORS, is_word, production, production_of, room, word};

/// The crates whose rooms are held, by where their sources lie from this crate's folder.
const SOURCES: [&str; 5] = [ACTORS, "../crates/core/src", "../crates/simulation/src", "../src", "../xtask/src"];

/// Rooms that a room imports, each with a file that does.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// The rooms that a text names by `crate::`.
fn named(text: &str) -> BTreeSet<&str> {
    text.split("crate::").skip(1).map(word).collect()
}

/// The rooms that a crate's root takes names from, by these names: `crate::Pod` is of the room `pod`.
fn exported(root: &str) -> BTreeMap<&str, &str> {
    let mut all = BTreeMap::new();
    for (room, names) in
        root.lines().filter_map(|line| line.strip_prefix("pub use ")?.trim_start_matches("crate::").split_once("::"))
    {
        let names = names.rsplit("::").next().unwrap().split(|c: char| !is_word(c)).filter(|name| !name.is_empty());
        all.extend(names.map(|name| (name, room)));
    }
    all
}

fn imports(files: &BTreeMap<String, String>) -> Imports {
    let mut all = Imports::new();
    let is_root = |path: &str| path == "lib.rs" || path == "main.rs";
    let exported = files.get("lib.rs").map(|root| exported(root)).unwrap_or_default();
    for (path, text) in files.iter().filter(|(path, _)| !is_root(path)) {
        let own = room(path);
        let named = named(text).into_iter().map(|name| exported.get(name).copied().unwrap_or(name));
        for other in named.filter(|other| *other != own) {
            all.entry(own.to_owned()).or_default().insert(other.to_owned(), path.clone());
        }
    }
    all
}

/// The ways from a room back to it, as `a (a/mod.rs) -> b (b/mod.rs) -> a`; one for each room on a circle.
fn circles(imports: &Imports) -> Vec<String> {
    imports.keys().filter_map(|room| circle(imports, room)).collect()
}

fn circle(imports: &Imports, from: &str) -> Option<String> {
    // The nearest first, so that the way that is told is the shortest.
    let (mut ways, mut been) = (vec![vec![from.to_owned()]], BTreeSet::new());
    while !ways.is_empty() {
        let mut next = Vec::new();
        for way in ways {
            let last = way.last().unwrap();
            for other in imports.get(last).into_iter().flatten().map(|(other, _)| other) {
                if other == from {
                    return Some(told(imports, &way));
                }
                if been.insert(other.clone()) {
                    next.push([way.clone(), vec![other.clone()]].concat());
                }
            }
        }
        ways = next;
    }
    None
}

fn told(imports: &Imports, way: &[String]) -> String {
    let steps = way.iter().zip(way.iter().cycle().skip(1));
    let steps: Vec<_> = steps.map(|(room, next)| format!("{room} ({})", imports[room][next])).collect();
    format!("{} -> {}", steps.join(" -> "), way[0])
}

#[test]
fn no_rooms_import_each_other_in_a_circle() {
    for source in SOURCES {
        let imports = imports(&production_of(source));
        let found = circles(&imports);
        assert!(found.is_empty(), "{source}: what two rooms share belongs below both:\n{}", found.join("\n"));
    }
}

#[test]
fn another_room_is_imported_by_crate_and_its_name() {
    for (source, (path, text)) in
        SOURCES.iter().flat_map(|source| production_of(source).into_iter().map(move |file| (source, file)))
    {
        assert!(
            !text.contains("crate::{") || path == "main.rs",
            "{source}/{path}: one line a room, so that this test can read it"
        );
        // From a room's own mod.rs, `super` is the crate; from its other files, `super::super` is, and so on.
        let deep = path.trim_end_matches("/mod.rs").split('/').count();
        let out = format!("use {}", "super::".repeat(deep));
        assert!(!text.contains(&out), "{source}/{path}: another room is named by crate::");
    }
}

#[test]
fn a_folder_has_at_most_fifteen_files() {
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for path in production().into_keys() {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        *counted.entry(folder).or_default() += 1;
    }
    let full: Vec<_> = counted.iter().filter(|(_, files)| **files > 15).collect();
    assert!(full.is_empty(), "{full:?}");
}

#[test]
fn a_circle_is_found_and_told_by_its_files() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let mut files = BTreeMap::from([
        file("a/mod.rs", "use crate::b::B;\nuse crate::a::own::O;\n"),
        file("b/mod.rs", "use crate::messages::M;\n"),
        file("b/deep.rs", "fn f() -> crate::c::C {}\n"),
        file("c/mod.rs", "use crate::messages::M;\n"),
        file("messages/mod.rs", ""),
        file("lib.rs", "pub use crate::a::A;\n"),
    ]);
    assert_eq!(circles(&imports(&files)), [""; 0]);
    files.insert("c/mod.rs".to_owned(), "use crate::a::A;\n".to_owned());
    let found = circles(&imports(&files));
    assert_eq!(found.len(), 3, "each room on it: {found:?}");
    assert_eq!(found[0], "a (a/mod.rs) -> b (b/deep.rs) -> c (c/mod.rs) -> a");
}

#[test]
fn a_name_that_the_root_exports_is_of_its_room() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = BTreeMap::from([
        file("lib.rs", "pub use pod::Pod;\npub use problem::{Pool, Problem};\n"),
        file("pod/mod.rs", "use crate::Problem;\n"),
        file("problem.rs", "use crate::pod::Pod;\n"),
    ]);
    assert_eq!(circles(&imports(&files))[0], "pod (pod/mod.rs) -> problem (problem.rs) -> pod");
}
