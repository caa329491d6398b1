//! PodGroups in a plan: pods of a gang get nodes together or not at all.

use std::sync::Arc;

use dovetail_api::manifest::Manifest;
use dovetail_api::scheduling::{COSCHEDULING_VERSION, CoschedulingGroup, KIND, PodGroup, VERSIONS};
use dovetail_core::cluster_state::ClusterState;
use dovetail_core::pod_groups::{PodGroupApi, PodGroupRule, pack_gangs, read_coscheduling_group, read_group};

use super::{Loaded, options};
use crate::cli::PlanArgs;
use crate::survive;

/// Version of Kubernetes 1.37 that has the fields of the others, and is watched by nobody.
const OTHER_VERSION: &str = "scheduling.k8s.io/v1alpha3";

/// A group of manifests: its API, namespace and name, and what it asks for.
pub(super) type WrittenGroup = (PodGroupApi, String, PodGroupRule);

/// Takes the groups out of manifests, if they count.
pub(super) fn take_from(manifests: &mut Vec<Manifest>, do_count: bool) -> Vec<WrittenGroup> {
    let mut all = Vec::new();
    if !do_count {
        return all;
    }
    manifests.retain(|manifest| {
        let read = read_manifest(manifest);
        let stays = read.is_none();
        all.extend(read);
        stays
    });
    all
}

/// A manifest that is a group. One that cannot be read is one that makes no sense, as in a cluster.
fn read_manifest(manifest: &Manifest) -> Option<WrittenGroup> {
    if manifest.kind != KIND {
        return None;
    }
    let key = format!("{}/{}", manifest.namespace.as_deref().unwrap_or("default"), manifest.name);
    let (object, version) = (manifest.object.clone(), manifest.api_version.as_str());
    let unread = |why: serde_json::Error| format!("it cannot be read: {why}");
    if VERSIONS.contains(&version) || version == OTHER_VERSION {
        let group: Result<PodGroup, _> = serde_json::from_value(object);
        return Some((PodGroupApi::Native, key, group.map_err(unread).and_then(|group| read_group(&group.spec))));
    }
    let group = (version == COSCHEDULING_VERSION).then(|| serde_json::from_value::<CoschedulingGroup>(object))?;
    let rule = group.map_err(unread).and_then(|group| read_coscheduling_group(&group.spec));
    Some((PodGroupApi::Coscheduling, key, rule))
}

/// Puts groups into the state. Where those of files alone count (`do_count`), a pod whose group is not among them waits for it.
pub(super) fn apply_all(state: &mut ClusterState, groups: Vec<WrittenGroup>, do_count: bool) {
    let book = state.pod_groups_mut();
    if do_count {
        book.follow(PodGroupApi::Native, true);
        book.follow(PodGroupApi::Coscheduling, true);
    }
    for (api, key, rule) in groups {
        book.insert(api, &key, rule);
    }
}

/// Leaves gangs that lack places out of the problem, with the reason.
pub(super) fn settle(args: &PlanArgs, loaded: &mut Loaded) {
    if loaded.gangs.is_empty() {
        return;
    }
    let (options, devices) = (options(args), loaded.devices.clone());
    let solve = |problem: &Arc<_>| survive::solve(problem, &options);
    let mut settled = loaded.problem.clone();
    pack_gangs(&loaded.gangs, &loaded.problem, |problem| {
        settled = problem.clone();
        match &devices {
            Some(devices) => devices.pack(problem, |_| false, solve),
            None => (problem.clone(), solve(problem)),
        }
    });
    loaded.problem = settled;
}
