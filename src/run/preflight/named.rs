//! Checks that the named things belong together: the interruption queue to the region, the cluster's name to its own nodes. A
//! wrong name is found out here rather than by launches that are refused, or by tags of another cluster on our instances.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_actors::reading::LenientApi;
use dovetail_api::names::{labels, tags};
use dovetail_cloud::CloudInstances;
use dovetail_cloud::cloud::instance_id;
use dovetail_input::{Failure, Mistake};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Client, ResourceExt};

use super::ask::Asker;

/// A label of nodes that eksctl has made, and a tag of their instances: the cluster's name.
const OF_EKSCTL: &str = "alpha.eksctl.io/cluster-name";
/// Tags of instances in managed node groups: the cluster's name.
const OF_EKS: [&str; 2] = ["eks:cluster-name", tags::CLUSTER_NAME];
/// Nodes that are looked at.
const LOOKED_AT: u32 = 100;
/// Most instances among these whose tags are asked for.
const INSTANCES_ASKED: usize = 50;
/// A name that fewer nodes say does not count.
const LEAST_AGREEING: usize = 2;
/// Longest wait for what EC2 says of them: nothing depends on it.
const DEAD_AFTER: Duration = Duration::from_secs(5);

/// The interruption queue is one of this region, as far as its URL or ARN says.
///
/// # Errors
/// It is another region's: EC2's warnings never come to it.
pub fn queue(settings: &Settings, region: &str) -> Result<(), Failure> {
    let of = settings.interruption_queue_region.as_str();
    if of.is_empty() || of == region {
        return Ok(());
    }
    let what = format!("the queue {:?} is one of {of}, the cluster is in {region}", settings.interruption_queue);
    let allowed = format!("a queue of {region}: warnings come to one of the instances' own region");
    Err(Mistake::of_file("INTERRUPTION_QUEUE (--interruption-queue)", what).allowing(allowed).into())
}

/// The cluster's own nodes know it by the name that was given, as far as they say. What cannot be asked is no reason to refuse,
/// nor is what one Node says: its kubelet may write any label on it. What less than most say is told by `warn`.
///
/// # Errors
/// Most of them are another cluster's.
pub async fn cluster(
    asker: &Asker,
    client: &Client,
    cloud: &dyn CloudInstances,
    settings: &Settings,
    warn: impl Fn(&str),
) -> Result<(), Failure> {
    let all: LenientApi<Node> = LenientApi::all(client.clone());
    let page = ListParams::default().limit(LOOKED_AT);
    // The looks before this one may have taken all of their time.
    let asker = asker.afresh();
    let Ok(found) = asker.api("the cluster's nodes", || all.list(&page)).await else { return Ok(()) };
    // Ours were made under the name that was given then.
    let nodes: Vec<&Node> = found.items.iter().filter(|node| !node.labels().contains_key(labels::NODE_POOL)).collect();
    let ids: Vec<Option<String>> = nodes.iter().map(|node| instance_of(node)).collect();
    let asked: Vec<String> = ids.iter().flatten().take(INSTANCES_ASKED).cloned().collect();
    let tagged = tags_of(cloud, &asked).await;
    let says = nodes.iter().zip(&ids).map(|(node, id)| {
        // Tags are an administrator's; labels are its kubelet's.
        let by_tags = id.as_ref().and_then(|id| tagged.get(id)).map(names_in).filter(|names| !names.is_empty());
        by_tags.unwrap_or_else(|| node.labels().get(OF_EKSCTL).cloned().into_iter().collect())
    });
    let name = &settings.cluster_name;
    match judge_names(name, &says.collect::<Vec<_>>()) {
        NameVerdict::Fits => Ok(()),
        NameVerdict::Doubted(theirs) => {
            warn(&format!(
                "some nodes of this cluster say by labels or tags that it is called {theirs}, not {name:?}: too few for that \
                 to count"
            ));
            Ok(())
        }
        NameVerdict::Another(theirs) => {
            let what =
                format!("the nodes of this cluster say by labels and tags that it is called {theirs}, not {name:?}");
            let allowed = format!("{theirs}, and the stack of that name; or the kubeconfig of the cluster {name:?}");
            Err(Mistake::of_file("CLUSTER_NAME (--cluster-name)", what).allowing(allowed).into())
        }
    }
}

/// Verdict of the nodes on the cluster's name.
#[derive(Debug, PartialEq, Eq)]
enum NameVerdict {
    /// The nodes do not contradict the name.
    Fits,
    /// A few nodes say another.
    Doubted(String),
    /// More than half of the nodes, and at least two, say another name.
    Another(String),
}

