//! Whether what was named belongs together: the interruption queue to the region, the cluster's name to its own nodes. A
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
/// Longest wait for what EC2 says of one of them: nothing depends on it.
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

/// The cluster's own nodes know it by the name that was given, as far as they say. What cannot be asked is no reason to refuse.
///
/// # Errors
/// They are another cluster's.
pub async fn cluster(
    asker: &Asker,
    client: &Client,
    cloud: &dyn CloudInstances,
    settings: &Settings,
) -> Result<(), Failure> {
    let all: LenientApi<Node> = LenientApi::all(client.clone());
    let page = ListParams::default().limit(LOOKED_AT);
    let Ok(found) = asker.api("the cluster's nodes", || all.list(&page)).await else { return Ok(()) };
    // Ours were made under the name that was given then.
    let nodes: Vec<&Node> = found.items.iter().filter(|node| !node.labels().contains_key(labels::NODE_POOL)).collect();
    let mut names: BTreeSet<String> = nodes.iter().filter_map(|node| node.labels().get(OF_EKSCTL).cloned()).collect();
    let on_ec2 = |node: &&Node| node.spec.as_ref()?.provider_id.as_deref().and_then(instance_id).map(str::to_owned);
    if names.is_empty()
        && let Some(id) = nodes.iter().find_map(on_ec2)
        && let Ok(Ok(Some(instance))) = tokio::time::timeout(DEAD_AFTER, cloud.instance(&id)).await
    {
        names = names_in(&instance.tags);
    }
    let name = &settings.cluster_name;
    if names.is_empty() || names.contains(name) {
        return Ok(());
    }
    let theirs = names.into_iter().collect::<Vec<_>>().join(", ");
    let what = format!("the nodes of this cluster say by labels and tags that it is called {theirs}, not {name:?}");
    let allowed = format!("{theirs}, and the stack of that name; or the kubeconfig of the cluster {name:?}");
    Err(Mistake::of_file("CLUSTER_NAME (--cluster-name)", what).allowing(allowed).into())
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
