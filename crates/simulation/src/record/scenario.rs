//! A record as a scenario: a folder of files that `simulate` plays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dovetail_input::{Failure, describe};
use serde_json::{Map, Value, json};

use super::{Record, RecordLine};

/// Differences from the record when it is played again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayChanges {
    /// Settings by their environment names.
    pub settings: BTreeMap<String, String>,
    /// The seed, instead of the record's.
    pub seed: Option<u64>,
    /// Objects that take the place of those of their kinds and names, and are never changed by the record.
    pub objects: Vec<Value>,
}

/// The objects that are there at a time.
pub type TimedObjects = BTreeMap<[String; 3], Value>;

impl Record {
    /// Writes the scenario and its manifests into a folder; the path of the scenario.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_scenario(&self, folder: &Path, changes: &ReplayChanges) -> Result<PathBuf, Failure> {
        let mut scenario = self.begin.scenario.clone();
        let mut files = 0_usize;
        let mut save = |objects: Vec<Value>| {
            let name = format!("objects-{files}.json");
            files += 1;
            write(&folder.join(&name), &json!({"apiVersion": "v1", "kind": "List", "items": objects})).map(|()| name)
        };
        let (mut first, mut steps) = (Vec::new(), Vec::new());
        let replaced: Vec<[String; 3]> = changes.objects.iter().map(identity).collect();
        let is_replaced = |object: &Value| replaced.contains(&identity(object));
        for line in &self.happened {
            match line {
                RecordLine::Apply { t, objects } => {
                    let kept: Vec<Value> = objects.iter().filter(|one| !is_replaced(one)).cloned().collect();
                    if *t == 0.0 && steps.is_empty() {
                        first.extend(kept);
                    } else if !kept.is_empty() {
                        steps.push(json!({"at": milliseconds(*t), "apply": [save(kept)?]}));
                    }
                }
                RecordLine::Step { t, step } => {
                    let mut step = step.clone();
                    step.insert("at".to_owned(), milliseconds(*t).into());
                    steps.push(Value::Object(step));
                }
                _ => {}
            }
        }
        first.extend(changes.objects.clone());
        if !first.is_empty() {
            scenario.insert("apply".to_owned(), json!([save(first)?]));
        }
        scenario.insert("steps".to_owned(), steps.into());
        if self.cut.is_some() || !scenario.contains_key("until") {
            scenario.insert("until".to_owned(), milliseconds(self.seconds.max(1.0)).into());
        }
        change_settings(&mut scenario, changes);
        let path = folder.join("scenario.yaml");
        write(&path, &Value::Object(scenario))?;
        Ok(path)
    }

    /// The objects that are there at a time, by kind, namespace and name; scaled as they were then.
    #[must_use]
    pub fn objects_at(&self, seconds: f64) -> TimedObjects {
        let mut there = TimedObjects::new();
        for line in self.happened.iter().take_while(|line| line.seconds() <= seconds) {
            match line {
                RecordLine::Apply { objects, .. } => {
                    there.extend(objects.iter().map(|object| (identity(object), object.clone())));
                }
                RecordLine::Step { step, .. } => {
                    if let Some(scale) = step.get("scale")
                        && let Some(object) = there.get_mut(&target(scale))
                    {
                        object["spec"]["replicas"] = scale["replicas"].clone();
                    }
                    if let Some(delete) = step.get("delete") {
                        there.remove(&target(delete));
                    }
                }
                _ => {}
            }
        }
        there
    }
}

/// Kind, namespace and name of an object.
pub fn identity(object: &Value) -> [String; 3] {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
    [text(&object["kind"]), namespace, text(&object["metadata"]["name"])]
}

/// The same of a step's target.
fn target(step: &Value) -> [String; 3] {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    [text(&step["kind"]), step["namespace"].as_str().unwrap_or("default").to_owned(), text(&step["name"])]
}

fn change_settings(scenario: &mut Map<String, Value>, changes: &ReplayChanges) {
    if let Some(seed) = changes.seed {
        scenario.insert("seed".to_owned(), seed.into());
    }
    let settings = scenario.entry("settings").or_insert_with(|| json!({}));
    for (name, value) in &changes.settings {
        settings[name] = value.clone().into();
    }
}

/// A time as a scenario has it.
fn milliseconds(seconds: f64) -> String {
    format!("{}ms", (seconds * 1000.0).round() as u64)
}

fn write(path: &Path, value: &Value) -> Result<(), Failure> {
    let written = std::fs::write(path, value.to_string() + "\n");
    written.map_err(|why| Failure::System(format!("{}: {}", path.display(), describe(&why))))
}
