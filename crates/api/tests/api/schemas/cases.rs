//! Values of a schema: one that is usual, those at its edges, and those beyond.

use dovetail_api::crds::patterns;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

/// Values that a schema admits by itself, and values that it may not.
#[derive(Default)]
pub struct Cases {
    pub edges: Vec<Value>,
    pub beyond: Vec<Value>,
}

/// A value as users write it.
pub fn usual(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|all| all.first()) {
        return first.clone();
    }
    if schema["x-kubernetes-int-or-string"] == true || schema["type"] == "string" {
        return json!(usual_text(schema));
    }
    match schema["type"].as_str() {
        Some("integer") => json!(schema["minimum"].as_i64().unwrap_or(1)),
        Some("boolean") => json!(true),
        Some("array") => json!([usual(&schema["items"])]),
        _ => required(schema),
    }
}

/// An object with what it has to have.
pub fn required(schema: &Value) -> Value {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut all: Map<_, _> = names.map(|name| (name.to_owned(), usual(&schema["properties"][name]))).collect();
    // A requirement: the first operator wants values.
    if schema["properties"]["values"].is_object() && all.contains_key("operator") {
        all.insert("operator".into(), json!("Exists"));
    }
    all.into()
}

/// An object with all that it can have.
pub fn full(schema: &Value) -> Value {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return json!({"anything": [1]});
    }
    match (schema["type"].as_str(), schema["properties"].as_object()) {
        (Some("object"), Some(properties)) => {
            properties.iter().map(|(name, inner)| (name.clone(), full(inner))).collect::<Map<_, _>>().into()
        }
        (Some("object"), None) if schema["additionalProperties"].is_object() => {
            json!({"key": full(&schema["additionalProperties"])})
        }
        (Some("array"), _) => json!([full(&schema["items"])]),
        _ => usual(schema),
    }
}

fn usual_text(schema: &Value) -> String {
    if schema["format"] == "date-time" {
        return "2026-01-02T15:04:05Z".into();
    }
    match schema["pattern"].as_str() {
        Some(patterns::DURATION | patterns::DURATION_OR_NEVER | patterns::BUDGET_DURATION) => "1h".into(),
        Some(patterns::BUDGET_NODES) => "10%".into(),
        Some(patterns::SCHEDULE) => "@daily".into(),
        Some(patterns::KEY) => "example.com/team".into(),
        Some(patterns::QUANTITY) => "1Gi".into(),
        Some(pattern) => sampled(pattern, 1).remove(0),
        None => "al2023@latest".into(),
    }
}

