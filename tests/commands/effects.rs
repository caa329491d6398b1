//! Every field of the CRDs has a row that names a file and a word in it, or is named by what says that it has no effect. So has
//! every setting. The word shows the effect as far as whoever wrote the row has chosen it well. tests/commands/chart.rs does the same for values.yaml.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::common;
#[path = "effects/fields.rs"]
mod fields;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use common::root;
use dovetail_actors::settings::{TABLE, Topic, without_effect};
use dovetail_api::unimplemented;
use fields::FIELDS;
use serde_json::{Value, json};

/// Fields that nothing is done about, each with an object's spec that asks for it: none now.
fn not_implemented() -> Vec<(&'static str, &'static str, Value)> {
    Vec::new()
}

/// The leaves of a schema: `spec.amiSelectorTerms[].alias`.
fn leaves(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let (properties, below) = match schema["items"]["properties"].as_object() {
        Some(of_items) => (Some(of_items), format!("{path}[]")),
        None => (schema["properties"].as_object(), path.to_owned()),
    };
    let Some(properties) = properties else {
        found.insert(path.to_owned());
        return;
    };
    for (name, field) in properties {
        leaves(field, &format!("{below}.{name}"), found);
    }
}

/// All leaves of our kinds, as v1 has them in deploy/crds.
fn schema_fields() -> BTreeSet<(String, String)> {
    let mut all = BTreeSet::new();
    for file in ["karpenter.sh_nodepools", "karpenter.sh_nodeclaims", "karpenter.k8s.aws_ec2nodeclasses"] {
        let text = std::fs::read_to_string(root().join(format!("deploy/crds/{file}.yaml"))).unwrap();
        let crd: Value = serde_saphyr::from_str(&text).unwrap();
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        let versions = crd["spec"]["versions"].as_array().unwrap();
        let v1 = versions.iter().find(|version| version["name"] == "v1").unwrap();
        for top in ["spec", "status"] {
            let mut found = BTreeSet::new();
            leaves(&v1["schema"]["openAPIV3Schema"]["properties"][top], top, &mut found);
            all.extend(found.into_iter().map(|path| (kind.to_owned(), path)));
        }
    }
    assert!(all.len() > 100, "{} fields", all.len());
    all
}

fn covers(of: &str, path: &str) -> bool {
    path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('['))
}

#[test]
fn every_crd_field_has_a_shown_effect_or_is_said_to_have_none() {
    let known: Vec<(&str, &str)> = FIELDS.iter().map(|(kind, path, ..)| (*kind, *path)).collect();
    let missing = not_implemented();
    let all: BTreeSet<(&str, &str)> =
        known.iter().copied().chain(missing.iter().map(|(kind, path, _)| (*kind, *path))).collect();
    let fields = schema_fields();
    for (kind, path) in &fields {
        let covering: Vec<_> = all.iter().filter(|(of, field)| of == kind && covers(field, path)).collect();
        assert_eq!(
            covering.len(),
            1,
            "{kind} {path}: {covering:?} (tests/commands/effects/fields.rs, or not_implemented here)"
        );
    }
    for (kind, path) in &all {
        assert!(fields.iter().any(|(of, field)| of == kind && covers(path, field)), "{kind} has no field {path}");
    }
}

#[test]
fn what_shows_the_effect_of_a_field_is_there() {
    for (kind, path, file, word) in FIELDS {
        let text =
            std::fs::read_to_string(root().join(file)).unwrap_or_else(|why| panic!("{kind} {path}: {file}: {why}"));
        assert!(text.contains(word), "{kind} {path}: {word:?} is not in {file}");
    }
}

