//! Who is on a node, as the API server itself shows it.

use std::sync::Arc;

use dovetail_core::cluster_state::PodEntry;
use dovetail_core::termination::drain::{Latecomers, drain};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

use crate::kube::calls::{CallError, Calls};
use crate::reading::LenientApi;

/// How many pods are on a node, which goes since then, that have to leave it: a watch that is late does not know who was bound before the taint was
/// there, nor who is there again out of a backup. Asked once: what has to be asked again is asked for by somebody who knows why.
///
/// # Errors
/// As [`Calls::once`].
pub async fn left_on(calls: &Calls, node: &str, since: Timestamp) -> Result<usize, CallError> {
    let api = LenientApi::<Pod>::all(calls.client.clone());
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let there = calls.once(api.list(&on_node)).await?;
    // What cannot be read is there all the same.
    let unread = there.unreadable.iter().map(|pod| PodEntry::unreadable(&pod.pod()));
    let pods: Vec<_> = there.items.iter().map(PodEntry::as_it_is).chain(unread).map(Arc::new).collect();
    let late = Latecomers::unkept(&pods, since);
    Ok(drain(pods, &late, None, calls.env.wall()).waiting.len())
}
