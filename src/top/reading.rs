//! Readings of the cluster, one after the other over one connection.

use std::time::Duration;

use dovetail_actors::reading::LenientApi;
use dovetail_input::Failure;
use dovetail_telemetry::stopwatch::Stopwatch;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use tokio::runtime::Runtime;

use super::facts::{Facts, decision_rows, node_rows, pending_rows, pool_rows, totals};
use crate::explain::{Kind, explain_to_text};
use crate::live::{self, ClusterArgs, LiveCluster, Missing, why_unread};

/// Component that the control plane's events name, as Karpenter's do.
const COMPONENT: &str = "karpenter";
/// Events a page.
const PAGE: u32 = 500;
/// Most events of a reading: a cluster keeps an hour of them.
const MOST_EVENTS: usize = 2_000;

/// An object that can be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub kind: Kind,
    pub namespace: Option<String>,
    pub name: String,
}

/// A reading, and the time that it took.
pub struct Reading {
    pub facts: Facts,
    pub took: Duration,
}

/// A reader of one cluster.
pub struct Reader {
    args: ClusterArgs,
    runtime: Runtime,
    /// The cluster as it was read last.
    cluster: Option<LiveCluster>,
}

impl Reader {
    pub fn new(args: ClusterArgs) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self { args, runtime: runtime.map_err(|why| Failure::System(why.to_string()))?, cluster: None })
    }

    /// Reads the cluster.
    ///
    /// # Errors
    /// No cluster, or one that does not answer.
    pub fn read_facts(&mut self) -> Result<Reading, Failure> {
        let (args, cluster) = (&self.args, &mut self.cluster);
        let watch = Stopwatch::start();
        let facts = self.runtime.block_on(async {
            match cluster {
                Some(known) => known.read_again(args).await?,
                None => *cluster = Some(live::read_cluster(args).await?),
            }
            match cluster {
                Some(read) => facts_of(read).await,
                None => Err(Failure::System("the cluster is not read".to_owned())),
            }
        })?;
        Ok(Reading { facts, took: watch.elapsed() })
    }

    /// The answer of `explain` about an object, by the cluster as it was read last.
    pub fn explain(&mut self, subject: &Subject) -> Result<String, Failure> {
        let Some(cluster) = &mut self.cluster else {
            return Err(Failure::System("the cluster is not read yet".to_owned()));
        };
        let Subject { kind, namespace, name } = subject;
        self.runtime.block_on(explain_to_text(cluster, *kind, namespace.as_deref(), name))
    }
}

async fn facts_of(cluster: &LiveCluster) -> Result<Facts, Failure> {
    let mut missing = cluster.missing.clone();
    let events = match events(cluster).await {
        Ok(events) => events,
        Err(why) => {
            let why = why_unread(&why, "events")?;
            missing.push(Missing { what: "events".to_owned(), why });
            Vec::new()
        }
    };
    let (snapshot, planning) = (&cluster.snapshot, &cluster.planning);
    let nodes = node_rows(snapshot, planning);
    Ok(Facts {
        at: planning.now.wall,
        server: cluster.connection.target.server(),
        settings_from: cluster.settings_from.clone(),
        offers_from: cluster.offers_from.clone(),
        totals: totals(&nodes, snapshot),
        pools: pool_rows(snapshot, planning, &nodes),
        nodes,
        pending: pending_rows(snapshot, &events),
        decisions: decision_rows(&events),
        missing,
    })
}

/// Events of the control plane.
async fn events(cluster: &LiveCluster) -> kube::Result<Vec<Event>> {
    let api: LenientApi<Event> = LenientApi::all(cluster.connection.client.clone());
    let mut params = ListParams::default().fields(&format!("reportingComponent={COMPONENT}")).limit(PAGE);
    let mut all: Vec<Event> = Vec::new();
    loop {
        let page = api.list(&params).await?;
        all.extend(page.items);
        let Some(token) = page.continues.filter(|_| all.len() < MOST_EVENTS) else { return Ok(all) };
        params = params.continue_token(&token);
    }
}
