//! `plan --live`: the pods that wait on a live cluster now, or would wait if something were changed, on its own nodes, pools and
//! classes. The cluster is read and never written.

use std::sync::Arc;

use dovetail_actors::reading::LenientApi;
use dovetail_api::manifest::{self, Manifest, Objects, ReadOptions};
use dovetail_api::names::labels;
use dovetail_cloud::shipped;
use dovetail_core::cluster_state::{PlanningInput, Snapshot};
use dovetail_core::disruption::OffersByClass;
use dovetail_core::paid_machines::Running;
use dovetail_input::manifests::read_manifests;
use dovetail_input::{Failure, Mistake, environment};
use dovetail_telemetry::stopwatch::Stopwatch;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};

use super::admitted::PlanAdmission;
use super::devices::GivenDevices;
use super::live_buffers::read_buffers;
use super::manifests::{instance_types, left_out, ready, unschedulable};
use super::{Loaded, devices, overlays, pod_groups, quotas, unplanned};
use crate::cli::PlanArgs;
use crate::live::what_if::Scale;
use crate::live::{self, LiveCluster};
use crate::run::connect::plainly;

/// Hours of a month, for prices.
pub(super) const HOURS_OF_A_MONTH: f64 = 730.0;

/// The cluster as it is, beside the plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LiveSummary {
    server: String,
    settings_from: String,
    offers_from: String,
    /// Nodes of NodePools, and their dollars an hour as far as prices are known.
    nodes: usize,
    hourly_price: f64,
}

impl LiveSummary {
    /// The nodes and their price in a file's plan, where there is no server.
    pub(super) fn of_picture(name: &str, snapshot: &Snapshot, offers: &OffersByClass, region: &str) -> Self {
        let (nodes, hourly_price) = nodes_and_price(snapshot, offers);
        Self {
            server: name.to_owned(),
            settings_from: "defaults".to_owned(),
            offers_from: format!("the catalogue of {region} that is shipped, with synthetic spot prices"),
            nodes,
            hourly_price,
        }
    }

    /// The lines below the table.
    pub(super) fn sentences(&self, more: f64) -> String {
        format!(
            "now {}; this adds ${more:.4} an hour, ${:.0} a month\n\
             settings: {}; instance types and prices: {}\n",
            self.now(),
            more * HOURS_OF_A_MONTH,
            self.settings_from,
            self.offers_from
        )
    }

    /// The nodes that are there, with their price.
    pub(super) fn now(&self) -> String {
        let (hour, month) = (self.hourly_price, self.hourly_price * HOURS_OF_A_MONTH);
        format!("{} node(s) of NodePools cost ${hour:.4} an hour, ${month:.0} a month", self.nodes)
    }
}