#[test]
fn what_is_not_implemented_is_said_of_the_object_by_its_field() {
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    for (kind, path, asked) in not_implemented() {
        let mut spec = json!({"subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "amiSelectorTerms": []});
        if kind == "NodePool" {
            spec = json!({"template": {"spec": {"nodeClassRef": reference, "requirements": []}}});
        }
        spec.as_object_mut().unwrap().extend(asked.as_object().unwrap().clone());
        let object = json!({"metadata": {"name": "default"}, "spec": spec});
        let told = match kind {
            "NodePool" => unimplemented::of_pool(&serde_json::from_value(object).unwrap()),
            _ => unimplemented::of_class(&serde_json::from_value(object).unwrap()),
        };
        assert!(told.iter().any(|one| one.starts_with(path)), "{kind} {path}: {told:?}");
    }
}

/// All Rust files below a folder but those of the settings themselves, and what stands in them.
fn sources(folder: &Path, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("settings") {
                sources(&path, all);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_setting_is_read_or_is_said_to_have_no_effect() {
    let mut read = Vec::new();
    for folder in ["actors/src", "src", "crates/simulation/src", "crates/telemetry/src", "crates/input/src"] {
        sources(&root().join(folder), &mut read);
    }
    let own = |file: &str| std::fs::read_to_string(root().join("actors/src/settings").join(file)).unwrap();
    let own = own("mod.rs") + &own("groups.rs") + &own("gates.rs");
    let table = std::fs::read_to_string(root().join("actors/src/settings/table.rs")).unwrap();
    for known in TABLE {
        let row = table.split(&format!("\"{}\"", known.name)).nth(1).unwrap().split("row(").next().unwrap();
        if known.topic == Topic::NoEffect {
            assert!(!row.contains("own."), "{} is set to something", known.name);
            continue;
        }
        let (_, set) = row.split_once("own.").unwrap_or_else(|| panic!("{} sets nothing", known.name));
        // `webhook.enabled` is of a group.
        let end = set.find(|c: char| !(c.is_ascii_alphanumeric() || "_.".contains(c))).unwrap();
        let field = match &set[..end] {
            // Read by functions of the settings.
            "set_gates" => "reserved_capacity()",
            "aws_gates" | "ignore_devices" => "devices()",
            "cpu_requests" => "cores()",
            "ami_refresh" | "subnet_refresh" => "class_refresh()",
            // Groups of other crates, which are handed on whole.
            field => match field.split_once('.') {
                Some((group @ ("ceilings" | "churn" | "commitments" | "futile" | "lease"), _)) => group,
                _ => field,
            },
        };
        let (word, bare) = (format!(".{field}"), field.trim_end_matches("()").rsplit('.').next().unwrap());
        assert!(own.contains(bare), "Settings has no {field}");
        assert!(read.iter().any(|text| text.contains(&word)), "nobody reads {field} ({})", known.name);
    }
}

#[test]
fn a_gate_that_is_misspelt_is_said() {
    let told = |name: &str, value: &str| without_effect(&BTreeMap::from([(name.to_owned(), value.to_owned())]));
    for gate in ["NodeOverly", "NodeRepiar"] {
        let said = told("FEATURE_GATES", &format!("{gate}=true"));
        assert!(said.len() == 1 && said[0].contains(gate), "{said:?}");
    }
    let there = "Drift=true,ReservedCapacity=true,NodeRepair=true,RebootForRepair=true,SpotToSpotConsolidation=true,ManyToManyConsolidation=true";
    assert_eq!(told("FEATURE_GATES", there), [""; 0]);
    let of_static_pools = "StaticCapacity=true,TerminateFirstDrift=true,TerminateFirstRepair=true";
    assert_eq!(told("FEATURE_GATES", of_static_pools), [""; 0]);
    assert_eq!(told("FEATURE_GATES", "CapacityBuffer=true,CapacityQuota=true,NodeOverlay=true"), [""; 0]);
}

/// Constants of names, by file.
#[test]
fn every_name_of_an_annotation_a_condition_or_a_taint_is_used() {
    let names = root().join("crates/api/src/names");
    let mut read = Vec::new();
    for folder in ["actors/src", "src", "crates"] {
        sources(&root().join(folder), &mut read);
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for word in read.iter().flat_map(|text| text.split(|c| !is_word(c))) {
        *uses.entry(word).or_default() += 1;
    }
    for file in ["annotations.rs", "conditions.rs", "taints.rs"] {
        let text = std::fs::read_to_string(names.join(file)).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("pub const ")) {
            let name = line.split(':').next().unwrap();
            assert!(uses.get(name).is_some_and(|count| *count > 1), "{file}: nobody uses {name}");
        }
    }
}
