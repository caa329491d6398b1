//! Rules of operators: NodePools' limits and budgets, and PodDisruptionBudgets with the workloads that they cover. They are noted
//! in the event log whenever manifests have been applied, so that whoever reads the log can judge by them.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_sandbox::apiserver::Gvr;
use dovetail_sandbox::cluster::needs;
use dovetail_sandbox::log::{ActionEntry, Caller};
use serde_json::{Value, json};

use super::history::{AmountsByName, add, amounts};
use super::slots::{self, PaidSlots};
use crate::scenario::parse_duration;
use crate::world::World;

/// Writes the rules as they stand into the event log.
pub(crate) fn note(world: &World) {
    let note = |fields: Vec<(&str, Value)>| world.log.append("rules", &Caller::named("operator"), fields);
    for pool in world.api.list(&Gvr::new("karpenter.sh", "v1", "nodepools")) {
        let spec = &pool["spec"];
        let mut fields = vec![
            ("resource", json!("nodepools")),
            ("name", pool["metadata"]["name"].clone()),
            ("limits", spec["limits"].clone()),
            ("budgets", spec["disruption"]["budgets"].clone()),
            ("ttl", json!(!pool["metadata"]["annotations"]["dovetail.dev/ttl-seconds-after-empty"].is_null())),
        ];
        if !spec["replicas"].is_null() {
            fields.push(("replicas", spec["replicas"].clone()));
        }
        let slots = slots::of_pool(world, &pool);
        if !slots.is_empty() {
            fields.push(("paidSlots", json!(slots)));
        }
        note(fields);
    }
    for (group, version, plural) in [
        ("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers"),
        ("autoscaling.x-k8s.io", "v1", "provisioningrequests"),
        ("autoscaling.k8s.io", "v1", "verticalpodautoscalers"),
    ] {
        for one in world.api.list(&Gvr::new(group, version, plural)) {
            let (namespace, name) = (one["metadata"]["namespace"].clone(), one["metadata"]["name"].clone());
            note(vec![("resource", json!(plural)), ("namespace", namespace), ("name", name)]);
        }
    }
    for set in world.api.list(&Gvr::new("apps", "v1", "daemonsets")) {
        note(vec![
            ("resource", json!("daemonsets")),
            ("namespace", set["metadata"]["namespace"].clone()),
            ("name", set["metadata"]["name"].clone()),
            ("requests", requests(world, &set)),
        ]);
    }
    for set in world.api.list(&Gvr::new("apps", "v1", "statefulsets")) {
        note(vec![
            ("resource", json!("statefulsets")),
            ("namespace", set["metadata"]["namespace"].clone()),
            ("name", set["metadata"]["name"].clone()),
            ("replicas", set["spec"]["replicas"].clone()),
            ("requests", requests(world, &set)),
        ]);
    }
    let workloads = workloads(world);
    for budget in world.api.list(&Gvr::new("policy", "v1", "poddisruptionbudgets")) {
        let (spec, namespace) = (&budget["spec"], &budget["metadata"]["namespace"]);
        let own = workloads.iter().filter(|(_, own, labels)| own == namespace && covers(&spec["selector"], labels));
        note(vec![
            ("resource", json!("poddisruptionbudgets")),
            ("namespace", namespace.clone()),
            ("name", budget["metadata"]["name"].clone()),
            ("minAvailable", spec["minAvailable"].clone()),
            ("maxUnavailable", spec["maxUnavailable"].clone()),
            ("covers", own.map(|(name, ..)| json!(name)).collect()),
        ]);
    }
}

/// Requests of a pod of a workload, once admission has filled in what its template leaves out.
fn requests(world: &World, set: &Value) -> Value {
    let namespace = set["metadata"]["namespace"].as_str().unwrap_or_default();
    json!([needs(&world.api.admitted_spec(namespace, &set["spec"]["template"]))])
}

/// `Kind/name`, namespace and pods' labels of what makes pods.
fn workloads(world: &World) -> Vec<(String, Value, Value)> {
    let kinds = [("Deployment", "deployments"), ("StatefulSet", "statefulsets"), ("ReplicaSet", "replicasets")];
    let of_kind = |(kind, plural): (&'static str, &str)| {
        let all = world.api.list(&Gvr::new("apps", "v1", plural));
        all.into_iter().map(move |one| {
            let name = one["metadata"]["name"].as_str().unwrap_or_default();
            let labels = one["spec"]["template"]["metadata"]["labels"].clone();
            (format!("{kind}/{name}"), one["metadata"]["namespace"].clone(), labels)
        })
    };
    kinds.into_iter().flat_map(of_kind).collect()
}

