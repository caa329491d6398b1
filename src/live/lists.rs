//! Lists of all kinds that decisions depend on, page by page into the state that the control plane keeps.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_actors::reading::LenientApi;
use dovetail_api::autoscaling::{CapacityQuota, CapacityQuotaAlpha};
use dovetail_api::overlays::NodeOverlay;
use dovetail_api::resource::{DeviceClass, ResourceClaim, ResourceSlice};
use dovetail_api::scheduling::{CoschedulingGroup, PodGroup, PodGroupAlpha};
use dovetail_api::v1::{EC2NodeClass, NodeClaim, NodePool};
use dovetail_api::vertical::VerticalPodAutoscaler;
use dovetail_core::cluster_state::{ClusterState, KeptFacts, Unreadable, WatchedKind};
use dovetail_core::overlays::WrittenOverlay;
use dovetail_core::pod_groups::{PodGroupApi, read_coscheduling_group, read_group};
use dovetail_core::quotas::WrittenQuota;
use dovetail_input::Failure;
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use super::{Connection, Missing};
use crate::run::connect::plainly;

/// Objects a page.
const PAGE: u32 = 500;
/// Times that a list is begun anew, as the API server has forgotten where it was.
pub const MOST_RESTARTS: usize = 3;
/// Resource of NodeOverlays.
const OVERLAYS: &str = "nodeoverlays";
/// Resource of PodGroups.
const GROUPS: &str = "podgroups";
/// The reason of a kind that the API server has no path for.
const NOT_SERVED: &str = "the API server does not serve them";
/// Resource of CapacityQuotas.
const QUOTAS: &str = "capacityquotas";
/// Resource of VerticalPodAutoscalers.
const AUTOSCALERS: &str = "verticalpodautoscalers";
/// Time for which nodes that are launched are waited for before they count as not used; a reader judges none.
const JUDGED_AFTER: Duration = Duration::from_secs(3600);

/// Reads the cluster. Kinds that may not be read are named in `missing`.
///
/// # Errors
/// The API server does not take the credentials, or is gone.
pub async fn read_state(
    connection: &Connection,
    settings: &Settings,
    missing: &mut Vec<Missing>,
) -> Result<ClusterState, Failure> {
    let (client, mut state) = (connection.client.clone(), ClusterState::new());
    state.set_expendable(settings.expendable);
    state.follow_bookings(settings.provisioning_requests());
    state.follow_recommendations(settings.recommendations());
    state.set_interruption_half_life(settings.interruption_half_life.map(dovetail_core::clock::signed));
    let mut reader = Reader { client, state, missing };
    reader
        .kind::<NodePool>(WatchedKind::NodePool, |state, one| {
            state.apply_pool(one);
        })
        .await?;
    reader
        .kind::<EC2NodeClass>(WatchedKind::NodeClass, |state, one| {
            state.apply_class(one);
        })
        .await?;
    reader.kind::<NodeClaim>(WatchedKind::NodeClaim, apply_claim).await?;
    reader
        .kind::<Node>(WatchedKind::Node, |state, one| {
            state.apply_node(&one);
        })
        .await?;
    reader.kind::<Pod>(WatchedKind::Pod, apply_pod).await?;
    reader.kind::<DaemonSet>(WatchedKind::DaemonSet, ClusterState::apply_daemon_set).await?;
    reader.kind::<PodDisruptionBudget>(WatchedKind::PodDisruptionBudget, ClusterState::apply_budget).await?;
    reader.facts::<Namespace>().await?;
    reader.facts::<PersistentVolumeClaim>().await?;
    reader.facts::<PersistentVolume>().await?;
    reader.facts::<StorageClass>().await?;
    reader.facts::<CSINode>().await?;
    reader.facts::<StatefulSet>().await?;
    reader.facts::<LimitRange>().await?;
    reader.facts::<RuntimeClass>().await?;
    if !settings.default_spread.is_empty() {
        reader.facts::<Service>().await?;
        reader.facts::<ReplicaSet>().await?;
        reader.facts::<ReplicationController>().await?;
    }
    if settings.node_overlays() {
        reader.overlays().await?;
    }
    if settings.capacity_quotas() {
        reader.quotas().await?;
    }
    if settings.recommendations() {
        reader.recommendations().await?;
    }
    if settings.devices().is_some() {
        reader.devices().await?;
    }
    if settings.gang_scheduling() {
        reader.pod_groups().await?;
    }
    let mut state = reader.state;
    state.allow_rollouts(settings.moves_rollout);
    // Takes in what pools and classes say of launches; nothing is judged by it.
    state.judge_launches(JUDGED_AFTER, false, connection.moment());
    Ok(state)
}