/// Texts that a pattern admits, the same in every run.
fn sampled(pattern: &str, count: usize) -> Vec<String> {
    let plain = pattern.trim_start_matches('^').trim_end_matches('$');
    let strategy = proptest::string::string_regex(plain).unwrap_or_else(|why| panic!("{pattern}: {why}"));
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// The cases of one schema.
pub fn cases(schema: &Value) -> Cases {
    let mut cases = Cases::default();
    if let Some(all) = schema["enum"].as_array() {
        cases.edges.extend(all.iter().cloned());
        cases.beyond.extend([json!(""), json!("NoSuchWord"), json!(1), json!([])]);
        cases.beyond.extend(all.iter().filter_map(Value::as_str).map(|word| json!(format!("{word} "))));
        return cases;
    }
    if schema["x-kubernetes-int-or-string"] == true {
        cases.edges.extend([json!(0), json!(1), json!(i64::MAX)]);
        cases.beyond.extend([json!(true), json!([]), json!({}), json!(1.5)]);
        texts(schema, &mut cases);
        return cases;
    }
    match schema["type"].as_str() {
        Some("string") => {
            texts(schema, &mut cases);
            cases.beyond.extend([json!(1), json!(true), json!([]), json!({})]);
        }
        Some("integer") => integers(schema, &mut cases),
        Some("boolean") => {
            cases.edges.extend([json!(true), json!(false)]);
            cases.beyond.extend([json!("true"), json!(1), json!({})]);
        }
        Some("array") => arrays(schema, &mut cases),
        Some("object") if schema["additionalProperties"].is_object() => maps(schema, &mut cases),
        Some("object") => {
            cases.edges.extend([required(schema)]);
            cases.beyond.extend([json!([]), json!("text"), json!(1)]);
            let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            cases.beyond.extend(names.map(|name| {
                let mut object = required(schema);
                object.as_object_mut().unwrap().remove(name);
                object
            }));
        }
        other => panic!("a schema of type {other:?} has no cases: {schema}"),
    }
    cases
}

fn texts(schema: &Value, cases: &mut Cases) {
    let (least, most) = (schema["minLength"].as_u64().unwrap_or(0), schema["maxLength"].as_u64());
    if schema["format"] == "date-time" {
        times(cases);
        return;
    }
    let Some(pattern) = schema["pattern"].as_str() else {
        let lengths = [least, least + 1, most.unwrap_or(5000)];
        cases.edges.extend(lengths.map(|count| json!("a".repeat(count as usize))));
        cases.edges.extend([json!("\u{fc}\u{20ac} \n\"'"), json!("null")]);
        if let Some(most) = most {
            cases.beyond.push(json!("a".repeat(most as usize + 1)));
        }
        if least > 0 {
            cases.beyond.push(json!("a".repeat(least as usize - 1)));
        }
        return;
    };
    let (edges, beyond) = known_texts(pattern);
    cases.edges.extend(edges.iter().map(|text| json!(text)));
    cases.edges.extend(sampled(pattern, 64).into_iter().map(Value::from));
    cases.beyond.extend(beyond.iter().map(|text| json!(text)));
    if let Some(most) = most {
        cases.beyond.push(json!("a".repeat(most as usize + 1)));
    }
}

/// The edges of the patterns whose values a type of ours reads, and what lies just beyond.
#[allow(clippy::too_many_lines)] // one table, or one course from beginning to end
fn known_texts(pattern: &str) -> (Vec<String>, Vec<String>) {
    let own = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    match pattern {
        patterns::DURATION | patterns::DURATION_OR_NEVER => {
            let edges = own(&[
                "0s",
                "720h",
                "1h30m",
                "2h0m0s",
                "30s",
                "1s1m1h",
                "876000h",
                "2562047h",
                "2562047h46m59s",
                "153699999m",
                "9222999999s",
                "99999h99999h",
            ]);
            let mut beyond = own(&[
                "",
                "s",
                "1",
                "-1h",
                "1.5h",
                "1ms",
                "1d",
                "2562048h",
                "2562047h47m",
                "9999999999h",
                "3000000h",
                "9223372037s",
                "2562047h2562047h",
                "1h\n",
                "never",
            ]);
            if pattern == patterns::DURATION {
                beyond.push("Never".into());
            }
            (edges, beyond)
        }
        patterns::BUDGET_DURATION => (
            own(&["1h", "0m", "8h30m", "1h0s", "999999h9999999m0s"]),
            own(&["", "30s", "1h1h", "1h30s", "9999999h", "99999999999999999999m"]),
        ),
        patterns::BUDGET_NODES => {
            (own(&["0", "0%", "100%", "999999999"]), own(&["", "101%", "-1", "1.5", "99999999999999999999", "10 %"]))
        }
        patterns::SCHEDULE => (
            own(&["@daily", "0 9 * * mon-fri", "*/5 0-6,22 1,15 * ?", " 0 0 1 1 * "]),
            own(&["", "* * * *", "* * * * * *", "@dailyish", "@reboot", "@daily x", "TZ=UTC 0 9 * * *"]),
        ),
        patterns::KEY => (
            vec!["a".into(), format!("{}/{}", vec!["a".repeat(62); 4].join("."), "b".repeat(63)), "a.b/C_d".into()],
            vec![String::new(), "a b".into(), "a/b/c".into(), "b".repeat(64), "A.b/c".into(), "-a".into()],
        ),
        patterns::LABEL_VALUE => (
            vec![String::new(), "a".repeat(63), "a.B_c-1".into()],
            vec!["-a".into(), "a/b".into(), "a b".into(), "a-".into()],
        ),
        patterns::QUANTITY => (
            own(&[
                "0",
                "1",
                ".5",
                "1.",
                "500m",
                "1n",
                "2Ei",
                "9223372036854775807",
                "92233720368547758070E",
                "1e3",
                "1E-9",
                "1e99",
                "-1",
                "+1k",
            ]),
            own(&["", "1 Gi", "1GB", "1K", "1e", "1e1.5", "1e.5", "0x10", "ten", "1e3k"]),
        ),
        other => {
            let regex = regex_lite::Regex::new(other).unwrap();
            let none = own(&["", " ", "no\u{fc}", "a b\u{0}", "-", "subnet-", "9999999999999999Gi"]);
            (Vec::new(), none.into_iter().filter(|text| !regex.is_match(text)).collect())
        }
    }
}

fn times(cases: &mut Cases) {
    let edges = [
        "0000-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
        "2024-02-29T23:59:59.999999999Z",
        "2026-01-02t15:04:05z",
        "2026-01-02T15:04:05+23:59",
        "9998-12-31T23:59:59-23:59",
    ];
    let beyond = [
        "",
        "now",
        "2026-01-02",
        "2026-01-02 15:04:05Z",
        "2026-13-02T15:04:05Z",
        "9999-12-31T23:59:59Z",
        "10000-01-01T00:00:00Z",
        "2026-01-02T15:04:05",
        "2026-01-02T15:04:05.1234567890Z",
        "2026-01-02T15:04:05+99:99",
        "-001-01-01T00:00:00Z",
    ];
    cases.edges.extend(edges.map(|text| json!(text)));
    cases.beyond.extend(beyond.map(|text| json!(text)));
}

fn integers(schema: &Value, cases: &mut Cases) {
    let wide = schema["format"] == "int64";
    let (low, high) = if wide { (i64::MIN, i64::MAX) } else { (i64::from(i32::MIN), i64::from(i32::MAX)) };
    let (least, most) = (schema["minimum"].as_i64().unwrap_or(low), schema["maximum"].as_i64().unwrap_or(high));
    cases.edges.extend([least, most].map(Value::from));
    cases.beyond.extend([json!("1"), json!(1.5), json!(true), json!([]), json!(u64::MAX), json!(1e30)]);
    cases.beyond.extend(least.checked_sub(1).into_iter().chain(most.checked_add(1)).map(Value::from));
}

fn arrays(schema: &Value, cases: &mut Cases) {
    let item = usual(&schema["items"]);
    let (least, most) = (schema["minItems"].as_u64().unwrap_or(0), schema["maxItems"].as_u64());
    cases.edges.push(Value::Array(vec![item.clone(); least as usize]));
    cases.edges.push(json!([item]));
    cases.beyond.extend([json!({}), json!("text"), json!([null]), json!([[[]]])]);
    if let Some(most) = most {
        cases.beyond.push(Value::Array(vec![item.clone(); most as usize + 1]));
    }
    if let Some(fewer) = least.checked_sub(1) {
        cases.beyond.push(Value::Array(vec![item; fewer as usize]));
    }
}

fn maps(schema: &Value, cases: &mut Cases) {
    let value = usual(&schema["additionalProperties"]);
    // A null is an entry that is not there.
    cases.edges.extend([
        json!({}),
        json!({"key": value}),
        json!({"key": value, "none": null}),
        json!({"example.com/a-long-one": value, "b": value}),
    ]);
    cases.beyond.extend([json!([]), json!("text"), json!({"key": []})]);
    if let Some(most) = schema["maxProperties"].as_u64() {
        cases.beyond.push((0..=most).map(|at| (format!("key-{at}"), value.clone())).collect::<Map<_, _>>().into());
    }
}
