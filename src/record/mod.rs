//! `dovetail record`: a live cluster's day as lines that can be played again. The cluster is read and never written.

mod chart;
mod compare;
mod figures;
mod hashing;
mod metrics;
mod objects;
mod replay;
mod savings;

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::names::labels;
use dovetail_cloud::shipped;
use dovetail_core::cluster_state::PlanningInput;
use dovetail_input::{Failure, Mistake};
use dovetail_simulation::record::{
    RecordBegin, RecordSource, RecordWriter, TimedObjects, VERSION, identity, observe, schema,
};
use dovetail_telemetry::stopwatch::Stopwatch;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};

pub(crate) use replay::progress;

use crate::cli::RecordArgs;
use crate::live;
use crate::live::escape::escape;
use crate::live::price::price_by_labels;
use crate::output::print;
use crate::progress::ProgressLine;
use crate::run::connect::plainly;
use hashing::NameHasher;
use objects::REPLAY_CLUSTER;

/// Objects a page.
const PAGE: u32 = 500;
/// Looks in a row that may fail before the record ends.
const MOST_FAILURES: u32 = 20;
/// Settings that a replay takes over, and none that names a place.
const SETTINGS: [&str; 11] = [
    "BATCH_IDLE_DURATION",
    "BATCH_MAX_DURATION",
    "PREFERENCE_POLICY",
    "MIN_VALUES_POLICY",
    "PACKING_POLICY",
    "PRICE_PER_NODE",
    "MAX_OPTION_PRICE",
    "EXPENDABLE_PODS_PRIORITY_CUTOFF",
    "CONSOLIDATION_LEAST_AGE",
    "CONSOLIDATION_LEAST_SAVING",
    "CONSOLIDATION_REST",
];
/// Kinds that are recorded: group, version, kind, plural.
const KINDS: [(&str, &str, &str, &str); 11] = [
    ("karpenter.sh", "v1", "NodePool", "nodepools"),
    ("karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses"),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses"),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("", "v1", "Pod", "pods"),
];

/// Runs the command.
///
/// # Errors
/// No cluster, no file, or the cluster cannot be read for long.
pub fn run(args: &RecordArgs) -> Result<(), Failure> {
    if args.schema {
        return print(&schema());
    }
    let Some(file) = &args.file else {
        return Err(Mistake::of_file("FILE", "is not given").allowing("a file for the record").into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Failure::System(why.to_string()))?;
    let ended = runtime.block_on(record(args, file));
    // A look-up of a name may hang for a while: nobody waits for it.
    runtime.shutdown_background();
    ended
}

pub use compare::run as compare;
pub use replay::run as replay;
pub use savings::run as savings;

async fn record(args: &RecordArgs, file: &str) -> Result<(), Failure> {
    let cluster = live::read_cluster(&args.cluster).await?;
    cluster.missing.iter().for_each(|one| eprintln!("not read: {}: {}", escape(&one.what), escape(&one.why)));
    let hasher = args.hash_names.then(NameHasher::new);
    let client = cluster.connection.client.clone();
    let first = look_at(&client, hasher.as_ref()).await?;
    first.unread.iter().for_each(|(kind, why)| eprintln!("not recorded: {kind}: {}", escape(why)));
    let began = RecordBegin {
        version: VERSION,
        source: RecordSource::Cluster,
        started: cluster.planning.now.wall.to_string(),
        every: args.every.as_secs_f64(),
        hashed: args.hash_names,
        prices: cluster.offers_from.clone(),
        scenario: scenario(&cluster, &first.nodes, hasher.as_ref()),
    };
    let mut recorder = Recorder {
        writer: RecordWriter::create(file, began)?,
        planning: cluster.planning.clone(),
        objects: TimedObjects::new(),
        nodes: BTreeSet::new(),
        unread: first.unread.keys().copied().collect(),
        launched: 0,
        ended: 0,
    };
    recorder.took(0.0, first, true)?;
    let (started, progress) = (Stopwatch::start(), ProgressLine::new(args.quiet));
    let mut failures = 0;
    loop {
        let left = args.length.saturating_sub(started.elapsed());
        let stopped = tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => true,
            () = tokio::time::sleep(left.min(args.every)) => false,
        };
        let t = started.elapsed().as_secs_f64();
        // A message now has a line of its own.
        progress.clear();
        match look_at(&client, hasher.as_ref()).await {
            Ok(found) => {
                failures = 0;
                recorder.took(t, found, false)?;
            }
            Err(why) if failures < MOST_FAILURES && !stopped => {
                failures += 1;
                eprintln!("no look at {t:.0} s: {}", escape(&live::describe(&why)));
            }
            Err(why) => return Err(why),
        }
        progress.show("recorded", started.elapsed(), args.length);
        if stopped || started.elapsed() >= args.length {
            progress.clear();
            return recorder.writer.end(t);
        }
    }
}

/// The cluster at one time.
struct Look {
    objects: TimedObjects,
    nodes: Vec<Value>,
    pods: Vec<Value>,
    /// Kinds that could not be listed, and why.
    unread: BTreeMap<&'static str, String>,
}