/// Judges by the names that each node says.
fn judge_names(given: &str, says: &[BTreeSet<String>]) -> NameVerdict {
    let others: Vec<&BTreeSet<String>> =
        says.iter().filter(|names| !names.is_empty() && !names.contains(given)).collect();
    let names: BTreeSet<&str> = others.iter().flat_map(|names| names.iter().map(String::as_str)).collect();
    let count = |name: &&str| others.iter().filter(|names| names.contains(*name)).count();
    let Some(most) = names.iter().copied().max_by_key(|name| count(name)) else { return NameVerdict::Fits };
    let agreeing = count(&most);
    if agreeing >= LEAST_AGREEING && agreeing * 2 > says.len() {
        return NameVerdict::Another(most.to_owned());
    }
    // Any number of names may have been made up.
    let more = if names.len() > 1 { ", among others" } else { "" };
    NameVerdict::Doubted(format!("{most}{more}"))
}

/// The instance that a Node says it is.
fn instance_of(node: &Node) -> Option<String> {
    node.spec.as_ref()?.provider_id.as_deref().and_then(instance_id).map(str::to_owned)
}

/// Tags of instances by id; none where EC2 does not answer soon.
async fn tags_of(cloud: &dyn CloudInstances, ids: &[String]) -> BTreeMap<String, BTreeMap<String, String>> {
    if ids.is_empty() {
        return BTreeMap::new();
    }
    let answer = tokio::time::timeout(DEAD_AFTER, cloud.instances_of(ids)).await;
    let found = answer.ok().and_then(Result::ok).unwrap_or_default();
    found.instances.into_iter().map(|instance| (instance.id, instance.tags)).collect()
}

/// The names of clusters that an instance's tags say it belongs to.
fn names_in(tags: &BTreeMap<String, String>) -> BTreeSet<String> {
    let by_value = OF_EKS.into_iter().chain([OF_EKSCTL]).filter_map(|key| tags.get(key).cloned());
    let owned = tags.iter().filter(|(_, value)| *value == tags::OWNED);
    let by_key = owned.filter_map(|(key, _)| key.strip_prefix(tags::CLUSTER_PREFIX).map(str::to_owned));
    by_value.chain(by_key).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn queue_of_another_region_is_refused_and_a_bare_name_is_taken() {
        let settings = |text: &str| {
            let given = [("CLUSTER_NAME", "demo"), ("INTERRUPTION_QUEUE", text)];
            Settings::from_map(&given.map(|(name, value)| (name.to_owned(), value.to_owned())).into()).unwrap()
        };
        for theirs in [
            "arn:aws:sqs:eu-west-1:111122223333:demo",
            "https://sqs.eu-west-1.amazonaws.com/111122223333/demo",
            "\"https://eu-west-1.queue.amazonaws.com/111122223333/demo\"",
        ] {
            let said = format!("{:?}", queue(&settings(theirs), "us-east-1").unwrap_err());
            assert!(said.contains("one of eu-west-1, the cluster is in us-east-1"), "{said}");
            assert!(queue(&settings(theirs), "eu-west-1").is_ok());
        }
        for unknown in ["demo", "", "https://queues.example/111122223333/demo", "http://127.0.0.1:4566/1/demo"] {
            assert!(queue(&settings(unknown), "us-east-1").is_ok(), "{unknown}");
        }
    }

    #[test]
    fn name_counts_if_most_nodes_say_it_and_more_than_one() {
        let judged = |says: &[&[&str]]| {
            let says: Vec<BTreeSet<String>> =
                says.iter().map(|names| names.iter().map(|name| (*name).to_owned()).collect()).collect();
            judge_names("demo", &says)
        };
        let another = NameVerdict::Another("prod".to_owned());
        let doubted = NameVerdict::Doubted("evil".to_owned());
        assert_eq!(judged(&[]), NameVerdict::Fits);
        assert_eq!(judged(&[&[], &["demo"], &["demo", "old"]]), NameVerdict::Fits);
        assert_eq!(judged(&[&["evil"]]), doubted, "one Node is one kubelet");
        assert_eq!(judged(&[&["evil"], &[], &[]]), doubted);
        assert_eq!(judged(&[&["evil"], &["evil"], &[], &[]]), doubted, "half is not most");
        assert_eq!(judged(&[&["prod"], &["prod"], &["demo"]]), another);
        assert_eq!(judged(&[&["prod"], &["prod", "older"], &[]]), another);
        assert_eq!(judged(&[&["a"], &["b"], &["c"]]), NameVerdict::Doubted("c, among others".to_owned()));
    }

    #[test]
    fn an_instance_says_by_each_of_its_tags_whose_it_is() {
        let said = |pairs: &[(&str, &str)]| {
            names_in(&pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
        };
        assert!(said(&[("Name", "a"), ("kubernetes.io/cluster/shared", "shared")]).is_empty(), "shared is not owned");
        for pair in [
            ("eks:cluster-name", "prod"),
            ("alpha.eksctl.io/cluster-name", "prod"),
            ("kubernetes.io/cluster/prod", "owned"),
            ("eks:eks-cluster-name", "prod"),
        ] {
            assert_eq!(said(&[pair]), BTreeSet::from(["prod".to_owned()]), "{pair:?}");
        }
    }
}
