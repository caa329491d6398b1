//! The file of `run --config`: what flags and variables say, in one place that can be reviewed and kept in a repository. A flag
//! beats a variable, a variable beats the file.

use std::collections::BTreeMap;

use dovetail_actors::settings::{KnownSetting, TABLE};
use dovetail_input::{Mistake, read_text};
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::near::did_you_mean;

/// Forms of settings' values in the file, beside texts, numbers and booleans.
const LIST_OR_MAPPING: [(&str, &str); 4] = [
    ("NAME=BOOL,…", "a mapping of names to true or false"),
    ("NAME=SIZE/RATE,…", "a mapping of names to SIZE/RATE"),
    ("MODES", "a list of words"),
    ("PATHS", "a list of paths"),
];

/// A setting as the file gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiledSetting {
    /// The name as it is written in the file.
    pub key: String,
    /// The line of its value, from 1.
    pub line: usize,
    /// The value as a flag would give it.
    pub text: String,
}

/// Settings of a file, by the name that they have in the environment.
#[derive(Clone, Debug, Default)]
pub struct ConfigFile {
    /// The file, as the user named it.
    pub path: String,
    /// The settings that it gives.
    pub settings: BTreeMap<&'static str, FiledSetting>,
}

impl ConfigFile {
    /// Reads a file: a YAML mapping whose keys are names of settings, as the chart, the environment or the flags write them. A
    /// key without a value counts as not given.
    ///
    /// # Errors
    /// One mistake for each key that is unknown, that is there twice or whose value has the wrong form, with its line.
    pub fn read_file(path: &str) -> Result<Self, Vec<Mistake>> {
        Self::of_text(path, &read_text(path).map_err(|mistake| vec![mistake])?)
    }

    fn of_text(path: &str, text: &str) -> Result<Self, Vec<Mistake>> {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Self { path: path.to_owned(), settings: BTreeMap::new() });
        }
        let read: Result<BTreeMap<String, Spanned<Value>>, _> = serde_saphyr::from_str(text);
        let entries = read.map_err(|error| vec![unreadable(path, &error)])?;
        let line_of = |value: &Spanned<Value>| usize::try_from(value.referenced.line()).unwrap_or(0);
        let mut entries: Vec<_> = entries.into_iter().map(|(key, value)| (line_of(&value), key, value.value)).collect();
        entries.sort_by_key(|(line, ..)| *line);
        let (mut settings, mut mistakes) = (BTreeMap::<&str, FiledSetting>::new(), Vec::new());
        for (line, key, value) in entries {
            let place = |what: String| Mistake { line, field: key.clone(), ..Mistake::of_file(path, what) };
            let Some(known) = known_setting(&key) else {
                let names = TABLE.iter().map(|known| camel(known.name)).collect::<Vec<_>>();
                let hint = did_you_mean(&key, names.iter().map(String::as_str));
                mistakes
                    .push(place(format!("there is no such setting{hint}")).allowing("the names of docs/settings.md"));
                continue;
            };
            match as_flag(known, &value) {
                Ok(None) => {}
                Ok(Some(text)) => match settings.get(known.name) {
                    Some(other) => {
                        mistakes.push(place(format!("is the same setting as {} in line {}", other.key, other.line)))
                    }
                    None => drop(settings.insert(known.name, FiledSetting { key: key.clone(), line, text })),
                },
                Err(allowed) => mistakes.push(place("its value has another form".to_owned()).allowing(allowed)),
            }
        }
        if mistakes.is_empty() { Ok(Self { path: path.to_owned(), settings }) } else { Err(mistakes) }
    }
}

fn unreadable(path: &str, error: &serde_saphyr::Error) -> Mistake {
    let line = error.location().map_or(0, |place| usize::try_from(place.line()).unwrap_or(0));
    let text = error.without_snippet().to_string();
    let what = text.split(" at line ").next().unwrap_or(&text).lines().next().unwrap_or_default().to_owned();
    Mistake { line, ..Mistake::of_file(path, what) }.allowing("a mapping of settings, such as clusterName: demo")
}

/// The setting of a name, written as `BATCH_MAX_DURATION`, `batch-max-duration` or `batchMaxDuration`.
fn known_setting(written: &str) -> Option<&'static KnownSetting> {
    let letters = |name: &str| -> String {
        name.chars().filter(|letter| !matches!(letter, '_' | '-')).map(|letter| letter.to_ascii_lowercase()).collect()
    };
    let written = letters(written);
    TABLE.iter().find(|known| letters(known.name) == written)
}