async fn look_at(client: &Client, hasher: Option<&NameHasher>) -> Result<Look, Failure> {
    let mut found = Look { objects: TimedObjects::new(), nodes: vec![], pods: vec![], unread: BTreeMap::new() };
    for (group, version, kind, plural) in KINDS {
        let all = match list(client, (group, version, kind, plural)).await {
            Ok(all) => all,
            Err(why) if kind != "Pod" => {
                found.unread.insert(kind, live::why_unread(&why, plural)?);
                continue;
            }
            Err(why) => return Err(Failure::System(format!("pods cannot be listed: {}", plainly(&why)))),
        };
        let kept = all.iter().filter_map(|one| objects::recorded(kind, one, hasher));
        found.objects.extend(kept.map(|one| (identity(&one), one)));
        if kind == "Pod" {
            found.pods = all;
        }
    }
    let nodes = list(client, ("", "v1", "Node", "nodes")).await;
    found.nodes = nodes.map_err(|why| Failure::System(format!("nodes cannot be listed: {}", plainly(&why))))?;
    Ok(found)
}

/// All objects of a kind, by pages; begun anew where the API server has forgotten the place.
async fn list(client: &Client, (group, version, kind, plural): (&str, &str, &str, &str)) -> kube::Result<Vec<Value>> {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let (mut all, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
    let mut restarts = 0;
    loop {
        let page = match api.list(&params).await {
            Err(why) if live::is_forgotten(&why) && restarts < live::MOST_RESTARTS => {
                restarts += 1;
                (all, params) = (Vec::new(), ListParams::default().limit(PAGE));
                continue;
            }
            page => page?,
        };
        all.extend(page.items.iter().filter_map(|one| serde_json::to_value(one).ok()));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// The rest of the scenario: the region, settings, and nodes that are there.
fn scenario(cluster: &live::LiveCluster, nodes: &[Value], hasher: Option<&NameHasher>) -> Map<String, Value> {
    let of_node = nodes.iter().find_map(|node| node["metadata"]["labels"][labels::REGION].as_str());
    let given = Some(cluster.settings.aws_region.as_str()).filter(|region| !region.is_empty());
    let region = given.or(of_node).unwrap_or("us-east-1").to_owned();
    let catalogue = shipped::regions().any(|known| known == region).then(|| shipped::catalogue(&region));
    let known = |type_: &str, zone: &str| {
        catalogue.as_ref().is_some_and(|all| {
            all.types.iter().any(|one| one.name == type_) && all.zones.iter().any(|one| one.name == zone)
        })
    };
    let settings: Map<String, Value> = SETTINGS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), cluster.given.get(*name)?.clone().into())))
        .collect();
    let rest = json!({"region": region, "clusterName": REPLAY_CLUSTER, "seed": 1, "replicas": 1, "settings": settings,
        "nodes": objects::nodes_beforehand(nodes, known, hasher)});
    rest.as_object().cloned().unwrap_or_default()
}

struct Recorder {
    writer: RecordWriter,
    planning: PlanningInput,
    objects: TimedObjects,
    /// Uids of nodes of NodePools.
    nodes: BTreeSet<String>,
    /// Kinds that could not be listed at the last look.
    unread: BTreeSet<&'static str>,
    launched: usize,
    ended: usize,
}

impl Recorder {
    /// Writes what has changed since the look before, and the look.
    fn took(&mut self, t: f64, mut found: Look, is_first: bool) -> Result<(), Failure> {
        self.keep_unread(t, &mut found);
        let changes = objects::changes(&self.objects, &found.objects);
        self.writer.apply(t, changes.applied)?;
        changes.steps.into_iter().try_for_each(|step| self.writer.step(t, step))?;
        self.objects = found.objects;
        let own = found.nodes.iter().filter(|node| node["metadata"]["labels"][labels::NODE_POOL].is_string());
        let own: BTreeSet<String> =
            own.filter_map(|node| node["metadata"]["uid"].as_str().map(str::to_owned)).collect();
        if !is_first {
            self.launched += own.difference(&self.nodes).count();
            self.ended += self.nodes.difference(&own).count();
        }
        self.nodes = own;
        let mut seen = observe(&found.nodes, &found.pods, |node| self.price(node));
        (seen.launched, seen.ended) = (self.launched, self.ended);
        self.writer.seen(t, seen)
    }

    /// Objects of a kind that could not be listed are those of the look before: not to be seen is not to be deleted.
    fn keep_unread(&mut self, t: f64, found: &mut Look) {
        for (kind, why) in found.unread.iter().filter(|(kind, _)| !self.unread.contains(*kind)) {
            eprintln!("{kind} not read at {t:.0} s, those of before count: {}", escape(why));
        }
        let is_unread = |key: &[String; 3]| found.unread.contains_key(key[0].as_str());
        let known = self.objects.iter().filter(|(key, _)| is_unread(key));
        let kept: TimedObjects = known.map(|(key, object)| (key.clone(), object.clone())).collect();
        self.unread = found.unread.keys().copied().collect();
        found.objects.extend(kept);
    }

    /// The price of a node, as the classes' offers have it.
    fn price(&self, node: &Value) -> Option<f64> {
        price_by_labels(&self.planning, |key| node["metadata"]["labels"][key].as_str())
    }
}
