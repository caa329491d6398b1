//! Resources that a Karpenter has made for this cluster are left to it: its launch templates and profiles carry the cluster's
//! name and the class's, and not the cluster's UID. Its instances are found by whatever tag its version wrote.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::v1::EC2NodeClass;
use dovetail_cloud::ec2::{Ec2Cloud, Ec2Settings, SdkParts};
use dovetail_cloud::prelude::*;
use dovetail_sandbox::clock::{DEFAULT_START, VirtualClock};
use dovetail_sandbox::faults::FaultsInForce;
use dovetail_sandbox::log::{Caller, EventLog};
use dovetail_sandbox::region::{CapacityType, Placement, Region, RegionConfig};

use crate::region::{class, request, resolved};

struct Account {
    clock: Arc<VirtualClock>,
    log: EventLog,
    region: Region,
}

impl Account {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new(DEFAULT_START));
        let log = EventLog::new(clock.clone());
        let region =
            Region::new(RegionConfig::new("us-east-1", "demo"), clock.clone(), log.clone(), FaultsInForce::new(1));
        Self { clock, log, region }
    }

    /// A control plane of the cluster demo; a Karpenter knows no UID of it.
    fn cloud(&self, cluster_uid: &str, adopts: bool) -> Ec2Cloud {
        let client = self.region.http_client(Caller::replica(0, "controller"));
        let settings = Ec2Settings {
            cluster_name: "demo".into(),
            cluster_uid: cluster_uid.into(),
            adopt_karpenter_instances: adopts,
            ..Ec2Settings::default()
        };
        let parts = SdkParts { seed: 1, ..SdkParts::in_process(client, "us-east-1", self.clock.clone()) };
        Ec2Cloud::new(parts, settings)
    }

    fn calls(&self, action: &str) -> usize {
        self.log.entries().iter().filter(|entry| entry.text("action") == action).count()
    }
}

async fn launched(cloud: &Ec2Cloud, token: &str) -> EC2NodeClass {
    let class = resolved(cloud, class("al2023@latest")).await;
    cloud.launch(request(token, class.clone())).await.unwrap();
    class
}

#[tokio::test(start_paused = true)]
async fn a_class_that_goes_takes_nothing_of_karpenters_with_it() {
    for adopts in [false, true] {
        let account = Account::new();
        let class = launched(&account.cloud("", false), "theirs").await;
        assert!(account.calls("CreateLaunchTemplate") > 0 && account.calls("CreateInstanceProfile") > 0);
        let ours = account.cloud("uid-1", adopts);
        ours.remove_node_class(&class).await.unwrap();
        assert_eq!((account.calls("DeleteLaunchTemplate"), account.calls("DeleteInstanceProfile")), (0, 0));
        assert_eq!(ours.made().await.unwrap(), [], "nor is it collected later");
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_that_goes_takes_what_we_have_made_with_it() {
    let account = Account::new();
    let ours = account.cloud("uid-1", true);
    let class = launched(&ours, "ours").await;
    let made = account.calls("CreateLaunchTemplate");
    ours.remove_node_class(&class).await.unwrap();
    assert_eq!((account.calls("DeleteLaunchTemplate"), account.calls("DeleteInstanceProfile")), (made, 1));
}

#[tokio::test(start_paused = true)]
async fn instances_of_older_karpenters_are_listed_where_adopted() {
    let account = Account::new();
    let place = |more: &[(&str, &str)]| {
        let all = [("karpenter.sh/nodepool", "default"), ("karpenter.k8s.aws/ec2nodeclass", "default")];
        let tags: BTreeMap<String, String> =
            all.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let placement = Placement {
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            capacity_type: CapacityType::OnDemand,
            tags,
            user_data: String::new(),
        };
        account.region.place(&placement).unwrap().id
    };
    let newer = place(&[("kubernetes.io/cluster/demo", "owned"), ("eks:eks-cluster-name", "demo")]);
    let older = place(&[("kubernetes.io/cluster/demo", "owned"), ("karpenter.sh/managed-by", "demo")]);
    place(&[("kubernetes.io/cluster/other", "owned"), ("eks:eks-cluster-name", "other")]);
    for (adopts, wanted) in [(false, vec![&newer]), (true, vec![&newer, &older])] {
        let listed = account.cloud("uid-1", adopts).instances_by_name(false).await.unwrap();
        let mut ids: Vec<&String> = listed.iter().map(|one| &one.id).collect();
        let mut wanted = wanted;
        ids.sort();
        wanted.sort();
        assert_eq!(ids, wanted, "{adopts}");
    }
}
