//! Every field to the edge of its schema and beyond.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::crds;
use dovetail_api::schema::{OWN_KINDS, Schema, UnknownFields, schema_for};
use serde_json::{Value, json};

use super::cases::{cases, required};
use super::through_type;

/// One step from an object into a field.
#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Item,
    Entry,
}

/// A field of a kind, and its schema.
struct Field {
    steps: Vec<Step>,
    schema: Value,
}

impl Field {
    fn name(&self) -> String {
        let shown = self.steps.iter().map(|step| match step {
            Step::Field(name) => format!(".{name}"),
            Step::Item => "[]".into(),
            Step::Entry => "{}".into(),
        });
        shown.collect::<String>().trim_start_matches('.').to_owned()
    }
}

/// All fields below `spec` and `status`, lists and maps before what is in them.
fn fields(schema: &Value) -> Vec<Field> {
    fn walk(schema: &Value, steps: &[Step], found: &mut Vec<Field>) {
        let mut below = |step: Step, inner: &Value| {
            let steps: Vec<Step> = steps.iter().cloned().chain([step]).collect();
            if inner["x-kubernetes-preserve-unknown-fields"] != true {
                found.push(Field { steps: steps.clone(), schema: inner.clone() });
                walk(inner, &steps, found);
            }
        };
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            below(Step::Field(name.clone()), inner);
        }
        if schema["items"].is_object() {
            below(Step::Item, &schema["items"]);
        }
        if schema["additionalProperties"].is_object() {
            below(Step::Entry, &schema["additionalProperties"]);
        }
    }
    let mut found = Vec::new();
    for root in ["spec", "status"] {
        walk(&schema["properties"][root], &[Step::Field(root.into())], &mut found);
    }
    found
}

/// The object with a value in a field; what is missing on the way there gets what it has to have.
fn with(object: &Value, root: &Value, steps: &[Step], value: &Value) -> Value {
    let Some((step, rest)) = steps.split_first() else { return value.clone() };
    match step {
        Step::Field(name) => {
            let inner = &root["properties"][name.as_str()];
            let mut object = if object.is_object() { object.clone() } else { required(root) };
            let before = object.get(name).cloned().unwrap_or(Value::Null);
            object[name.as_str()] = with(&before, inner, rest, value);
            object
        }
        // A list of this one alone, and a map likewise: other items have rules of their own with it.
        Step::Item => json!([with(&Value::Null, &root["items"], rest, value)]),
        Step::Entry => json!({"key": with(&Value::Null, &root["additionalProperties"], rest, value)}),
    }
}

/// Objects to put a field into. Some rules want one of two fields.
fn bases(api_version: &str, kind: &str, schema: &Value) -> Vec<Value> {
    let mut spec = required(&schema["properties"]["spec"]);
    let mut more = Vec::new();
    if kind == "EC2NodeClass" {
        spec["subnetSelectorTerms"] = json!([{"id": "subnet-1"}]);
        spec["securityGroupSelectorTerms"] = json!([{"id": "sg-1"}]);
        if api_version.ends_with("/v1") {
            spec["amiSelectorTerms"] = json!([{"alias": "al2023@latest"}]);
            let mut custom = spec.clone();
            custom["amiFamily"] = json!("Custom");
            custom["amiSelectorTerms"] = json!([{"id": "ami-1"}]);
            custom["role"] = json!("role");
            more.push(custom);
        }
        let mut profile = spec.clone();
        profile["instanceProfile"] = json!("profile");
        spec["role"] = json!("role");
        more.push(profile);
    }
    if kind == "AWSNodeTemplate" {
        more.push(json!({"amiSelector": {"aws::name": "x"}}));
    }
    let all = std::iter::once(spec).chain(more);
    all.map(|spec| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec})).collect()
}

/// Values of fields that rules say more of than the schema does.
fn by_rule(field: &str) -> Vec<Value> {
    match field.rsplit('.').next().unwrap_or_default() {
        "alias" => vec![json!("al2023@latest"), json!("bottlerocket@1.20.3"), json!("al2@v20240807")],
        _ => Vec::new(),
    }
}

/// Fields without which a field is not allowed.
fn companions(field: &str) -> Value {
    match field.rsplit('.').next().unwrap_or_default() {
        "schedule" => json!({"duration": "1h"}),
        "duration" => json!({"schedule": "@daily"}),
        "volumeInitializationRate" => json!({"snapshotID": "snap-1"}),
        "owner" | "ownerID" => json!({"tags": {"a": "b"}}),
        "deleteOnTermination" | "encrypted" | "iops" | "kmsKeyID" | "throughput" | "volumeType" => {
            json!({"volumeSize": "20Gi"})
        }
        "operator" => json!({"values": ["1"]}),
        "consolidationPolicy" => json!({"consolidateAfter": "Never"}),
        "consolidateAfter" => json!({"consolidationPolicy": "WhenEmpty"}),
        _ => json!({}),
    }
}

/// The object as an API server stores it: defaults filled in, unknown fields taken away. `None` when it is refused.
fn stored(schema: &Schema, mut object: Value) -> Option<Value> {
    schema.prune(&mut object);
    schema.default(&mut object);
    let errors = schema.validate(&object, UnknownFields::Ignore);
    (errors.is_empty() && schema.check_rules(&object, None).is_empty()).then_some(object)
}

