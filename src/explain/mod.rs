//! `dovetail explain`: why a pod waits, a node stays, a claim is not ready, a pool launches nothing, on a live cluster. Also
//! `kubectl dovetail explain`.

pub mod page;
mod text;

use std::sync::Arc;

use clap::{Args, ValueEnum};
use dovetail_actors::reading::LenientApi;
use dovetail_core::Problem;
use dovetail_core::explain::{
    ClaimAnswer, ExplainInput, NodeAnswer, NominatedTo, PodAnswer, PoolAnswer, explain_claim, explain_node,
    explain_pod, explain_pool,
};
use dovetail_core::pack::Options;
use dovetail_input::{Failure, Mistake};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use serde::Serialize;

use crate::live::{self, ClusterArgs, LiveCluster, Missing, OutputArgs};
use crate::near::did_you_mean;
use crate::output::print;
use crate::run::connect::plainly;
use crate::survive;

/// `dovetail explain`.
#[derive(Args)]
pub struct ExplainArgs {
    /// Kind of the object, or kind and name as in pod/NAME
    #[arg(value_name = "KIND")]
    pub kind: String,
    /// Name of the object
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Namespace of the pod; that of the kubeconfig's context unless given
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Form of the answer.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Kinds that can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    #[value(aliases = ["po", "pods"])]
    Pod,
    #[value(aliases = ["no", "nodes"])]
    Node,
    #[value(name = "nodeclaim", aliases = ["nodeclaims", "nodeclaims.karpenter.sh"])]
    Claim,
    #[value(name = "nodepool", aliases = ["nodepools", "nodepools.karpenter.sh"])]
    Pool,
}

/// The answer, with what it is from.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    #[serde(flatten)]
    answer: Answer,
    /// Time of the answer, by the API server's clock.
    at: Timestamp,
    server: String,
    settings_from: String,
    offers_from: String,
    /// Objects that could not be read: the answer is without them.
    missing: Vec<Missing>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Pod(Box<PodAnswer>),
    Node(Box<NodeAnswer>),
    NodeClaim(Box<ClaimAnswer>),
    NodePool(Box<PoolAnswer>),
}

/// Runs the command.
///
/// # Errors
/// Bad input, no cluster, no such object.
pub fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let (kind, name) = wanted(args)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Failure::System(why.to_string()))?;
    let found = runtime.block_on(explain(args, kind, &name));
    // A look-up of a name may hang for a while: nobody waits for it.
    runtime.shutdown_background();
    let found = found?;
    print(&args.output.render(&found, || text::render(&found))?)
}

/// The object that is asked about, of `pod NAME` or `pod/NAME`.
fn wanted(args: &ExplainArgs) -> Result<(Kind, String), Mistake> {
    let (kind, name) = match (&args.name, args.kind.split_once('/')) {
        (Some(name), None) => (args.kind.as_str(), name.as_str()),
        (None, Some((kind, name))) if !name.is_empty() => (kind, name),
        (Some(_), Some(_)) => {
            let what = "a name is given twice";
            return Err(Mistake::of_file(args.kind.clone(), what).allowing("pod NAME, or pod/NAME"));
        }
        _ => {
            return Err(
                Mistake::of_file("NAME", "is not given").allowing("the name of the object, as in explain pod NAME")
            );
        }
    };
    let known = || "pod, node, nodeclaim, nodepool";
    let read = Kind::from_str(kind, true).map_err(|_| {
        let near = did_you_mean(kind, ["pod", "node", "nodeclaim", "nodepool"]);
        Mistake::of_file(kind, format!("is no kind that can be explained{near}")).allowing(known())
    })?;
    if args.namespace.is_some() && read != Kind::Pod {
        return Err(Mistake::of_file("--namespace", format!("a {kind} has none")).allowing("--namespace with a pod"));
    }
    if !is_name(name) {
        return Err(Mistake::of_file(live::escape::escape(name), "is no name of an object")
            .allowing("letters, digits, - and ."));
    }
    Ok((read, name.to_owned()))
}

/// True for names that objects may have, of which one becomes a part of a path.
fn is_name(name: &str) -> bool {
    let plain = |one: char| one.is_ascii_alphanumeric() || matches!(one, '-' | '.' | ':' | '_');
    name.len() <= 253 && name.chars().all(plain)
}

async fn explain(args: &ExplainArgs, kind: Kind, name: &str) -> Result<Explanation, Failure> {
    let mut cluster = live::read_cluster(&args.cluster).await?;
    answer_in(&mut cluster, kind, args.namespace.as_deref(), name).await
}

