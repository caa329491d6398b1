//! Pods on a node, as the API server itself shows them.

use std::sync::Arc;

use dovetail_core::cluster_state::PodEntry;
use dovetail_core::termination::drain::{Latecomers, drain};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

use crate::kube::calls::{CallError, Calls};
use crate::reading::LenientApi;

/// Number of pods that still have to leave a node that goes since then, from the API server: a late watch does not show pods
/// bound before the taint, nor those that are back from a backup. Asked once; the caller decides about repetition.
///
/// # Errors
/// As [`Calls::once`].
pub async fn left_on(calls: &Calls, node: &str, since: Timestamp) -> Result<usize, CallError> {
    let api = LenientApi::<Pod>::all(calls.client.clone());
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let there = calls.once(api.list(&on_node)).await?;
    // A pod that cannot be read is on the node all the same.
    let unread = there.unreadable.iter().map(|pod| PodEntry::unreadable(&pod.pod()));
    let pods: Vec<_> = there.items.iter().map(PodEntry::as_it_is).chain(unread).map(Arc::new).collect();
    let late = Latecomers::unkept(&pods, since);
    Ok(drain(pods, &late, None, calls.env.wall()).waiting.len())
}