/// The same but for how it is written: an integer for a quantity, a time in another zone, what is empty.
fn alike(value: &Value) -> Value {
    match value {
        Value::Object(all) => {
            let kept = all.iter().map(|(name, inner)| (name.clone(), alike(inner)));
            let said = |name: &str, inner: &Value| match name {
                "budgets" => true,
                "deprecated" | "interruptible" => *inner != json!(false),
                _ => !is_empty(inner),
            };
            kept.filter(|(name, inner)| said(name, inner)).collect::<serde_json::Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(alike).collect(),
        Value::Number(number) => json!(number.to_string()),
        Value::String(text) => match text.parse::<jiff::Timestamp>() {
            // Kubernetes' Time is kept in seconds.
            Ok(time) => json!(time.as_second().to_string()),
            Err(_) => value.clone(),
        },
        other => other.clone(),
    }
}

/// True if every field that an object of the schema needs has a default.
fn completed(schema: &Value) -> bool {
    let mut needed = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    schema["type"] == "object" && needed.all(|name| !schema["properties"][name]["default"].is_null())
}

/// True if an absent value means the same: lists, maps, texts.
fn is_empty(value: &Value) -> bool {
    *value == json!([]) || *value == json!({}) || *value == json!("")
}

fn check(api_version: &str, kind: &str) -> Vec<String> {
    let openapi = crds::schema_of(api_version, kind).unwrap();
    let schema = schema_for(api_version, kind).unwrap();
    let bases = bases(api_version, kind, &openapi);
    let mut wrong = Vec::new();
    for base in &bases {
        assert!(stored(schema, base.clone()).is_some(), "{api_version} {kind}: {base}");
    }
    for field in fields(&openapi) {
        let (name, cases) = (field.name(), cases(&field.schema));
        // The kind of an inline provider is known, and not kept.
        if matches!(name.as_str(), "spec.provider.apiVersion" | "spec.provider.kind") {
            continue;
        }
        let mut admitted = BTreeSet::new();
        for base in &bases {
            let mut base = base.clone();
            let parent = &field.steps[..field.steps.len() - 1];
            let companions = companions(&name);
            for (beside, value) in companions.as_object().unwrap() {
                let steps: Vec<Step> = parent.iter().cloned().chain([Step::Field(beside.clone())]).collect();
                base = with(&base, &openapi, &steps, value);
            }
            for value in cases.edges.iter().chain(&by_rule(&name)) {
                let object = place(&base, &openapi, &field.steps, value, &companions);
                let Some(object) = stored(schema, object) else { continue };
                admitted.insert(value.to_string());
                match through_type(api_version, kind, &object) {
                    Err(why) => wrong.push(format!("{kind} {name}: {value} is admitted and cannot be read: {why}")),
                    Ok(written) if alike(&written) != alike(&object) => {
                        wrong.push(format!("{kind} {name}: {value} is lost: {object} became {written}"));
                    }
                    Ok(_) => {}
                }
            }
            // An API server completes an empty object where all that it needs has a default.
            for value in cases.beyond.iter().filter(|value| **value != json!({}) || !completed(&field.schema)) {
                let object = place(&base, &openapi, &field.steps, value, &companions);
                if let Some(object) = stored(schema, object) {
                    wrong.push(format!("{kind} {name}: {value} is admitted: {object}"));
                }
            }
        }
        // Objects, and lists of them, may need some field that their own fields are tried with.
        let leaf = |schema: &Value| !schema["properties"].is_object();
        if admitted.is_empty() && leaf(&field.schema) && leaf(&field.schema["items"]) {
            wrong.push(format!("{kind} {name}: no case of it is admitted, so that nothing was tried"));
        }
    }
    wrong
}

/// The object with the value in the field, and beside it what it needs.
fn place(base: &Value, openapi: &Value, steps: &[Step], value: &Value, companions: &Value) -> Value {
    let last = steps.iter().rposition(|step| !matches!(step, Step::Field(_)));
    if companions.as_object().is_some_and(serde_json::Map::is_empty) || last.is_none() {
        return with(base, openapi, steps, value);
    }
    // The item that is made anew has its companions as well.
    let (to_item, within) = steps.split_at(last.unwrap_or_default() + 1);
    let item_schema = to_item.iter().fold(openapi, |schema, step| match step {
        Step::Field(name) => &schema["properties"][name.as_str()],
        Step::Item => &schema["items"],
        Step::Entry => &schema["additionalProperties"],
    });
    let mut item = Value::Null;
    for (beside, value) in companions.as_object().into_iter().flatten() {
        let steps: Vec<Step> =
            within[..within.len().saturating_sub(1)].iter().cloned().chain([Step::Field(beside.clone())]).collect();
        item = with(&item, item_schema, &steps, value);
    }
    let item = with(&item, item_schema, within, value);
    with(base, openapi, to_item, &item)
}

#[test]
fn schema_edges_are_read_without_loss_and_beyond_is_refused() {
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (api_version, kind) in OWN_KINDS.iter().copied() {
        let found = check(api_version, kind);
        if !found.is_empty() {
            wrong.insert(format!("{api_version} {kind}"), found);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