fn apply_claim(state: &mut ClusterState, claim: NodeClaim) {
    // One of another kind of class is another provider's.
    if claim.spec.node_class_ref.is_ec2() {
        state.apply_claim(Arc::new(claim));
    }
}

fn apply_pod(state: &mut ClusterState, pod: Pod) {
    if let Err(why) = state.apply_pod(&pod) {
        let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
        let mut unread = Unreadable {
            kind: "Pod".to_owned(),
            api_version: "v1".to_owned(),
            metadata: pod.metadata.clone(),
            why: why.to_string(),
            ..Unreadable::default()
        };
        unread.facts.node_name = spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        unread.facts.phase = status.and_then(|status| status.phase.clone()).unwrap_or_default();
        state.apply_unreadable(WatchedKind::Pod, unread);
    }
}

struct Reader<'a> {
    client: Client,
    state: ClusterState,
    missing: &'a mut Vec<Missing>,
}

impl Reader<'_> {
    async fn facts<K>(&mut self) -> Result<(), Failure>
    where
        K: KeptFacts + Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        self.kind::<K>(K::KIND, |state, one| {
            state.apply(&one);
        })
        .await
    }

    /// Lists the objects of a feature gate's kind, page by page, in the older version where the newer is not served. A list that the
    /// API server forgets is named as missing, and those that were read count.
    async fn of_gate<K, Older>(
        &mut self,
        resource: &str,
        apply: impl Fn(&mut ClusterState, K),
        unreadable: impl Fn(&mut ClusterState, ObjectMeta, &str),
    ) -> Result<(), Failure>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
        Older: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Into<K>,
    {
        let mut read = self.gated::<K>(&apply, &unreadable).await;
        if K::api_version(&()) != Older::api_version(&()) && read.as_ref().is_err_and(is_not_served) {
            read = self.gated(&|state: &mut ClusterState, one: Older| apply(state, one.into()), &unreadable).await;
        }
        if let Err(error) = read {
            let why = why_unread(&error, resource)?;
            self.missing.push(Missing { what: resource.to_owned(), why });
        }
        Ok(())
    }

    async fn gated<K>(
        &mut self,
        apply: &impl Fn(&mut ClusterState, K),
        unreadable: &impl Fn(&mut ClusterState, ObjectMeta, &str),
    ) -> kube::Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api = LenientApi::<K>::all(self.client.clone());
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = api.list(&params).await?;
            page.items.into_iter().for_each(|one| apply(&mut self.state, one));
            for Unreadable { metadata, why, .. } in page.unreadable {
                unreadable(&mut self.state, metadata, &why);
            }
            let Some(token) = page.continues else { return Ok(()) };
            params = params.continue_token(&token);
        }
    }

    async fn overlays(&mut self) -> Result<(), Failure> {
        let apply = |state: &mut ClusterState, overlay| {
            state.apply_overlay(WrittenOverlay::new(overlay));
        };
        let unreadable = |state: &mut ClusterState, metadata, why: &str| {
            let overlay = NodeOverlay { metadata, spec: Default::default(), status: None };
            state.apply_overlay(WrittenOverlay::unreadable(overlay, why));
        };
        self.of_gate::<_, NodeOverlay>(OVERLAYS, apply, unreadable).await
    }

    async fn devices(&mut self) -> Result<(), Failure> {
        let claim = |state: &mut ClusterState, one: ResourceClaim| {
            state.devices_mut().apply_claim(&one);
        };
        let unread = |state: &mut ClusterState, metadata: ObjectMeta, why: &str| {
            state.devices_mut().apply_unreadable_claim(&metadata, why);
        };
        self.of_gate::<_, ResourceClaim>("resourceclaims", claim, unread).await?;
        let class = |state: &mut ClusterState, one: DeviceClass| {
            state.devices_mut().apply_class(&one);
        };
        let unread = |state: &mut ClusterState, metadata: ObjectMeta, why: &str| {
            state.devices_mut().apply_unreadable_class(&metadata, why);
        };
        self.of_gate::<_, DeviceClass>("deviceclasses", class, unread).await?;
        let slice = |state: &mut ClusterState, one: ResourceSlice| {
            state.devices_mut().apply_slice(&one);
        };
        let unread = |state: &mut ClusterState, metadata: ObjectMeta, _: &str| {
            state.devices_mut().apply_unreadable_slice(&metadata);
        };
        self.of_gate::<_, ResourceSlice>("resourceslices", slice, unread).await
    }

    async fn recommendations(&mut self) -> Result<(), Failure> {
        let apply = |state: &mut ClusterState, one: VerticalPodAutoscaler| {
            state.recommendations_mut().apply(&one);
        };
        self.of_gate::<_, VerticalPodAutoscaler>(AUTOSCALERS, apply, |_, _, _| {}).await
    }

    /// Lists the PodGroups of each API. One that is not served has none, and pods that name one are planned each for itself.
    async fn pod_groups(&mut self) -> Result<(), Failure> {
        let native = |state: &mut ClusterState, one: PodGroup| {
            state.pod_groups_mut().insert(PodGroupApi::Native, &key_of(&one.metadata), read_group(&one.spec));
        };
        let other = |state: &mut ClusterState, one: CoschedulingGroup| {
            let (key, rule) = (key_of(&one.metadata), read_coscheduling_group(&one.spec));
            state.pod_groups_mut().insert(PodGroupApi::Coscheduling, &key, rule);
        };
        let unread = |api: PodGroupApi| {
            move |state: &mut ClusterState, metadata: ObjectMeta, why: &str| {
                let why = format!("it cannot be read: {why}");
                state.pod_groups_mut().insert(api, &key_of(&metadata), Err(why));
            }
        };
        self.of_gate::<_, PodGroupAlpha>(GROUPS, native, unread(PodGroupApi::Native)).await?;
        self.follow_groups(PodGroupApi::Native);
        self.of_gate::<_, CoschedulingGroup>(GROUPS, other, unread(PodGroupApi::Coscheduling)).await?;
        self.follow_groups(PodGroupApi::Coscheduling);
        Ok(())
    }

    /// Follows the groups of an API that was listed just now, unless it is not served, which is no gap.
    fn follow_groups(&mut self, api: PodGroupApi) {
        let is_not_served = |one: &Missing| one.what == GROUPS && one.why == NOT_SERVED;
        let is_served = !self.missing.last().is_some_and(is_not_served);
        self.missing.retain(|one| !is_not_served(one));
        self.state.pod_groups_mut().follow(api, is_served);
    }

    async fn quotas(&mut self) -> Result<(), Failure> {
        let apply = |state: &mut ClusterState, quota| {
            state.apply_quota(WrittenQuota::new(quota));
        };
        let unreadable = |state: &mut ClusterState, metadata, why: &str| {
            let quota = CapacityQuota { metadata, spec: Default::default(), status: None };
            state.apply_quota(WrittenQuota::unreadable(quota, why));
        };
        self.of_gate::<_, CapacityQuotaAlpha>(QUOTAS, apply, unreadable).await
    }

    /// Lists a kind into the state. One that may not be listed is named as missing.
    async fn kind<K>(&mut self, kind: WatchedKind, apply: impl Fn(&mut ClusterState, K)) -> Result<(), Failure>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api = LenientApi::<K>::all(self.client.clone());
        let mut restarts = 0;
        loop {
            self.state.list_begins(kind);
            let Err(error) = self.pages(&api, kind, &apply).await else {
                self.state.list_ends(kind);
                return Ok(());
            };
            if is_forgotten(&error) && restarts < MOST_RESTARTS {
                restarts += 1;
                continue;
            }
            let why = why_unread(&error, kind.resource())?;
            self.missing.push(Missing { what: kind.resource().to_owned(), why });
            return Ok(());
        }
    }

    async fn pages<K>(
        &mut self,
        api: &LenientApi<K>,
        kind: WatchedKind,
        apply: &impl Fn(&mut ClusterState, K),
    ) -> kube::Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = api.list(&params).await?;
            page.items.into_iter().for_each(|one| apply(&mut self.state, one));
            for unread in page.unreadable {
                self.state.apply_unreadable(kind, unread);
            }
            let Some(token) = page.continues else { return Ok(()) };
            params = params.continue_token(&token);
        }
    }
}

