//! LimitRanges: default requests and limits of a namespace's containers, and bounds that they must not exceed (Kubernetes,
//! "Limit Ranges").

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Map, Value};

use super::{containers, containers_mut, fill, quantities};
use crate::pod::{limits_of_containers, requests_of_containers};
use crate::resources::{Resources, parse_amount};

/// A LimitRange, as far as pods are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitRange {
    items: Vec<Item>,
}

/// The objects that one item of a LimitRange applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Container,
    Pod,
}

/// One item, with the defaults that the API server derives. Quantity text by resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    scope: Scope,
    default_limits: BTreeMap<String, String>,
    default_requests: BTreeMap<String, String>,
    max: BTreeMap<String, String>,
    min: BTreeMap<String, String>,
    ratio: BTreeMap<String, String>,
}

impl Item {
    fn from_json(item: &Value) -> Option<Self> {
        let scope = match item["type"].as_str() {
            Some("Container") => Scope::Container,
            Some("Pod") => Scope::Pod,
            _ => return None,
        };
        let [mut default_limits, mut default_requests, max, min, ratio] =
            ["default", "defaultRequest", "max", "min", "maxLimitRequestRatio"].map(|field| quantities(&item[field]));
        if scope == Scope::Container {
            // The API server's own defaulting, resource by resource: the maximum is the default limit; that, or else the
            // minimum, the default request.
            merge(&mut default_limits, &max);
            merge(&mut default_requests, &default_limits);
            merge(&mut default_requests, &min);
        }
        Some(Self { scope, default_limits, default_requests, max, min, ratio })
    }
}

fn merge(into: &mut BTreeMap<String, String>, from: &BTreeMap<String, String>) {
    for (name, amount) in from {
        into.entry(name.clone()).or_insert_with(|| amount.clone());
    }
}

impl LimitRange {
    /// Reads a LimitRange. Items about anything else than containers and pods are left out.
    #[must_use]
    pub fn from_json(range: &Value) -> Self {
        Self { items: range["spec"]["limits"].as_array().into_iter().flatten().filter_map(Item::from_json).collect() }
    }

    /// Gives a pod's containers the default limits and requests that they do not name.
    pub fn fill(&self, spec: &mut Map<String, Value>) {
        for item in self.items.iter().filter(|item| item.scope == Scope::Container) {
            for container in containers_mut(spec) {
                fill(container, "limits", &item.default_limits);
                fill(container, "requests", &item.default_requests);
            }
        }
    }

    /// Checks a pod against the bounds.
    ///
    /// # Errors
    /// Every rule that is broken, in the API server's words.
    pub fn check(&self, spec: &Map<String, Value>) -> Result<(), String> {
        let mut broken = Vec::new();
        for item in &self.items {
            match item.scope {
                Scope::Container => {
                    for container in containers(spec) {
                        let amounts = |field: &str| parse_amounts(&quantities(&container["resources"][field]));
                        item.check("Container", &amounts("requests"), &amounts("limits"), &mut broken);
                    }
                }
                Scope::Pod => {
                    let Ok(typed) = serde_json::from_value::<PodSpec>(Value::Object(spec.clone())) else { continue };
                    // Requests and limits of the pod as a whole override the sum of its containers' (KEP-2837).
                    let whole = |containers: Resources, field: &str| {
                        let own = spec.get("resources").map_or(&Value::Null, |own| &own[field]);
                        let mut all = containers;
                        parse_amounts(&quantities(own)).iter().for_each(|(name, amount)| all.set(name, amount));
                        all
                    };
                    let requests = whole(requests_of_containers(&typed).unwrap_or_default(), "requests");
                    let limits = whole(limits_of_containers(&typed).unwrap_or_default(), "limits");
                    item.check("Pod", &requests, &limits, &mut broken);
                }
            }
        }
        match broken.as_slice() {
            [] => Ok(()),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}

/// Parses amounts; text that is no quantity is left out, as the API server refuses it elsewhere.
fn parse_amounts(texts: &BTreeMap<String, String>) -> Resources {
    texts.iter().filter_map(|(name, text)| Some((name.clone(), parse_amount(name, text).ok()?))).collect()
}

impl Item {
    fn check(&self, scope: &str, requests: &Resources, limits: &Resources, broken: &mut Vec<String>) {
        let (min, max) = (parse_amounts(&self.min), parse_amounts(&self.max));
        for (name, bound) in min.iter() {
            let text = &self.min[name];
            let rule = format!("minimum {name} usage per {scope} is {text}");
            match (requests.find(name), limits.find(name)) {
                (None, _) => broken.push(format!("{rule}.  No request is specified")),
                (Some(request), _) if request < bound => {
                    broken.push(format!("{rule}, but request is {}", as_text(name, request)))
                }
                (_, Some(limit)) if limit < bound => {
                    broken.push(format!("{rule}, but limit is {}", as_text(name, limit)))
                }
                _ => {}
            }
        }
        for (name, bound) in max.iter() {
            let text = &self.max[name];
            let rule = format!("maximum {name} usage per {scope} is {text}");
            match (requests.find(name), limits.find(name)) {
                (_, None) => broken.push(format!("{rule}.  No limit is specified")),
                (_, Some(limit)) if limit > bound => {
                    broken.push(format!("{rule}, but limit is {}", as_text(name, limit)))
                }
                (Some(request), _) if request > bound => {
                    broken.push(format!("{rule}, but request is {}", as_text(name, request)));
                }
                _ => {}
            }
        }
        for (name, text) in &self.ratio {
            // A ratio is a bare number, whatever the resource: in thousandths.
            let Ok(bound) = crate::quantity::parse(text, 1000) else { continue };
            let rule = format!("{name} max limit to request ratio per {scope} is {text}");
            match (requests.get(name), limits.get(name)) {
                (0, _) => broken.push(format!("{rule}, but no request is specified or request is 0")),
                (_, 0) => broken.push(format!("{rule}, but no limit is specified or limit is 0")),
                (request, limit) if i128::from(limit) * 1000 > i128::from(bound) * i128::from(request) => {
                    #[allow(clippy::cast_precision_loss)] // for people
                    let ratio = limit as f64 / request as f64;
                    broken.push(format!("{rule}, but provided ratio is {ratio:.6}"));
                }
                _ => {}
            }
        }
    }
}

fn as_text(name: &str, amount: i64) -> String {
    crate::resources::format_amount(name, amount)
}
