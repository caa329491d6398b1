//! `dovetail doctor`: everything that Dovetail needs, looked at before and while it runs, on a live cluster, without a write.
//!
//! Each check has a time limit of its own: one that fails or hangs never keeps the others from their answers. What cannot be
//! asked says so.

mod account;
mod allowance;
mod cluster;
mod proxies;
mod queue;
mod rights;
mod text;

use std::time::Duration;

use clap::Args;
use dovetail_actors::Settings;
use dovetail_actors::reading::LenientApi;
use dovetail_api::v1::{EC2NodeClass, NodePool};
use dovetail_cloud::ec2::Ec2Cloud;
use dovetail_input::Failure;
use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde::Serialize;
use tokio::time::timeout;

use crate::live::{self, ClusterArgs, Connection, Leader, OutputArgs};
use crate::output::print;
use crate::run::connect::plainly;

/// Time for a question to AWS of which an answer would be more than the check needs; less than a check has.
const ASKED_WITHIN: Duration = Duration::from_secs(5);

/// `dovetail doctor`.
#[derive(Args)]
pub struct DoctorArgs {
    /// Time limit of each check, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub check_timeout: u64,
    /// Form of the answer.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// The light of a check; the worst decides the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Light {
    /// All is well.
    Green,
    /// It cannot be asked.
    Unknown,
    /// It works, and something should be done.
    Yellow,
    /// It does not work.
    Red,
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub light: Light,
    /// The finding, as a sentence without its end.
    pub what: String,
    /// The remedy in one line; empty where nothing has to be done.
    pub remedy: String,
}

impl Finding {
    fn green(what: impl Into<String>) -> Self {
        Self { light: Light::Green, what: what.into(), remedy: String::new() }
    }

    fn yellow(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { light: Light::Yellow, what: what.into(), remedy: remedy.into() }
    }

    fn red(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { light: Light::Red, what: what.into(), remedy: remedy.into() }
    }

    fn unknown(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { light: Light::Unknown, what: what.into(), remedy: remedy.into() }
    }
}

/// A check with its outcome.
#[derive(Serialize)]
struct Checked {
    check: &'static str,
    #[serde(flatten)]
    finding: Finding,
}

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// The worst light of all.
    light: Light,
    server: String,
    settings_from: String,
    checks: Vec<Checked>,
}

/// All that the checks look at. What could not be had is an error for those checks alone that need it.
pub(crate) struct Installation {
    connection: Connection,
    settings: Settings,
    leader: Result<Leader, String>,
    pools: Result<Vec<NodePool>, String>,
    classes: Result<Vec<EC2NodeClass>, String>,
    cloud: Result<Ec2Cloud, String>,
    /// The pod that leads, where it could be read.
    pod: Option<Pod>,
}

/// Runs the command. The exit status is 0 for green, 1 for yellow, 2 for red.
///
/// # Errors
/// The lights, as an exit status; bad input, and no cluster.
pub fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Failure::System(why.to_string()))?;
    let report = runtime.block_on(examine(args));
    // A look-up of a name may hang for a while: nobody waits for it.
    runtime.shutdown_background();
    let report = report?;
    print(&args.output.render(&report, || text::render(&report))?)?;
    match report.light {
        Light::Green | Light::Unknown => Ok(()),
        Light::Yellow => Err(Failure::Outcome),
        // The report has said it all: exit status 2 without another line.
        Light::Red => Err(Failure::Input(vec![])),
    }
}

async fn examine(args: &DoctorArgs) -> Result<Report, Failure> {
    let limit = Duration::from_secs(args.check_timeout);
    let installation = Installation::gather(args, limit).await?;
    let checks: [(&'static str, LocalBoxFuture<'_, Finding>); 17] = [
        ("API server", cluster::version(&installation).boxed_local()),
        ("clock", cluster::clock(&installation).boxed_local()),
        ("Lease", cluster::lease(&installation).boxed_local()),
        ("fence", cluster::fence(&installation).boxed_local()),
        ("rights", rights::reviewed(&installation).boxed_local()),
        ("CRDs", cluster::crds(&installation).boxed_local()),
        ("older kinds", cluster::older_kinds(&installation).boxed_local()),
        ("webhook", cluster::webhook(&installation).boxed_local()),
        ("others", cluster::rivals(&installation).boxed_local()),
        ("NodePools", cluster::pools(&installation).boxed_local()),
        ("proxies", proxies::proxies(&installation).boxed_local()),
        ("AWS", account::access(&installation).boxed_local()),
        ("queue", queue::queue(&installation).boxed_local()),
        ("spot role", allowance::spot_role(&installation).boxed_local()),
        ("quotas", allowance::quotas(&installation).boxed_local()),
        ("subnets", account::subnets(&installation).boxed_local()),
        ("AMIs", account::images(&installation).boxed_local()),
    ];
    let all = checks.into_iter().map(|(check, asked)| async move {
        let late = || {
            let seconds = limit.as_secs();
            Finding::unknown(format!("no answer within {seconds} s"), "ask again with a longer --check-timeout")
        };
        let finding = timeout(limit, asked).await.unwrap_or_else(|_| late());
        Checked { check, finding }
    });
    let checks = join_all(all).await;
    Ok(Report {
        light: checks.iter().map(|one| one.finding.light).max().unwrap_or(Light::Green),
        server: installation.connection.target.server(),
        settings_from: match &installation.leader {
            Ok(leader) => leader.from.clone(),
            Err(_) => "defaults".to_owned(),
        },
        checks,
    })
}

impl Installation {
    /// Connects, and reads what several checks need, each part within the limit.
    async fn gather(args: &DoctorArgs, limit: Duration) -> Result<Self, Failure> {
        let connection = live::connect(&args.cluster).await?;
        let late = || format!("no answer within {} s", limit.as_secs());
        let leader = timeout(limit, live::leader(&connection, &args.cluster)).await.unwrap_or_else(|_| Err(late()));
        let settings = leader.as_ref().map_or_else(|_| args.cluster.settings(), |leader| leader.settings.clone());
        let (pools, classes) = futures::join!(
            timeout(limit, listed::<NodePool>(&connection)),
            timeout(limit, listed::<EC2NodeClass>(&connection)),
        );
        let cloud = timeout(limit, live::reach_ec2(&connection, &settings)).await.unwrap_or_else(|_| Err(late()));
        let pod = leader.as_ref().ok().and_then(|leader| leader.pod.clone());
        Ok(Self {
            connection,
            settings,
            leader,
            pools: pools.unwrap_or_else(|_| Err(late())),
            classes: classes.unwrap_or_else(|_| Err(late())),
            cloud,
            pod,
        })
    }
}

/// All objects of a kind, by pages.
async fn listed<K>(connection: &Connection) -> Result<Vec<K>, String>
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let api = LenientApi::<K>::all(connection.client.clone());
    let (mut all, mut params) = (Vec::new(), ListParams::default().limit(500));
    loop {
        let page = api.list(&params).await.map_err(|why| plainly(&why))?;
        all.extend(page.items);
        let Some(token) = page.continues else { return Ok(all) };
        params = params.continue_token(&token);
    }
}