/// The answer about an object of a cluster that is read, as text.
///
/// # Errors
/// No such object, or the API server does not answer.
pub async fn explain_to_text(
    cluster: &mut LiveCluster,
    kind: Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<String, Failure> {
    answer_in(cluster, kind, namespace, name).await.map(|found| text::render(&found))
}

async fn answer_in(
    cluster: &mut LiveCluster,
    kind: Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Explanation, Failure> {
    let mut missing = cluster.missing.clone();
    let asked = match kind {
        Kind::Pod => Some(pod_of(namespace, cluster, name, &mut missing).await?),
        _ => None,
    };
    let (options, rules) = (cluster.options(), cluster.rules());
    let devices = cluster.devices();
    let solve = |problem: &Arc<Problem>, options: &Options| {
        let solve = |problem: &Arc<Problem>| survive::solve(problem, options);
        match &devices {
            Some(devices) => devices.pack(problem, |uid| cluster.snapshot.is_bound(uid), solve).1,
            None => solve(problem),
        }
    };
    let input = ExplainInput {
        snapshot: &cluster.snapshot,
        planning: &cluster.planning,
        options: &options,
        rules: &rules,
        gates: cluster.gates(),
        solve: &solve,
    };
    let gone = |kind: &str| {
        let because = missing.iter().find(|one| one.what == format!("{kind}s"));
        let why = because.map(|one| format!(": {kind}s could not be read: {}", one.why)).unwrap_or_default();
        Failure::System(format!("there is no {kind} {name}{why}"))
    };
    let answer = match (kind, asked) {
        (Kind::Pod, Some((pod, nominated))) => Answer::Pod(Box::new(explain_pod(&input, &pod, nominated.as_ref()))),
        (Kind::Node, _) => Answer::Node(Box::new(explain_node(&input, name).ok_or_else(|| gone("node"))?)),
        (Kind::Claim, _) => Answer::NodeClaim(Box::new(explain_claim(&input, name).ok_or_else(|| gone("nodeclaim"))?)),
        (Kind::Pool | Kind::Pod, _) => {
            Answer::NodePool(Box::new(explain_pool(&input, name).ok_or_else(|| gone("nodepool"))?))
        }
    };
    Ok(Explanation {
        answer,
        at: cluster.planning.now.wall,
        server: cluster.connection.target.server(),
        settings_from: cluster.settings_from.clone(),
        offers_from: cluster.offers_from.clone(),
        missing,
    })
}

/// The pod as it is now, and the claim that its events say it is nominated to.
async fn pod_of(
    namespace: Option<&str>,
    cluster: &LiveCluster,
    name: &str,
    missing: &mut Vec<Missing>,
) -> Result<(Pod, Option<NominatedTo>), Failure> {
    let namespace = namespace.unwrap_or(&cluster.connection.target.config.default_namespace);
    let pods: LenientApi<Pod> = LenientApi::namespaced(cluster.connection.client.clone(), namespace);
    let found = pods.get_opt(name).await;
    let read =
        found.map_err(|why| Failure::System(format!("pod {namespace}/{name} cannot be read: {}", plainly(&why))))?;
    let Some(pod) = read else {
        return Err(Failure::System(format!("there is no pod {name} in namespace {namespace}; -n names another")));
    };
    let events: LenientApi<Event> = LenientApi::namespaced(cluster.connection.client.clone(), namespace);
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let of_pod = ListParams::default().fields(&format!("involvedObject.uid={uid},reason=Nominated")).limit(50);
    let nominated = match events.list(&of_pod).await {
        Ok(page) => page
            .items
            .iter()
            .filter(|one| one.involved_object.uid.as_ref() == Some(&uid))
            .filter_map(nominated_to)
            .max_by_key(|one| one.since),
        Err(why) => {
            let what = "events".to_owned();
            missing.push(Missing {
                what,
                why: format!("the claim that it waits for is not known by them: {}", plainly(&why)),
            });
            None
        }
    };
    Ok((pod, nominated))
}

/// The claim that an event of the recorder names, and its first time.
fn nominated_to(event: &Event) -> Option<NominatedTo> {
    if event.reason.as_deref() != Some("Nominated") {
        return None;
    }
    let (_, claim) = event.message.as_deref()?.rsplit_once("nodeclaim/")?;
    let first = event.first_timestamp.as_ref().map(|time| time.0);
    let since = first.or_else(|| event.event_time.as_ref().map(|time| time.0))?;
    Some(NominatedTo { claim: claim.trim().to_owned(), since })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn args(kind: &str, name: Option<&str>) -> ExplainArgs {
        ExplainArgs {
            kind: kind.to_owned(),
            name: name.map(str::to_owned),
            namespace: None,
            output: OutputArgs::default(),
            cluster: ClusterArgs::default(),
        }
    }

    #[test]
    fn object_is_named_as_kubectl_names_it() {
        assert_eq!(wanted(&args("pod", Some("a"))).unwrap(), (Kind::Pod, "a".to_owned()));
        assert_eq!(wanted(&args("NodeClaim/default-x", None)).unwrap(), (Kind::Claim, "default-x".to_owned()));
        assert_eq!(wanted(&args("nodepools", Some("default"))).unwrap().0, Kind::Pool);
        for (kind, name) in [("pod", None), ("pod/", None), ("pod/a", Some("b")), ("deployment", Some("a"))] {
            assert!(wanted(&args(kind, name)).is_err(), "{kind} {name:?}");
        }
        assert!(wanted(&args("pod", Some("a%2fb"))).is_err(), "it would be another path");
        let mut of_node = args("node", Some("a"));
        of_node.namespace = Some("x".to_owned());
        assert!(wanted(&of_node).unwrap_err().to_string().starts_with("--namespace: "));
    }

    #[test]
    fn claim_and_time_are_read_off_the_nominated_event() {
        let event = |reason: &str, message: &str| -> Event {
            serde_json::from_value(
                json!({"metadata": {"name": "e"}, "involvedObject": {}, "reason": reason, "message": message,
                "firstTimestamp": "2026-01-01T00:00:07Z"}),
            )
            .unwrap()
        };
        let found = nominated_to(&event("Nominated", "Pod should schedule on: nodeclaim/default-abc")).unwrap();
        assert_eq!((found.claim.as_str(), found.since.to_string().as_str()), ("default-abc", "2026-01-01T00:00:07Z"));
        assert_eq!(nominated_to(&event("Nominated", "Pod should schedule on: node/n")), None);
        assert_eq!(nominated_to(&event("FailedScheduling", "nodeclaim/x")), None);
    }
}