/// A name of the environment as the chart writes it.
fn camel(name: &str) -> String {
    let mut words = name.split('_').map(str::to_ascii_lowercase);
    let first = words.next().unwrap_or_default();
    first + &words.map(|word| capital(&word)).collect::<String>()
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

/// A value as a flag would give it; none where there is none.
fn as_flag(known: &KnownSetting, value: &Value) -> Result<Option<String>, String> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    };
    if value.is_null() {
        return Ok(None);
    }
    if let Some(text) = scalar(value) {
        return Ok(Some(text).filter(|text| !text.is_empty()));
    }
    let form = LIST_OR_MAPPING.iter().find(|(kind, _)| *kind == known.value).map(|(_, form)| *form);
    let allowed = || form.map_or_else(|| known.value.to_owned(), |form| format!("{}, or {form}", known.value));
    match (known.value, value) {
        // Whoever reads the setting reads YAML, which JSON is.
        ("YAML", _) => Ok(Some(value.to_string())),
        ("MODES" | "PATHS", Value::Array(items)) => {
            let words: Option<Vec<String>> = items.iter().map(scalar).collect();
            words.map(|words| Some(words.join(","))).ok_or_else(allowed)
        }
        (kind, Value::Object(members)) if kind.starts_with("NAME=") => {
            let pairs: Option<Vec<String>> =
                members.iter().map(|(name, value)| Some(format!("{}={}", capital(name), scalar(value)?))).collect();
            pairs.map(|pairs| Some(pairs.join(","))).ok_or_else(allowed)
        }
        _ => Err(allowed()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> Result<BTreeMap<&'static str, String>, Vec<String>> {
        let file = ConfigFile::of_text("dovetail.yaml", text);
        let texts = |file: ConfigFile| file.settings.into_iter().map(|(name, one)| (name, one.text)).collect();
        file.map(texts).map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn names_are_those_of_chart_environment_and_flags() {
        for known in TABLE {
            for written in [known.name.to_owned(), known.flag(), camel(known.name)] {
                assert_eq!(known_setting(&written).map(|found| found.name), Some(known.name), "{written}");
            }
        }
        assert_eq!(known_setting("clusterCABundle").unwrap().name, "CLUSTER_CA_BUNDLE", "the chart's own capitals");
    }

    #[test]
    fn values_are_texts_numbers_booleans_lists_and_mappings() {
        let settings = read(
            "# A cluster.\nclusterName: demo\nBATCH_MAX_DURATION: 20s\nkube-client-qps: 50\nisolatedVPC: true\nlogLevel:\n\
             featureGates: {spotToSpotConsolidation: true, Drift: false}\nadoptAs: [observe, fewest-nodes]\n\
             ec2Limits:\n  InstancesLaunched: 5000/20\n\
             schedulerConfig:\n  podTopologySpread:\n    defaultConstraints: []\n",
        )
        .unwrap();
        let expected = [
            ("ADOPT_AS", "observe,fewest-nodes"),
            ("BATCH_MAX_DURATION", "20s"),
            ("CLUSTER_NAME", "demo"),
            ("EC2_LIMITS", "InstancesLaunched=5000/20"),
            ("FEATURE_GATES", "Drift=false,SpotToSpotConsolidation=true"),
            ("ISOLATED_VPC", "true"),
            ("KUBE_CLIENT_QPS", "50"),
            ("SCHEDULER_CONFIG", r#"{"podTopologySpread":{"defaultConstraints":[]}}"#),
        ];
        let given: Vec<(&str, &str)> = settings.iter().map(|(name, text)| (*name, text.as_str())).collect();
        assert_eq!(given, expected);
        assert!(read("").unwrap().is_empty() && read("# nothing yet\n").unwrap().is_empty());
    }

    #[test]
    fn mistakes_have_their_line_and_what_is_allowed() {
        let told = read("clusterName: demo\nbatchMaxDuraton: 1s\nclusterEndpoint: [a]\ncluster-name: b\n").unwrap_err();
        assert_eq!(
            told,
            [
                "dovetail.yaml:2: batchMaxDuraton: there is no such setting; did you mean batchMaxDuration? (allowed: the names of docs/settings.md)",
                "dovetail.yaml:3: clusterEndpoint: its value has another form (allowed: URL)",
                "dovetail.yaml:4: cluster-name: is the same setting as clusterName in line 1",
            ]
            .map(str::to_owned),
            "{told:#?}"
        );
        let told = read("- clusterName\n").unwrap_err();
        assert!(told[0].starts_with("dovetail.yaml:1: ") && told[0].contains("a mapping of settings"), "{told:?}");
        let told = read("clusterName: a\nclusterName: b\n").unwrap_err();
        assert!(told[0].starts_with("dovetail.yaml:2: "), "{told:?}");
        let told = read("adoptAs: {a: b}\n").unwrap_err();
        assert_eq!(told, ["dovetail.yaml:1: adoptAs: its value has another form (allowed: MODES, or a list of words)"]);
    }
}