/// Reads the cluster and what is to be changed into a problem.
pub(super) fn load(args: &PlanArgs) -> Result<Loaded, Failure> {
    let watch = Stopwatch::start();
    let env = environment(&args.environment.env, &args.environment.env_file)?;
    let files: Vec<String> = args.live.with.iter().chain(&args.live.node_pool).cloned().collect();
    let gate = super::static_pools::gates_of(args.feature_gates.as_deref())?.capacity_buffers();
    let mut given = if files.is_empty() { vec![] } else { read_manifests(&files, &env, &args.cluster_name)? };
    let (mut cluster, scaled, of_cluster) = read_live(args, gate)?;
    let mut warnings: Vec<String> =
        cluster.missing.iter().map(|one| format!("not read: {}: {}", one.what, one.why)).collect();
    let overlays = overlays::take_from(&mut given, cluster.settings.node_overlays())?;
    let quotas = quotas::take_from(&mut given, cluster.settings.capacity_quotas())?;
    let gangs = pod_groups::take_from(&mut given, cluster.settings.gang_scheduling());
    let devices = devices::take_from(&mut given, Some(cluster.settings.ignore_devices))?;
    let passed_over = unplanned::line(&given);
    warnings.extend(unplanned::warnings(&given));
    let mut input = PlanningInput { whole_gangs: true, ..cluster.planning.clone() };
    let summary = summary(&cluster);
    let changed = !args.live.scale.is_empty() || !files.is_empty();
    // Buffers of files come beside those of the cluster.
    let beside: Vec<Manifest> = of_cluster.into_iter().chain(given.iter().cloned()).collect();
    let (buffers, _) = super::buffers::of_manifests(&beside, gate || cluster.settings.capacity_buffers())?;
    let baseline =
        (changed && args.what_if.is_against_now()).then(|| cluster.state.snapshot().planning(&input).problem);
    let changes: Vec<Manifest> = given.into_iter().filter(|one| !one.foreign).chain(scaled).collect();
    apply(&mut cluster, (&changes, devices.as_ref()), &mut input, &mut warnings)?;
    overlays::apply_all(&mut cluster.state, overlays);
    quotas::apply_all(&mut cluster.state, quotas);
    pod_groups::apply_all(&mut cluster.state, gangs, false);
    let planning = cluster.state.snapshot().planning(&input);
    let mut problem = Arc::unwrap_or_clone(planning.problem);
    let (snapshot, holds_replicas) = (cluster.state.snapshot(), cluster.settings.static_capacity());
    warnings.extend(left_out(&planning.skipped, &snapshot, holds_replicas));
    warnings.extend(planning.spot_share.sentences());
    let static_pools = match holds_replicas {
        true => super::static_pools::add(&mut problem, &snapshot, &input, &super::options(args)),
        false => Vec::new(),
    };
    problem.name = cluster.connection.target.server();
    let running = Running::from_snapshot(&snapshot, &input.instance_types).beside(input.commitments.others());
    let overlays = overlays::plans(&snapshot, &input);
    Ok(Loaded {
        problem: Arc::new(problem),
        load: watch.elapsed(),
        warnings,
        passed_over,
        live: Some(summary),
        baseline,
        static_pools,
        commitments: input.commitments.clone(),
        running: Some(running),
        buffers,
        overlays,
        quotas: quotas::plans(&snapshot),
        devices: live::devices_of(&cluster.settings, &snapshot),
        gangs: planning.gangs,
    })
}

/// Reads the cluster, the pods that workloads would have more, and its buffers where they are held or planned (`with_buffers`).
fn read_live(args: &PlanArgs, with_buffers: bool) -> Result<(LiveCluster, Vec<Manifest>, Vec<Manifest>), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Failure::System(why.to_string()))?;
    let found = runtime.block_on(async {
        let mut cluster = live::read_cluster(&args.live.cluster()).await?;
        let scaled = scaled(&cluster, &args.live.scale).await?;
        let buffers = match with_buffers || cluster.settings.capacity_buffers() {
            true => read_buffers(&cluster.connection.client, &mut cluster.missing).await?,
            false => Vec::new(),
        };
        Ok((cluster, scaled, buffers))
    });
    // A look-up of a name may hang for a while: nobody waits for it.
    runtime.shutdown_background();
    found
}

/// The number of nodes of NodePools, and their dollars an hour as far as prices are known.
fn nodes_and_price(snapshot: &Snapshot, offers: &OffersByClass) -> (usize, f64) {
    let own: Vec<_> = snapshot.nodes.values().filter(|node| node.labels.contains_key(labels::NODE_POOL)).collect();
    let price = |node: &&Arc<dovetail_core::cluster_state::NodeEntry>| {
        let label = |key: &str| node.labels.get(key).map(String::as_str).unwrap_or_default();
        let types = offers.get(label(labels::EC2_NODE_CLASS))?;
        let own = types.iter().find(|one| one.name == label(labels::INSTANCE_TYPE))?;
        own.offering(label(labels::ZONE), label(labels::CAPACITY_TYPE)).map(|one| one.price)
    };
    // A sum of none is -0.
    (own.len(), own.iter().filter_map(price).fold(0.0, |sum, price| sum + price))
}

fn summary(cluster: &LiveCluster) -> LiveSummary {
    let (nodes, hourly_price) = nodes_and_price(&cluster.snapshot, &cluster.planning.instance_types);
    LiveSummary {
        server: cluster.connection.target.server(),
        settings_from: cluster.settings_from.clone(),
        offers_from: cluster.offers_from.clone(),
        nodes,
        hourly_price,
    }
}

