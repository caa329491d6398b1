//! The time of a request: where it stands by its conditions, how long its room is held, and how much of it pods have taken.

use std::collections::BTreeMap;

use dovetail_api::names::annotations::BOOKING;
use dovetail_api::names::conditions::TRUE;
use dovetail_api::provisioning::ProvisioningRequest;
use dovetail_api::v1::{condition, is_true, parse_go_duration};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::outcome::{BOOKING_EXPIRED, CAPACITY_REVOKED, FAILED, PROVISIONED};
use super::request::Gang;
use crate::cluster_state::{PodEntry, Snapshot};

/// Time for which room is held, unless the request says another (Cluster Autoscaler's).
const BOOKED_FOR: SignedDuration = SignedDuration::from_mins(10);
/// Longest time for which room is held.
const LONGEST_BOOKING: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The stage of a request, by the conditions that are written on it: a successor reads the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GangPhase {
    /// Its room is not there yet.
    Waiting,
    /// Its room is held until then.
    Booked(Timestamp),
    /// Nothing more is done for it.
    Over,
}

/// The stage of a request.
#[must_use]
pub fn phase_of(request: &ProvisioningRequest) -> GangPhase {
    let known = request.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if [FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED].iter().any(|over| is_true(known, over)) {
        return GangPhase::Over;
    }
    match condition(known, PROVISIONED).filter(|one| one.status == TRUE) {
        None => GangPhase::Waiting,
        Some(since) => {
            let end = since.last_transition_time.0.saturating_add(booking_time(&request.metadata));
            GangPhase::Booked(end.unwrap_or(Timestamp::MAX))
        }
    }
}

/// Time for which a request's room is held: that of its annotation, if it is a duration of a week at most.
#[must_use]
pub fn booking_time(metadata: &ObjectMeta) -> SignedDuration {
    let written = metadata.annotations.as_ref().and_then(|own| own.get(BOOKING));
    let asked = written.and_then(|text| parse_go_duration(text).ok());
    let asked = asked.and_then(|asked| SignedDuration::try_from(asked).ok()).filter(|asked| *asked <= LONGEST_BOOKING);
    asked.unwrap_or(BOOKED_FOR)
}

/// Pods on nodes that consume requests, by namespace and name of the request.
#[derive(Clone, Debug, Default)]
pub struct Consumers<'a>(BTreeMap<String, Vec<&'a PodEntry>>);

impl<'a> Consumers<'a> {
    /// All of a cluster.
    #[must_use]
    pub fn of_snapshot(snapshot: &'a Snapshot) -> Self {
        let mut all: BTreeMap<String, Vec<&PodEntry>> = BTreeMap::new();
        for entry in snapshot.pods.values().filter(|entry| !entry.node_name.is_empty() && !entry.deleting) {
            if let Some(name) = &entry.consumes {
                all.entry(format!("{}/{name}", entry.pod.namespace)).or_default().push(entry);
            }
        }
        Self(all)
    }

    /// Numbers of pods of each set that have not come yet. A pod takes the room of a set with its requests, or else of the first
    /// set that has some left.
    #[must_use]
    pub fn leave(&self, gang: &Gang) -> Vec<usize> {
        let mut left: Vec<usize> = gang.sets.iter().map(|set| set.count).collect();
        for entry in self.0.get(&gang.key()).into_iter().flatten() {
            let free = |at: &usize| left[*at] > 0;
            let alike = |at: &usize| gang.sets[*at].shape.requests == entry.pod.requests;
            let of_set = (0..left.len()).filter(free).find(alike).or_else(|| (0..left.len()).find(free));
            if let Some(set) = of_set {
                left[set] -= 1;
            }
        }
        left
    }
}
