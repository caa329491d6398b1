//! `dovetail convert`: manifests of older versions as v1.

use dovetail_api::manifest::rewrite::Rewritten;
use dovetail_input::manifests::rewrite_manifests;
use dovetail_input::{Failure, environment};
use similar::TextDiff;

use crate::cli::ConvertArgs;
use crate::output::print;

/// Lines around a difference that are shown with it, as `diff -u` does.
const CONTEXT: usize = 3;

/// Writes the manifests as v1 to standard output, and every change to standard error. [`Failure::Outcome`] when something of
/// them cannot be said in v1 and has to be written by hand.
pub fn run(args: &ConvertArgs) -> Result<(), Failure> {
    let env = environment(&args.environment.env, &args.environment.env_file)?;
    let files = rewrite_manifests(&args.manifests, &env, &args.cluster_name)?;
    let mut changes: Vec<String> = Vec::new();
    for (_, file) in &files {
        changes.extend(file.changes.iter().map(ToString::to_string));
        changes.extend(file.lost.iter().map(|lost| format!("{lost} (to be written by hand)")));
    }
    changes.iter().for_each(|change| eprintln!("{change}"));
    let text = if args.diff { diff(&files) } else { stream(&files) };
    print(&text)?;
    if files.iter().any(|(_, file)| !file.lost.is_empty()) { Err(Failure::Outcome) } else { Ok(()) }
}

/// All files as one stream of documents; a single file as it is.
fn stream(files: &[(String, Rewritten)]) -> String {
    let mut all = String::new();
    for (_, file) in files {
        let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
        let begins = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
        if !all.is_empty() && !all.ends_with('\n') {
            all.push('\n');
        }
        if !all.is_empty() && !begins.is_some_and(|line| line.starts_with("---")) {
            all.push_str("---\n");
        }
        all.push_str(if all.is_empty() { &file.text } else { text });
    }
    all
}

/// Changes in the form of `diff -u`.
fn diff(files: &[(String, Rewritten)]) -> String {
    let one = |(before, file): &(String, Rewritten)| {
        let diff = TextDiff::from_lines(before.as_str(), file.text.as_str());
        let (from, to) = (file.name.clone(), format!("{} (v1)", file.name));
        diff.unified_diff().context_radius(CONTEXT).header(&from, &to).to_string()
    };
    files.iter().filter(|(before, file)| *before != file.text).map(one).collect()
}
