//! Flags of a plan on a live cluster: the cluster, and what would be otherwise in it.

use std::str::FromStr;

use clap::Args;
use dovetail_input::Mistake;

use super::args::{ClusterArgs, OffersFrom};

/// Flags of a plan on a live cluster.
#[derive(Args, Clone, Default)]
pub struct LivePlanArgs {
    /// Plan for the pods that wait on a live cluster now; the cluster is found as by `explain`
    #[arg(long, conflicts_with_all = ["workload", "manifests"], help_heading = "Live cluster")]
    pub live: bool,
    /// The same on the cluster of this kubeconfig
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "manifests"], help_heading = "Live cluster")]
    pub kubeconfig: Option<String>,
    /// The kubeconfig's context
    #[arg(long, value_name = "NAME", help_heading = "Live cluster")]
    pub context: Option<String>,
    /// Source of instance types and prices
    #[arg(long, value_enum, default_value_t = OffersFrom::Auto, help_heading = "Live cluster")]
    pub offers: OffersFrom,
    /// Plan as if a workload had so many pods, such as deployment/web=200 or NAMESPACE/deployment/web=200
    #[arg(long, value_name = "KIND/NAME=N", help_heading = "Live cluster")]
    pub scale: Vec<Scale>,
    /// Plan as if these manifests were applied; a folder stands for its files
    #[arg(long = "with", value_name = "FILE", help_heading = "Live cluster")]
    pub with: Vec<String>,
    /// Plan as if these NodePools and EC2NodeClasses were there, in place of those of their names
    #[arg(long, value_name = "FILE", help_heading = "Live cluster")]
    pub node_pool: Vec<String>,
}

/// A workload, and the number of its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    pub namespace: Option<String>,
    /// `Deployment`, `StatefulSet` or `ReplicaSet`.
    pub kind: &'static str,
    pub name: String,
    pub pods: i64,
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let no =
            || "allowed: deployment/NAME=N, statefulset/NAME=N or replicaset/NAME=N, with NAMESPACE/ before".to_owned();
        let (workload, pods) = text.split_once('=').ok_or_else(no)?;
        let pods: i64 = pods.parse().ok().filter(|pods| (0..=100_000).contains(pods)).ok_or_else(no)?;
        let parts: Vec<&str> = workload.split('/').collect();
        let (namespace, kind, name) = match parts.as_slice() {
            [kind, name] => (None, *kind, *name),
            [namespace, kind, name] => (Some((*namespace).to_owned()), *kind, *name),
            _ => return Err(no()),
        };
        let kind = match kind.to_lowercase().as_str() {
            "deployment" | "deployments" | "deploy" => "Deployment",
            "statefulset" | "statefulsets" | "sts" => "StatefulSet",
            "replicaset" | "replicasets" | "rs" => "ReplicaSet",
            _ => return Err(no()),
        };
        let plain = |text: &str| {
            !text.is_empty() && text.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '-' | '.'))
        };
        if !plain(name) || !namespace.as_deref().is_none_or(plain) {
            return Err(no());
        }
        Ok(Self { namespace, kind, name: name.to_owned(), pods })
    }
}

impl LivePlanArgs {
    /// True if the plan is for a live cluster.
    pub fn is_asked(&self) -> bool {
        self.live || self.kubeconfig.is_some()
    }

    /// A mistake for each what-if without a cluster.
    pub fn mistakes(&self) -> Vec<Mistake> {
        let given = [
            ("--scale", !self.scale.is_empty()),
            ("--with", !self.with.is_empty()),
            ("--node-pool", !self.node_pool.is_empty()),
            ("--context", self.context.is_some()),
        ];
        let wrong = given.into_iter().filter(|(_, given)| *given && !self.is_asked());
        wrong
            .map(|(flag, _)| {
                Mistake::of_file(flag, "is for a live cluster").allowing("with --live or --kubeconfig FILE")
            })
            .collect()
    }

    /// The cluster that is meant.
    pub fn cluster(&self) -> ClusterArgs {
        let variable = || std::env::var("KUBECONFIG").ok().filter(|text| !text.is_empty());
        ClusterArgs {
            kubeconfig: self.kubeconfig.clone().or_else(variable),
            context: self.context.clone(),
            system_namespace: std::env::var("SYSTEM_NAMESPACE").ok().filter(|text| !text.is_empty()),
            offers: self.offers,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn scale_names_a_workload_and_a_number_of_pods() {
        let read = |text: &str| text.parse::<Scale>();
        let web = read("deployment/web=200").unwrap();
        assert_eq!((web.namespace, web.kind, web.name.as_str(), web.pods), (None, "Deployment", "web", 200));
        assert_eq!(read("shop/sts/db=3").unwrap().namespace.as_deref(), Some("shop"));
        for wrong in [
            "web=2",
            "deployment/web",
            "deployment/web=-1",
            "job/x=1",
            "deployment/a/b/c=1",
            "deployment/../x=1",
            "deployment/=1",
            "deployment/web=1e9",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_if_without_a_cluster_is_a_mistake() {
        let (with, node_pool) = (vec!["f".into()], vec!["g".into()]);
        let args = LivePlanArgs { with, node_pool, ..LivePlanArgs::default() };
        let said: Vec<String> = args.mistakes().iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 2);
        assert!(said[0].starts_with("--with: is for a live cluster"), "{said:?}");
        assert!(LivePlanArgs { live: true, ..args }.mistakes().is_empty());
    }
}
