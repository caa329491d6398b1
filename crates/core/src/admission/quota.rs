//! ResourceQuotas: bounds on the pods of a namespace together (Kubernetes, "Resource Quotas").

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::Value;

use super::quantities;
use crate::pod::{effective_limits, effective_requests};
use crate::resources::{Resources, format_amount, parse_amount};

/// A ResourceQuota, as far as pods are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// `metadata.name`, which refusals name.
    pub name: String,
    /// The most there may be, by the name that the quota has for it (`pods`, `requests.cpu`, ...), in the unit of the
    /// resource behind it.
    hard: BTreeMap<String, i64>,
    scopes: Vec<Scope>,
}

/// The pods that a quota counts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    BestEffort(bool),
    Terminating(bool),
    /// By the name of the PriorityClass: the operator and its values.
    PriorityClass(String, Vec<String>),
    /// By pod affinity to other namespaces, which nothing here counts: such a quota limits no pod.
    Other,
}

/// Amounts for which a pod counts, by the quota's name for each.
pub type Charge = BTreeMap<String, i64>;

impl Quota {
    /// Reads a ResourceQuota; bounds on anything but pods are left out.
    #[must_use]
    pub fn from_json(quota: &Value) -> Self {
        let hard = quantities(&quota["spec"]["hard"]);
        let hard = hard.iter().filter(|(name, _)| counts_pods(name));
        let scopes = quota["spec"]["scopes"].as_array().into_iter().flatten().map(|scope| plain(scope.as_str()));
        let selected = quota["spec"]["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
        Self {
            name: quota["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            hard: hard
                .filter_map(|(name, text)| Some((name.clone(), parse_amount(behind(name), text).ok()?)))
                .collect(),
            scopes: scopes.chain(selected.map(selected_scope)).collect(),
        }
    }

    #[must_use]
    pub fn counts(&self, pod: &Value) -> bool {
        let spec = &pod["spec"];
        self.scopes.iter().all(|scope| match scope {
            Scope::BestEffort(wanted) => is_best_effort(spec) == *wanted,
            Scope::Terminating(wanted) => spec["activeDeadlineSeconds"].is_number() == *wanted,
            Scope::PriorityClass(operator, values) => {
                let class = spec["priorityClassName"].as_str().filter(|name| !name.is_empty());
                let among = class.is_some_and(|class| values.iter().any(|value| value == class));
                match operator.as_str() {
                    "In" => among,
                    "NotIn" => !among,
                    "Exists" => class.is_some(),
                    _ => class.is_none(),
                }
            }
            Scope::Other => false,
        })
    }

    /// Checks that a pod of this charge may come beside the used amounts.
    ///
    /// # Errors
    /// The bound that is exceeded, or the amount that the pod has to specify, in the API server's words.
    pub fn admit(&self, used: &Charge, charge: &Charge) -> Result<(), String> {
        let missing: Vec<&str> = self
            .hard
            .keys()
            .filter(|name| has_to_be_said(name) && !charge.contains_key(*name))
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            return Err(format!("failed quota: {}: must specify {}", self.name, missing.join(",")));
        }
        let over = |(name, hard): &(&String, &i64)| {
            let more = charge.get(*name).copied().unwrap_or(0);
            more > 0 && used.get(*name).copied().unwrap_or(0).saturating_add(more) > **hard
        };
        let over: Vec<(&String, &i64)> = self.hard.iter().filter(over).collect();
        if over.is_empty() {
            return Ok(());
        }
        let list = |amount: &dyn Fn(&String, &i64) -> i64| {
            let each =
                over.iter().map(|(name, hard)| format!("{name}={}", format_amount(behind(name), amount(name, hard))));
            each.collect::<Vec<_>>().join(",")
        };
        Err(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            self.name,
            list(&|name, _| charge.get(name).copied().unwrap_or(0)),
            list(&|name, _| used.get(name).copied().unwrap_or(0)),
            list(&|_, hard| *hard),
        ))
    }

    /// The bounds, as the object's `status.hard` shows them: quantity text by name.
    #[must_use]
    pub fn hard(&self) -> BTreeMap<String, String> {
        self.hard.iter().map(|(name, amount)| (name.clone(), format_amount(behind(name), *amount))).collect()
    }

    /// The used amounts, as the object's `status.used` shows them: quantity text by name.
    #[must_use]
    pub fn used(&self, used: &Charge) -> BTreeMap<String, String> {
        let of = |name: &String| used.get(name).copied().unwrap_or(0);
        self.hard.keys().map(|name| (name.clone(), format_amount(behind(name), of(name)))).collect()
    }
}

/// The charge of a pod. A pod that has ended counts as an object only.
#[must_use]
pub fn charge_of(pod: &Value) -> Charge {
    let mut charge = Charge::from([("count/pods".to_owned(), 1)]);
    if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return charge;
    }
    charge.insert("pods".into(), 1);
    let Ok(spec) = serde_json::from_value::<PodSpec>(pod["spec"].clone()) else { return charge };
    let (requests, limits) =
        (effective_requests(&spec).unwrap_or_default(), effective_limits(&spec).unwrap_or_default());
    let mut put = |prefix: &str, amounts: &Resources| {
        for (name, amount) in amounts.iter() {
            charge.insert(format!("{prefix}{name}"), amount);
            if prefix == "requests." && matches!(name, "cpu" | "memory" | "ephemeral-storage") {
                charge.insert(name.to_owned(), amount);
            }
        }
    };
    put("requests.", &requests);
    put("limits.", &limits);
    charge
}

/// Adds the charge of another pod.
pub fn add(used: &mut Charge, charge: &Charge) {
    for (name, amount) in charge {
        let sum = used.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

/// True if a name of a quota is about pods.
fn counts_pods(name: &str) -> bool {
    matches!(name, "pods" | "count/pods" | "cpu" | "memory" | "ephemeral-storage")
        || name.starts_with("limits.")
        || (name.starts_with("requests.") && name != "requests.storage")
}

/// True if a pod has to specify it where a quota bounds it (compute resources only).
fn has_to_be_said(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "requests.cpu" | "requests.memory" | "limits.cpu" | "limits.memory")
}

/// The resource behind a quota's name.
fn behind(name: &str) -> &str {
    name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name)
}

fn plain(scope: Option<&str>) -> Scope {
    match scope {
        Some("BestEffort") => Scope::BestEffort(true),
        Some("NotBestEffort") => Scope::BestEffort(false),
        Some("Terminating") => Scope::Terminating(true),
        Some("NotTerminating") => Scope::Terminating(false),
        _ => Scope::Other,
    }
}

fn selected_scope(expression: &Value) -> Scope {
    match expression["scopeName"].as_str() {
        Some("PriorityClass") => {
            let values = expression["values"].as_array().into_iter().flatten();
            let operator = expression["operator"].as_str().unwrap_or("Exists").to_owned();
            Scope::PriorityClass(operator, values.filter_map(|value| Some(value.as_str()?.to_owned())).collect())
        }
        other => plain(other),
    }
}

/// True if no container has a request or limit of CPU or memory.
fn is_best_effort(spec: &Value) -> bool {
    let lists = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array()).flatten();
    lists.into_iter().all(|container| {
        ["requests", "limits"].iter().all(|field| {
            let amounts = &container["resources"][field];
            amounts["cpu"].is_null() && amounts["memory"].is_null()
        })
    })
}
