//! A scenario file to a scenario: its structure. Each mistake names its line, its field, and what is allowed there.

use dovetail_input::{Mistake, read_text};
use serde_saphyr::Error;

use super::Scenario;

/// Reads a scenario file. Structure only; `check` looks at what it means.
///
/// # Errors
/// The first thing that a scenario has no place for.
pub fn read_scenario(path: &str) -> Result<Scenario, Mistake> {
    of_text(path, &read_text(path)?)
}

fn of_text(path: &str, text: &str) -> Result<Scenario, Mistake> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Err(Mistake::of_file(path, "is empty").allowing("a scenario: region, apply, steps, until, …"));
    }
    let mut field = String::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |yaml| {
        serde_path_to_error::deserialize(yaml).map_err(|error| {
            field = named(&error.path().to_string());
            error.into_inner()
        })
    });
    read.map_err(|error| mistake(path, field, &error))
}

/// A field as a user writes it: the library that knows lines has a `value` in every field that it knows the line of.
fn named(path: &str) -> String {
    let path = path.trim_end_matches(".value");
    if path == "." || path == "?" { String::new() } else { path.trim_end_matches(".?").to_owned() }
}

fn mistake(path: &str, field: String, error: &Error) -> Mistake {
    let line = error.location().map_or(0, |place| usize::try_from(place.line()).unwrap_or(0));
    let text = error.without_snippet().to_string();
    // The library ends its message with the place, which is said already.
    let text = text.split(" at line ").next().unwrap_or(&text).lines().next().unwrap_or_default();
    let (inner, what, allowed) = words(text);
    let field = match (field.as_str(), inner) {
        ("", inner) => inner.to_owned(),
        (_, "") => field,
        // The path of a key that nobody knows ends with it already.
        (own, inner) if own == inner || own.ends_with(&format!(".{inner}")) => field,
        (own, inner) => format!("{own}.{inner}"),
    };
    Mistake { file: path.to_owned(), line, field, what, allowed }
}

/// The library's message in our words: the member that it is about, what is wrong, and what is allowed.
fn words(text: &str) -> (&str, String, String) {
    let quoted = |text: &str| text.split('`').nth(1).map(str::to_owned).unwrap_or_default();
    let own = |what: &str, allowed: &str| ("", what.to_owned(), allowed.to_owned());
    if let Some(rest) = text.strip_prefix("unknown field ") {
        let allowed =
            rest.split_once("expected one of ").or_else(|| rest.split_once("expected ")).map_or("", |(_, all)| all);
        return ("", format!("unknown field `{}`", quoted(rest)), allowed.replace('`', ""));
    }
    if let Some(rest) = text.strip_prefix("missing field ") {
        let name = rest.trim_matches('`');
        return (name, "is missing".to_owned(), format!("a value for `{name}`"));
    }
    if let Some(name) = text.strip_prefix("duplicate mapping key: ") {
        let name = name.split(',').next().unwrap_or(name);
        return ("", format!("`{name}` is there twice"), "each key once".to_owned());
    }
    match text {
        "invalid u32" | "invalid u64" | "invalid usize" => own("is not such a number", "a whole number from 0"),
        "invalid i64" => own("is not such a number", "a whole number"),
        "invalid floating point" => own("is not a number", "a number, such as 0.1"),
        text if text.starts_with("invalid boolean") => own("is neither true nor false", "true, false"),
        text if text.starts_with("cannot deserialize null into string") => {
            own("has no value", "a text, such as '' for none")
        }
        "expected string scalar" => own("is not a text", "a text"),
        "expected sequence start" => own("is not a list", "a list"),
        "expected mapping start" => own("is not a mapping", "a mapping, `key: value`"),
        text if text.starts_with("multiple YAML documents") => own("there is a second document", "one scenario a file"),
        other => own(other, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line, field, what and what is allowed, as one line.
    fn told(text: &str) -> String {
        of_text("s", text).err().map(|mistake| mistake.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_slip_in_the_structure_names_line_field_and_what_is_allowed() {
        let step = |step: &str| told(&format!("until: 5m\nsteps:\n  - {step}\n"));
        for (told, wanted) in [
            (told("until: 5m\nseed: -4\n"), "s:2: seed: is not such a number (allowed: a whole number from 0)"),
            (told("replicas: two\n"), "s:1: replicas: is not such a number (allowed: a whole number from 0)"),
            (told("until: 5m\nuntil: 6m\n"), "s:2: `until` is there twice (allowed: each key once)"),
            (told("until: [5m]\n"), "s:1: until: is not a text (allowed: a text)"),
            (told("env: {A: null}\n"), "s:1: env.A: has no value (allowed: a text, such as '' for none)"),
            (told("steps: {at: 1m}\n"), "s:1: steps: is not a list (allowed: a list)"),
            (told("- until\n"), "s:1: is not a mapping (allowed: a mapping, `key: value`)"),
            (told("until: 5m\n---\nuntil: 6m\n"), "s:3: there is a second document (allowed: one scenario a file)"),
            (
                told("featureGates: {A: maybe}\n"),
                "s:1: featureGates.A: is neither true nor false (allowed: true, false)",
            ),
            (
                told("faults: {apiServer: {errorRate: 5%}}\n"),
                "s:1: faults.apiServer.errorRate: is not a number (allowed: a number, such as 0.1)",
            ),
            (step("{kill: {replica: 0}}"), "s:3: steps[0].at: is missing (allowed: a value for `at`)"),
            (
                step("{at: 1m, slowWatches: {for: 1m}}"),
                "s:3: steps[0].slowWatches.by: is missing (allowed: a value for `by`)",
            ),
            (
                step("{at: 1m, deleteSome: {kind: Pod, count: -1}}"),
                "s:3: steps[0].deleteSome.count: is not such a number (allowed: a whole number from 0)",
            ),
            (
                step("{at: 1m, scale: {kind: Deployment, name: a, replica: 2}}"),
                "s:3: steps[0].scale.replica: unknown field `replica` (allowed: kind, name, namespace, replicas)",
            ),
        ] {
            assert_eq!(told, wanted);
        }
    }
}
