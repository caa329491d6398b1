//! Manifest files as the user named them: files, folders, standard input.

use std::collections::BTreeMap;
use std::path::Path;

use dovetail_api::manifest::rewrite::{Rewritten, rewrite};
use dovetail_api::manifest::{self, Manifest, ReadOptions};

use crate::{MOST_TEXT, Mistake, as_text, describe, read_all, read_text};

/// Minor version of the Kubernetes that the sandbox is and `plan` imagines.
pub const KUBERNETES_MINOR: u32 = 33;

/// Extensions of a folder's files that are manifests; `kubectl` takes the same.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Reads manifest files; every mistake of every file comes back together.
///
/// A folder stands for the files in it that end with [`ENDINGS`], in the order of their names; folders in it are not looked
/// into. `-` is standard input.
pub fn read_manifests(
    files: &[String],
    env: &BTreeMap<String, String>,
    cluster_name: &str,
) -> Result<Vec<Manifest>, Vec<Mistake>> {
    let (texts, mut mistakes) = named_texts(files);
    let options = ReadOptions {
        env: env.clone(),
        cluster_name: cluster_name.to_owned(),
        kubernetes_minor: Some(KUBERNETES_MINOR),
    };
    match manifest::read_manifests(&texts, &options) {
        Ok(manifests) if mistakes.is_empty() => Ok(manifests),
        Ok(_) => Err(mistakes),
        Err(errors) => {
            mistakes.extend(errors.into_iter().map(Mistake::from));
            Err(mistakes)
        }
    }
}

/// Writes manifest files again as v1, each with its text as it was; every mistake of every file comes back together.
///
/// # Errors
/// As [`read_manifests`].
pub fn rewrite_manifests(
    files: &[String],
    env: &BTreeMap<String, String>,
    cluster_name: &str,
) -> Result<Vec<(String, Rewritten)>, Vec<Mistake>> {
    let (texts, mut mistakes) = named_texts(files);
    let options = ReadOptions {
        env: env.clone(),
        cluster_name: cluster_name.to_owned(),
        kubernetes_minor: Some(KUBERNETES_MINOR),
    };
    match rewrite(&texts, &options) {
        Ok(written) if mistakes.is_empty() => Ok(texts.into_iter().map(|(_, text)| text).zip(written).collect()),
        Ok(_) => Err(mistakes),
        Err(errors) => {
            mistakes.extend(errors.into_iter().map(Mistake::from));
            Err(mistakes)
        }
    }
}

/// The texts of files with their names, and the mistakes about the files themselves.
fn named_texts(files: &[String]) -> (Vec<(String, String)>, Vec<Mistake>) {
    let mut texts = Vec::new();
    let mut mistakes = Vec::new();
    for file in files {
        match read_named(file) {
            Ok(of_file) => texts.extend(of_file),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    leave_out_comments(&mut texts);
    if files.iter().filter(|file| *file == "-").count() > 1 {
        mistakes.push(Mistake::of_file("-", "standard input can be read once only").allowing("one -f -"));
    }
    (texts, mistakes)
}

/// The texts behind a name, each with the name of its file.
fn read_named(file: &str) -> Result<Vec<(String, String)>, Mistake> {
    if file == "-" {
        let text = as_text("-", read_all("-", std::io::stdin(), MOST_TEXT)?)?;
        return Ok(vec![("-".to_owned(), text)]);
    }
    if !Path::new(file).is_dir() {
        return Ok(vec![(file.to_owned(), read_text(file)?)]);
    }
    let mut texts = Vec::new();
    for path in files_of(file)? {
        let text = read_text(&path)?;
        if holds_something(&text) {
            texts.push((path, text));
        }
    }
    if texts.is_empty() {
        return Err(Mistake::of_file(file, "holds no manifest").allowing("a folder with *.yaml, *.yml or *.json"));
    }
    Ok(texts)
}

/// The manifest files of a folder, by name.
fn files_of(folder: &str) -> Result<Vec<String>, Mistake> {
    let failed = |why: std::io::Error| Mistake::of_file(folder, describe(&why));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let ends_well = path.extension().and_then(|end| end.to_str()).is_some_and(|end| ENDINGS.contains(&end));
        if ends_well && path.is_file() {
            let name = path.to_str().ok_or_else(|| Mistake::of_file(folder, "has a file whose name is not UTF-8"))?;
            found.push(name.to_owned());
        }
    }
    found.sort();
    Ok(found)
}

/// Leaves out texts of comments alone if another text has content: a chart's templates are often empty. A text without even a
/// comment stays, and is a mistake: a broken pipe is no chart.
fn leave_out_comments(texts: &mut Vec<(String, String)>) {
    if texts.iter().any(|(_, text)| holds_something(text)) {
        texts.retain(|(_, text)| holds_something(text) || text.trim().is_empty());
    }
}

/// True if there is more than comments.
fn holds_something(text: &str) -> bool {
    let content = |line: &str| {
        let line = line.trim_start_matches('\u{feff}').trim();
        let line = line.strip_prefix("---").map_or(line, str::trim_start);
        !line.is_empty() && !line.starts_with('#') && line != "..."
    };
    text.lines().any(content)
}

/// The one line that names the objects that are passed over, by kind; `None` if there are none.
pub fn passed_over<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> Option<String> {
    by_kind(manifests).map(|kinds| format!("skipped: {kinds}"))
}

/// Number of objects of each kind; `None` if there are none.
pub fn by_kind<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> Option<String> {
    let mut kinds: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for manifest in manifests {
        *kinds.entry((manifest.kind.as_str(), about(manifest))).or_default() += 1;
    }
    if kinds.is_empty() {
        return None;
    }
    let kinds: Vec<String> = kinds.iter().map(|((kind, about), count)| format!("{count} {kind}{about}")).collect();
    Some(kinds.join(", "))
}

/// The addition to a kind that is not Kubernetes' own.
fn about(manifest: &Manifest) -> String {
    if !manifest.foreign {
        return String::new();
    }
    let pods = if manifest.may_bring_pods() { "; its pods are not counted" } else { "" };
    format!(" ({}{pods})", manifest.api_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_came_to_nothing_holds_nothing() {
        assert!(!holds_something("# Source: a/templates/b.yaml\n---\n\n  # more\n--- # and more\n...\n"));
        assert!(holds_something("---\nkind: Pod\n"));
        assert!(holds_something("--- {kind: Pod}\n"));
    }
}