/// The pods that workloads would have more, as manifests.
async fn scaled(cluster: &LiveCluster, scales: &[Scale]) -> Result<Vec<Manifest>, Failure> {
    let mut all = Vec::new();
    for scale in scales {
        let client = cluster.connection.client.clone();
        let default = &cluster.connection.target.config.default_namespace;
        let namespace = scale.namespace.as_deref().unwrap_or(default);
        let mut object = workload(client, scale, namespace).await?;
        let there = object["spec"]["replicas"].as_i64().unwrap_or(1);
        let place = format!("--scale {}/{}", scale.kind.to_lowercase(), scale.name);
        let more = scale.pods - there;
        if more < 0 {
            let what = format!("it has {there} pods: fewer are not planned");
            return Err(Mistake::of_file(place, what).allowing(format!("{there} or more")).into());
        }
        object["spec"]["replicas"] = json!(more);
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        let text = object.to_string();
        let read = manifest::read_manifests(&[(place.as_str(), text.as_str())], &ReadOptions::default());
        all.extend(read.map_err(|errors| Failure::Input(errors.into_iter().map(Mistake::from).collect()))?);
    }
    Ok(all)
}

async fn workload(client: Client, scale: &Scale, namespace: &str) -> Result<Value, Failure> {
    let name = &scale.name;
    let found = match scale.kind {
        "Deployment" => LenientApi::<Deployment>::namespaced(client, namespace)
            .get_opt(name)
            .await
            .map(|one| one.map(|one| json!(one))),
        "StatefulSet" => LenientApi::<StatefulSet>::namespaced(client, namespace)
            .get_opt(name)
            .await
            .map(|one| one.map(|one| json!(one))),
        _ => LenientApi::<ReplicaSet>::namespaced(client, namespace)
            .get_opt(name)
            .await
            .map(|one| one.map(|one| json!(one))),
    };
    let kind = scale.kind.to_lowercase();
    match found {
        Ok(Some(object)) => Ok(object),
        Ok(None) => Err(Failure::System(format!("--scale: there is no {kind} {name} in namespace {namespace}"))),
        Err(why) => {
            Err(Failure::System(format!("--scale: {kind} {namespace}/{name} cannot be read: {}", plainly(&why))))
        }
    }
}

/// Applies manifests to the state, as the API server and the control plane would.
fn apply(
    cluster: &mut LiveCluster,
    (changes, devices): (&[Manifest], Option<&GivenDevices>),
    input: &mut PlanningInput,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    let objects = Objects::from_manifests(changes);
    warnings.extend(objects.warnings.clone());
    for class in &objects.node_classes {
        let region = region_of(cluster);
        let types = instance_types(&shipped::catalogue(&region), class, changes)?;
        let name = class.metadata.name.clone().unwrap_or_default();
        warnings
            .push(format!("ec2nodeclass {name}: planned with the shipped catalogue of {region} and its first zones"));
        input.instance_types.insert(name, Arc::new(types));
    }
    for pool in &objects.node_pools {
        cluster.state.apply_pool(ready(pool.clone(), None));
    }
    for manifest in changes.iter().filter(|one| one.kind == "DaemonSet") {
        // Read and checked as one before.
        if let Ok(mut set) = serde_json::from_value::<DaemonSet>(manifest.object.clone()) {
            set.metadata.namespace.clone_from(&manifest.namespace);
            cluster.state.apply_daemon_set(set);
        }
    }
    let admission = PlanAdmission::from_manifests(changes);
    let mut pods = admission.pods(changes, warnings);
    warnings.extend(devices.iter().flat_map(|devices| devices.apply_all(&mut cluster.state, &mut pods)));
    for admitted in pods {
        if let Some(why) = admitted.refused {
            let name = admitted.pod.metadata.name.clone().unwrap_or_default();
            warnings.push(format!("pod {name}: the API server would refuse it: {why}"));
            continue;
        }
        let manifest = &changes[admitted.manifest];
        let refused = cluster.state.apply_pod(&unschedulable(admitted.pod)).err();
        if let Some(why) = refused {
            let (file, field) = (manifest.file.clone(), format!("{}/{}", manifest.kind, manifest.name));
            return Err(
                Mistake { file, line: manifest.line, field, what: why.to_string(), allowed: String::new() }.into()
            );
        }
    }
    Ok(())
}

/// The region of the cluster's nodes, or the one that is usual in examples.
fn region_of(cluster: &LiveCluster) -> String {
    let given = Some(cluster.settings.aws_region.clone()).filter(|name| !name.is_empty());
    let of_node = || cluster.snapshot.nodes.values().find_map(|node| node.labels.get(labels::REGION).cloned());
    given.or_else(of_node).or_else(|| std::env::var("AWS_REGION").ok()).unwrap_or_else(|| "us-east-1".to_owned())
}