/// True if a selector matches these labels; one with expressions never does.
fn covers(selector: &Value, labels: &Value) -> bool {
    let wanted = selector["matchLabels"].as_object();
    selector["matchExpressions"].is_null()
        && wanted.is_some_and(|wanted| wanted.iter().all(|(key, value)| labels[key] == *value))
}

#[derive(Default)]
pub(super) struct RulesInForce {
    pub pools: BTreeMap<String, PoolRules>,
    /// Most that a pod of each DaemonSet requests on every node, by namespace and name.
    daemons: BTreeMap<(String, String), AmountsByName>,
    /// True if there are CapacityBuffers or ProvisioningRequests, whose nodes come whatever pods wait.
    pub buffers: bool,
    /// StatefulSets, whose pods come one after another, by namespace and name: a planner counts all of their pods.
    pub ordered: BTreeMap<(String, String), Ordered>,
    /// By namespace and name.
    pub budgets: BTreeMap<(String, String), PodBudgetRule>,
    /// Replicas that workloads have been scaled to, by namespace and `Kind/name`: now, and the fewest.
    scales: BTreeMap<(String, String), (usize, usize)>,
}

/// A StatefulSet.
#[derive(Clone, Debug, Default)]
pub(super) struct Ordered {
    /// The most that it has had.
    pub replicas: i64,
    /// Its replicas at first.
    first: usize,
    /// Requests of each of its pods.
    pub requests: AmountsByName,
}

/// A pool's limits and budgets.
#[derive(Clone, Debug, Default)]
pub(super) struct PoolRules {
    pub limits: AmountsByName,
    pub budgets: Vec<BudgetRule>,
    /// True if it was a Provisioner with a time to live, to which budgets do not apply.
    pub ttl: bool,
    /// `spec.replicas` of a static pool.
    pub replicas: Option<i64>,
    /// Instances of capacity reservations that its machines could be of (INV-26).
    pub slots: Vec<PaidSlots>,
}

/// A budget of a pool: the number of nodes that may be disrupted at once.
#[derive(Clone, Debug)]
pub(super) struct BudgetRule {
    nodes: String,
    reasons: BTreeSet<String>,
    /// Second of the day (UTC) and for how long; always without. One that is written otherwise is passed over.
    daily: Option<(f64, f64)>,
}

/// A PodDisruptionBudget: the number of pods that have to stay.
#[derive(Clone, Debug, Default)]
pub(super) struct PodBudgetRule {
    least: Option<String>,
    most_away: Option<String>,
    covers: BTreeSet<String>,
}

impl RulesInForce {
    /// Takes a note.
    pub fn apply(&mut self, entry: &ActionEntry) {
        let value = |name: &str| entry.field(name).cloned().unwrap_or_default();
        let name = entry.text("name").to_owned();
        match entry.text("resource") {
            "nodepools" => {
                let budgets =
                    value("budgets").as_array().into_iter().flatten().filter_map(BudgetRule::from_json).collect();
                let (limits, ttl) = (amounts(&value("limits")), value("ttl") == true);
                let replicas = value("replicas").as_i64();
                let slots = value("paidSlots").as_array().into_iter().flatten().map(PaidSlots::from_json).collect();
                self.pools.insert(name, PoolRules { limits, budgets, ttl, replicas, slots });
            }
            "capacitybuffers" | "provisioningrequests" | "verticalpodautoscalers" => self.buffers = true,
            "statefulsets" => {
                let own = self.ordered.entry((entry.text("namespace").to_owned(), name)).or_default();
                let replicas = value("replicas").as_i64().unwrap_or(1);
                (own.replicas, own.first) = (own.replicas.max(replicas), usize::try_from(replicas).unwrap_or(0));
                own.requests = sum(&value("requests"));
            }
            "daemonsets" => {
                let mut requests = sum(&value("requests"));
                requests.insert("pods".to_owned(), 1);
                let most = self.daemons.entry((entry.text("namespace").to_owned(), name)).or_default();
                for (name, amount) in requests {
                    let own = most.entry(name).or_default();
                    *own = amount.max(*own);
                }
            }
            "poddisruptionbudgets" => {
                let text = |field: &str| match value(field) {
                    Value::Null => None,
                    Value::String(text) => Some(text),
                    other => Some(other.to_string()),
                };
                let covers = value("covers")
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect();
                let budget = PodBudgetRule { least: text("minAvailable"), most_away: text("maxUnavailable"), covers };
                self.budgets.insert((entry.text("namespace").to_owned(), name), budget);
            }
            _ => {}
        }
    }
}