/// Namespace and name of an object.
fn key_of(metadata: &ObjectMeta) -> String {
    let text = |name: &Option<String>| name.clone().unwrap_or_default();
    format!("{}/{}", text(&metadata.namespace), text(&metadata.name))
}

/// True if the API server has forgotten the place of a list.
pub fn is_forgotten(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 410)
}

/// True if the API server has no such path.
fn is_not_served(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// The reason that something could not be read, where the rest can be shown.
///
/// # Errors
/// There is nothing to show: the API server does not take the credentials, or is gone.
pub fn why_unread(error: &kube::Error, resource: &str) -> Result<String, Failure> {
    match error {
        kube::Error::Api(status) if status.code == 401 => {
            Err(Failure::System(format!("the API server does not accept the credentials: {}", plainly(error))))
        }
        kube::Error::Api(status) if status.code == 403 => Ok(format!(
            "we may not list them: allow the verb list on {resource} (docs/guide/explain.md has a ClusterRole)"
        )),
        kube::Error::Api(status) if status.code == 404 => Ok(NOT_SERVED.to_owned()),
        kube::Error::Api(_) | kube::Error::SerdeError(_) => Ok(plainly(error)),
        _ => Err(Failure::System(format!("the API server cannot be reached: {}", plainly(error)))),
    }
}
