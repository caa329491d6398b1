//! The copy: an API server, the parts of a cluster that a provisioner needs, and a region that offers what the real one does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::settings::WebhookSettings;
use dovetail_actors::{ClusterClock, ReplicaHandle, ReplicaParts, Settings};
use dovetail_cloud::catalogue::{RegionCatalogue, Zone};
use dovetail_cloud::ec2::{Ec2Cloud, Ec2Settings, SdkParts};
use dovetail_input::Failure;
use dovetail_input::manifests::KUBERNETES_MINOR;
use dovetail_sandbox::apiserver::{self, ApiServer, EC2_NODE_CLASSES, Gvr, NODES};
use dovetail_sandbox::cluster::{ClusterSettings, SandboxCluster};
use dovetail_sandbox::faults::FaultsInForce;
use dovetail_sandbox::log::{Caller, EventLog};
use dovetail_sandbox::region::{Region, RegionConfig};
use serde_json::Value;

use super::ShadowParts;
use super::admit::KeepsIdentity;
use super::kinds::text;
use crate::world::install_crds;

/// A pod that ends by itself ends when its original does.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// The replica's name in the election of which it is the only one.
const IDENTITY: &str = "dovetail-shadow";

/// See the module. To be used inside a LocalSet.
pub struct Copy {
    pub api: ApiServer,
    /// The embedded region that stands in for EC2 in the copy.
    pub region: Region,
    /// UID of its namespace kube-system: by it its instances are known.
    pub uid: String,
}

impl Copy {
    /// Without objects; `first` says which zones it needs.
    pub fn new(parts: &ShadowParts, catalogue: &RegionCatalogue, first: &[(Gvr, Arc<Value>)]) -> Result<Self, Failure> {
        let log = EventLog::new(parts.clock.clone());
        // It may run for weeks: nobody reads what happened.
        log.write_to(Box::new(std::io::sink()), false);
        let settings = apiserver::ServerSettings { seed: parts.seed, ..apiserver::ServerSettings::default() };
        let api = ApiServer::with(parts.clock.clone(), settings);
        api.add_admission(Box::new(KeepsIdentity));
        install_crds(&api, true, &Settings::default())?;
        let zones = zones(first);
        let mut config = RegionConfig::new(&catalogue.region, &parts.settings.cluster_name);
        config.seed = parts.seed;
        config.kubernetes_version = format!("1.{KUBERNETES_MINOR}");
        config.zones = (!zones.is_empty()).then(|| zones.keys().cloned().collect());
        config.catalogue = Some(Arc::new(with_ids(catalogue, &zones)));
        let region = Region::new(config, parts.clock.clone(), log.clone(), FaultsInForce::new(parts.seed));
        tokio::task::spawn_local(region.run());
        let settings = ClusterSettings {
            cluster_name: parts.settings.cluster_name.clone(),
            job_run: NEVER,
            ..ClusterSettings::default()
        };
        let clock = parts.clock.clone();
        SandboxCluster::new(api.clone(), region.clone(), clock, log, settings, parts.seed).start();
        let namespace = api.get(&Gvr::new("", "v1", "namespaces"), "", "kube-system");
        let uid = namespace.map(|one| text(&one, &["metadata", "uid"]).to_owned()).unwrap_or_default();
        Ok(Self { api, region, uid })
    }

    /// Starts our replica: the copy is all that it knows.
    pub fn start_replica(&self, parts: ShadowParts) -> ReplicaHandle {
        let settings = Settings {
            // Its Lease is the copy's own, and nobody else wants it.
            system_namespace: "kube-system".to_owned(),
            lease_namespace: "kube-system".to_owned(),
            disable_leader_election: false,
            interruption_queue: String::new(),
            webhook: WebhookSettings::default(),
            // The Deployments that would be restarted are not in the copy.
            moves_rollout: false,
            packing_comparison: None,
            ..parts.settings
        };
        let caller = Caller::replica(0, IDENTITY);
        let http_client = self.region.http_client(caller.clone());
        let sdk = SdkParts::in_process(http_client, &self.region.config().region, parts.clock.clone());
        let cloud = Ec2Cloud::new(
            sdk,
            Ec2Settings {
                cluster_name: settings.cluster_name.clone(),
                cluster_uid: self.uid.clone(),
                cluster_dns: Some("172.20.0.10".to_owned()),
                limits: settings.scale.ec2_limits.clone(),
                ..Ec2Settings::default()
            },
        );
        dovetail_actors::start(ReplicaParts {
            identity: IDENTITY.to_owned(),
            kube: self.api.client(caller.clone()),
            lease_kube: self.api.client(caller),
            cloud: Arc::new(cloud),
            clock: ClusterClock::over(parts.clock),
            streams_lists: false,
            rng_seed: parts.seed,
            settings,
            solver: parts.solver,
            identities: None,
            journal: parts.journal,
        })
    }
}

/// The zones that node classes resolve to and nodes are in, with their ids where somebody says them.
fn zones(first: &[(Gvr, Arc<Value>)]) -> BTreeMap<String, String> {
    let mut zones: BTreeMap<String, String> = BTreeMap::new();
    let mut add = |zone: &str, id: &str| {
        let known = zones.entry(zone.to_owned()).or_default();
        if known.is_empty() {
            id.clone_into(known);
        }
    };
    for (gvr, object) in first {
        if *gvr == EC2_NODE_CLASSES {
            for subnet in object["status"]["subnets"].as_array().into_iter().flatten() {
                add(text(subnet, &["zone"]), text(subnet, &["zoneID"]));
            }
        } else if *gvr == NODES {
            let label = |key: &str| text(object, &["metadata", "labels", key]);
            add(label("topology.kubernetes.io/zone"), label("topology.k8s.aws/zone-id"));
        }
    }
    zones.remove("");
    zones
}

/// The same offers, with the ids of zones; zones that nothing is offered in are none of the region's.
fn with_ids(catalogue: &RegionCatalogue, ids: &BTreeMap<String, String>) -> RegionCatalogue {
    let mut catalogue = catalogue.clone();
    let known: BTreeSet<&String> = ids.keys().collect();
    for Zone { name, id } in &mut catalogue.zones {
        if known.contains(name) {
            id.clone_from(&ids[name]);
        }
        if id.is_empty() {
            // Every zone has an id of its own.
            id.clone_from(name);
        }
    }
    catalogue
}
