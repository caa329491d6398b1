//! Cuts a scenario that fails down to what it fails by: steps and faults go, as long as the same still fails without them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use dovetail_input::{Failure, Mistake, describe, read_text};
use serde_json::{Map, Value};

use crate::play::{PlayOptions, play_file};
use crate::report::Report;

/// Most plays; what is left then is as small as it got.
const MOST_PLAYS: usize = 300;
/// Parts of a scenario that it can be played without.
const OPTIONAL: [&str; 3] = ["clocks", "nodes", "settled"];

/// A scenario that was cut down.
pub struct Shrunk {
    /// File that it is written to, beside the one it came from.
    pub path: PathBuf,
    /// Steps of the scenario before, and now.
    pub steps: (usize, usize),
    /// Number of times that it was played.
    pub plays: usize,
}

impl fmt::Display for Shrunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, now) = self.steps;
        let path = self.path.display();
        writeln!(f, "  shrunk from {before} steps to {now} in {} plays: dovetail simulate {path}", self.plays)
    }
}

/// Faults of a run: the invariants violated, or `pending` where pods are left.
fn wrong(report: &Report) -> BTreeSet<&'static str> {
    let mut wrong: BTreeSet<&str> = report.violations().iter().map(|one| one.id).collect();
    if wrong.is_empty() && !report.holds() {
        wrong.insert("pending");
    }
    wrong
}

/// Shrinks the scenario of a file; nothing when it comes out well.
///
/// # Errors
/// It cannot be read, played or written.
pub fn shrink(path: &Path, options: &PlayOptions) -> Result<Option<Shrunk>, Failure> {
    let options =
        PlayOptions { events: None, metrics: None, traces: None, record: None, progress: None, ..options.clone() };
    let name = path.display().to_string();
    let text = read_text(&name)?;
    let whole: Value =
        serde_saphyr::from_str(&text).map_err(|why| Failure::from(Mistake::of_file(&name, why.to_string())))?;
    let first = wrong(&play_file(path, &options)?.report);
    if first.is_empty() {
        return Ok(None);
    }
    let target = path.with_file_name("shrunk.yaml");
    let mut plays = 1;
    let least = reduce(&whole, &mut |candidate| {
        if plays == MOST_PLAYS {
            return Ok(false);
        }
        plays += 1;
        write(&target, candidate)?;
        match play_file(&target, &options) {
            Ok(played) => Ok(!wrong(&played.report).is_disjoint(&first)),
            // A scenario that makes no sense without the part is no answer.
            Err(Failure::Input(_) | Failure::Outcome) => Ok(false),
            Err(why) => Err(why),
        }
    })?;
    write(&target, &least)?;
    Ok(Some(Shrunk { path: target, steps: (steps(&whole), steps(&least)), plays }))
}

fn write(path: &Path, scenario: &Value) -> Result<(), Failure> {
    let failed = |why: String| Failure::System(format!("{}: {why}", path.display()));
    let text = serde_saphyr::to_string(scenario).map_err(|why| failed(why.to_string()))?;
    std::fs::write(path, text).map_err(|why| failed(describe(&why)))
}

fn steps(scenario: &Value) -> usize {
    scenario["steps"].as_array().map_or(0, Vec::len)
}

/// The least scenario found that `fails` as the whole does: first steps go, many at once while that works, then faults
/// and what else can be done without, then replicas; again until nothing more goes.
fn reduce<E>(whole: &Value, fails: &mut impl FnMut(&Value) -> Result<bool, E>) -> Result<Value, E> {
    let mut least = whole.clone();
    loop {
        let before = least.clone();
        fewer_steps(&mut least, fails)?;
        for path in removable(&least) {
            let candidate = without(&least, &path);
            if fails(&candidate)? {
                least = candidate;
            }
        }
        while let Some(replicas) = least["replicas"].as_u64().filter(|count| *count > 1) {
            let mut candidate = least.clone();
            candidate["replicas"] = (replicas - 1).into();
            if let Some(clocks) = candidate["clocks"].as_array_mut() {
                clocks.truncate(usize::try_from(replicas - 1).unwrap_or_default());
            }
            if !fails(&candidate)? {
                break;
            }
            least = candidate;
        }
        if least == before {
            return Ok(least);
        }
    }
}

fn fewer_steps<E>(least: &mut Value, fails: &mut impl FnMut(&Value) -> Result<bool, E>) -> Result<(), E> {
    let mut size = steps(least);
    while size > 0 {
        let mut start = 0;
        while start < steps(least) {
            let mut candidate = least.clone();
            if let Some(all) = candidate["steps"].as_array_mut() {
                let end = all.len().min(start + size);
                all.drain(start..end);
            }
            if fails(&candidate)? {
                *least = candidate;
            } else {
                start += size;
            }
        }
        size /= 2;
    }
    Ok(())
}

/// Keys that may go: whole parts, and each fault by itself.
fn removable(scenario: &Value) -> Vec<Vec<String>> {
    let there = OPTIONAL.into_iter().filter(|key| scenario.get(key).is_some());
    let mut all: Vec<Vec<String>> = there.map(|key| vec![key.to_owned()]).collect();
    let empty = Map::new();
    for (of, kinds) in scenario["faults"].as_object().unwrap_or(&empty) {
        let kinds = kinds.as_object().unwrap_or(&empty);
        all.extend(kinds.keys().map(|kind| vec!["faults".to_owned(), of.clone(), kind.clone()]));
    }
    all
}

fn without(scenario: &Value, path: &[String]) -> Value {
    let mut all = scenario.clone();
    let Some((last, above)) = path.split_last() else { return all };
    let parent = above.iter().try_fold(&mut all, |value, key| value.get_mut(key));
    if let Some(Value::Object(parent)) = parent {
        parent.remove(last);
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn what_it_fails_without_goes_and_the_rest_stays() {
        let steps: Vec<Value> = (0..13).map(|n| json!({"at": format!("{n}s")})).collect();
        let faults = json!({"apiServer": {"errorRate": 0.1, "latency": "5ms"}, "sqs": {"duplicateRate": 0.2}});
        let whole = json!({"replicas": 4, "seed": 7, "nodes": [], "clocks": [], "steps": steps, "faults": faults});
        let mut plays = 0;
        let least = reduce::<()>(&whole, &mut |candidate| {
            plays += 1;
            let has = |at: &str| candidate["steps"].as_array().unwrap().iter().any(|step| step["at"] == at);
            let slow = candidate["faults"]["apiServer"]["latency"].is_string();
            Ok(has("3s") && has("11s") && slow && candidate["replicas"].as_u64().unwrap() >= 2)
        });
        let expected = json!({"replicas": 2, "seed": 7, "steps": [{"at": "3s"}, {"at": "11s"}],
            "faults": {"apiServer": {"latency": "5ms"}, "sqs": {}}});
        assert_eq!(least.unwrap(), expected);
        assert!(plays < 60, "{plays} plays");
    }

    #[test]
    fn what_fails_by_itself_is_left_with_nothing() {
        let whole = json!({"seed": 7, "steps": [{"at": "1s"}, {"at": "2s"}], "settled": "1m"});
        assert_eq!(reduce::<()>(&whole, &mut |_| Ok(true)).unwrap(), json!({"seed": 7, "steps": []}));
    }
}
