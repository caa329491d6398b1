//! Who else provisions in this cluster: a Karpenter, or another Dovetail, outside of our Lease; a Cluster Autoscaler.
//! The finding is pure; what is asked of the API server stands in `preflight`.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;

/// A Lease whose holder has renewed it within so many of its durations is alive.
const ALIVE: i64 = 3;
/// Names a program, whatever the chart calls it.
const NAME_LABELS: [&str; 3] = ["app.kubernetes.io/name", "k8s-app", "app"];
const KARPENTER: &str = "karpenter";
const AUTOSCALER: &str = "cluster-autoscaler";

/// Our own place.
pub struct Own<'a> {
    /// The Lease's namespace.
    pub namespace: &'a str,
    /// The Lease's name.
    pub lease: &'a str,
    /// Whether we heed it.
    pub elects: bool,
}

/// What there is besides us.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Would launch beside us: each as a sentence.
    pub rivals: Vec<String>,
    /// Shares our Lease: only one of us leads.
    pub sharing: Vec<String>,
    /// Cluster Autoscalers.
    pub autoscalers: Vec<String>,
}

/// Looks through what runs in the cluster.
pub fn look(own: &Own<'_>, deployments: &[Deployment], leases: &[Lease], now: Timestamp) -> Others {
    let mut others = Others::default();
    for deployment in deployments.iter().filter(|one| wants_to_run(one)) {
        let at = format!("{}/{}", deployment.namespace().unwrap_or_default(), deployment.name_any());
        if is(deployment, AUTOSCALER, "cluster-autoscaler") {
            others.autoscalers.push(format!("Deployment {at}"));
        } else if is(deployment, KARPENTER, "karpenter/controller") {
            // By default it is in its Deployment's namespace that Karpenter holds its Lease, of that name.
            let shares = own.elects && deployment.namespace().as_deref() == Some(own.namespace) && shares_name(own);
            let found = format!("Karpenter runs as Deployment {at}");
            if shares { others.sharing.push(found) } else { others.rivals.push(found) }
        }
    }
    for lease in leases.iter().filter(|one| is_held(one, now)) {
        let (namespace, name) = (lease.namespace().unwrap_or_default(), lease.name_any());
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
        if name == AUTOSCALER {
            others.autoscalers.push(format!("Lease {namespace}/{name}, held by {holder}"));
        } else if name == dovetail_api::names::LEASE_NAME {
            let found = format!("Lease {namespace}/{name} is held by {holder}");
            let ours = own.elects && namespace == own.namespace && name == own.lease;
            if ours { others.sharing.push(found) } else { others.rivals.push(found) }
        }
    }
    others
}

fn shares_name(own: &Own<'_>) -> bool {
    own.lease == dovetail_api::names::LEASE_NAME
}

fn wants_to_run(deployment: &Deployment) -> bool {
    deployment.spec.as_ref().is_some_and(|spec| spec.replicas.unwrap_or(1) > 0)
        && deployment.metadata.deletion_timestamp.is_none()
}

/// By its containers' images; by its labels only where no image says that it is ours.
fn is(deployment: &Deployment, name: &str, image: &str) -> bool {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let images: Vec<&str> =
        pod.iter().flat_map(|pod| &pod.containers).filter_map(|container| container.image.as_deref()).collect();
    let labelled = NAME_LABELS.iter().any(|label| deployment.labels().get(*label).is_some_and(|value| value == name));
    let ours = images.iter().any(|image| image.contains("dovetail"));
    images.iter().any(|found| found.contains(image)) || (labelled && !ours)
}

fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let Some(spec) = &lease.spec else { return false };
    let held = spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty());
    let Some(renewed) = &spec.renew_time else { return false };
    let duration = i64::from(spec.lease_duration_seconds.unwrap_or(15).max(1));
    // One that was renewed in what is the future to us is of a machine whose clock is ahead.
    held && now.duration_since(renewed.0).as_secs() <= duration * ALIVE
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);
    const OWN: Own<'_> = Own { namespace: "kube-system", lease: "karpenter-leader-election", elects: true };

    fn deployment(namespace: &str, name: &str, image: &str, replicas: i32, label: &str) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": label}},
            "spec": {"replicas": replicas, "selector": {}, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}},
        }))
        .unwrap()
    }

    fn lease(namespace: &str, name: &str, holder: &str, age: i64) -> Lease {
        let renewed = NOW - jiff::SignedDuration::from_secs(age);
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": format!("{renewed:.6}")},
        }))
        .unwrap()
    }

    const IMAGE: &str = "public.ecr.aws/karpenter/controller:1.14.0";

    #[test]
    fn a_karpenter_in_another_namespace_is_a_rival_by_image_and_by_label() {
        let by_image = deployment("karpenter", "kp", IMAGE, 2, "whatever");
        let by_label = deployment("infra", "kp", "registry.internal/mirror@sha256:00", 1, "karpenter");
        let found = look(&OWN, &[by_image, by_label], &[], NOW);
        assert_eq!(found.rivals.len(), 2, "{found:?}");
        assert!(found.rivals[0].contains("karpenter/kp"));
        assert!(found.sharing.is_empty());
    }

    #[test]
    fn a_karpenter_that_is_scaled_down_or_shares_our_lease_is_no_rival() {
        let down = deployment("karpenter", "karpenter", IMAGE, 0, "karpenter");
        let beside = deployment("kube-system", "karpenter", IMAGE, 2, "karpenter");
        let found = look(&OWN, &[down, beside.clone()], &[], NOW);
        assert_eq!((found.rivals.len(), found.sharing.len()), (0, 1));
        for own in [Own { elects: false, ..OWN }, Own { lease: "another", ..OWN }] {
            assert_eq!(look(&own, std::slice::from_ref(&beside), &[], NOW).rivals.len(), 1);
        }
    }

    #[test]
    fn our_own_deployment_is_nobody_else_whatever_its_name() {
        let own = deployment("elsewhere", "karpenter", "registry.internal/dovetail:0.1.0", 2, "karpenter");
        assert_eq!(look(&OWN, &[own], &[], NOW), Others::default());
    }

    #[test]
    fn a_lease_that_is_renewed_elsewhere_is_a_rival_and_one_that_ran_out_is_not() {
        let name = "karpenter-leader-election";
        let found = look(&OWN, &[], &[lease("karpenter", name, "kp-1", 2), lease("old", name, "kp-0", 300)], NOW);
        assert_eq!(found.rivals, ["Lease karpenter/karpenter-leader-election is held by kp-1"]);
        let ahead = look(&OWN, &[], &[lease("karpenter", name, "kp-1", -100)], NOW);
        assert_eq!(ahead.rivals.len(), 1, "a clock that is ahead hides nobody");
        let given_back = look(&OWN, &[], &[lease("karpenter", name, "", 2)], NOW);
        assert_eq!(given_back, Others::default());
        assert_eq!(look(&OWN, &[], &[lease("kube-system", name, "kp-1", 2)], NOW).sharing.len(), 1);
    }

    #[test]
    fn a_cluster_autoscaler_is_told_apart() {
        let image = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0";
        let found = look(
            &OWN,
            &[deployment("kube-system", "ca", image, 1, "aws-cluster-autoscaler")],
            &[lease("kube-system", "cluster-autoscaler", "ca-1", 1)],
            NOW,
        );
        assert_eq!((found.autoscalers.len(), found.rivals.len()), (2, 0));
    }
}