impl RulesInForce {
    /// Most that DaemonSets' pods request on every node together, and their number.
    pub fn daemons(&self) -> AmountsByName {
        let mut all = AmountsByName::new();
        self.daemons.values().for_each(|requests| add(&mut all, requests));
        all
    }

    pub fn scale(&mut self, kind: &str, namespace: &str, name: &str, replicas: u32) {
        let key = (namespace.to_owned(), name.to_owned());
        if let Ok(replicas) = usize::try_from(replicas) {
            let before = self.ordered.get(&key).map_or(replicas, |own| own.first);
            let scaled = self.scales.entry((namespace.to_owned(), format!("{kind}/{name}")));
            let scale = scaled.or_insert((replicas, before));
            *scale = (replicas, scale.1.min(replicas));
        }
        if let Some(own) = self.ordered.get_mut(&key).filter(|_| kind == "StatefulSet") {
            own.replicas = own.replicas.max(i64::from(replicas));
        }
    }

    /// Replicas that a workload has been scaled to, if it has.
    pub fn wanted(&self, namespace: &str, owner: &str) -> Option<usize> {
        self.scales.get(&(namespace.to_owned(), owner.to_owned())).map(|(now, _)| *now)
    }

    /// The API server was restored: workloads may want what they wanted before.
    pub fn restored(&mut self) {
        self.scales.values_mut().for_each(|(now, fewest)| *now = *fewest);
    }
}

pub(super) fn sum(list: &Value) -> AmountsByName {
    let mut all = AmountsByName::new();
    for one in list.as_array().into_iter().flatten() {
        add(&mut all, &amounts(one));
    }
    all
}

/// A day, in seconds.
const DAY: f64 = 86_400.0;

impl BudgetRule {
    fn from_json(written: &Value) -> Option<Self> {
        let nodes = written["nodes"].as_str().map_or_else(|| written["nodes"].to_string(), str::to_owned);
        let reasons = written["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let daily = match (written["schedule"].as_str(), written["duration"].as_str()) {
            (None, _) => None,
            (Some(line), duration) => Some((minute_and_hour(line)?, parse_duration(duration?)?.as_secs_f64())),
        };
        Some(Self { nodes, reasons: reasons.collect(), daily })
    }

    /// Nodes of `total` that it lets go for a reason, if it holds all the time from `since` to `until`, both in seconds of the
    /// world's days.
    pub fn allows(&self, reason: &str, total: usize, since: f64, until: f64) -> Option<usize> {
        let named = self.reasons.is_empty() || self.reasons.contains(reason);
        let holds = self.daily.is_none_or(|(begin, long)| {
            let into = (until - begin).rem_euclid(DAY);
            into < long && until - since <= into
        });
        (named && holds).then(|| scaled(&self.nodes, total)).flatten()
    }
}

/// `M H * * *` as a second of the day.
fn minute_and_hour(line: &str) -> Option<f64> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let [minute, hour, "*", "*", "*"] = parts[..] else { return None };
    Some(minute.parse::<f64>().ok()? * 60.0 + hour.parse::<f64>().ok()? * 3600.0)
}

impl PodBudgetRule {
    /// True if the budget covers the pods of a workload.
    pub fn covers(&self, owner: &str) -> bool {
        self.covers.contains(owner)
    }

    /// The workloads whose pods it is about.
    pub fn owners(&self) -> &BTreeSet<String> {
        &self.covers
    }

    /// Number of pods, out of `pods`, that have to be ready.
    pub fn least(&self, pods: usize) -> usize {
        let least = self.least.as_deref().and_then(|text| scaled(text, pods));
        let away = self.most_away.as_deref().and_then(|text| scaled(text, pods));
        least.or_else(|| away.map(|away| pods.saturating_sub(away))).unwrap_or(0)
    }
}

/// A number, or a share of so many, rounded up.
fn scaled(text: &str, total: usize) -> Option<usize> {
    match text.strip_suffix('%') {
        None => text.parse().ok(),
        Some(percent) => Some((total * percent.parse::<usize>().ok()?).div_ceil(100)),
    }
}
