//! What tries the brakes: answers that are not to be believed, and instances that are somebody else's.

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_api::names::{annotations, tags};
use dovetail_input::Failure;
use dovetail_sandbox::apiserver::{Gvr, Restored, told_of_claim};
use dovetail_sandbox::log::{Caller, Entry};
use dovetail_sandbox::region::{CapacityType, Placement};
use serde_json::json;
use tokio::time::Instant;

use super::World;
use super::actions::{later, resource};

/// What another cluster of the same name says it is.
pub const OTHER_CLUSTER: &str = "00000000-0000-4000-8000-00000000face";

impl World {
    /// Objects of a kind are gone as if they had never been written.
    pub(super) fn lose(&self, kind: &str, count: Option<usize>) {
        let gvr = resource(kind);
        for object in self.api.lose(&gvr, count.unwrap_or(usize::MAX)) {
            let fields = [
                ("verb", json!("lose")),
                ("resource", json!(gvr.resource)),
                ("subresource", json!(null)),
                ("namespace", object["metadata"]["namespace"].clone()),
                ("name", object["metadata"]["name"].clone()),
                ("uid", object["metadata"]["uid"].clone()),
                ("code", json!(200)),
                ("claim", json!(null)),
            ];
            self.log.append("api", &Caller::named("restore"), fields);
        }
    }

    /// The API server is down for a while, and knows nothing then of what watches had read.
    pub(super) fn restart(&self, duration: Duration) {
        self.faults.take_down(Instant::now() + duration);
        self.api.restart();
    }

    /// Changes reach watches late for a while, in their order.
    pub(super) fn slow_watches(&self, by: Duration, duration: Option<Duration>) {
        self.faults.set_watches_late(by);
        let faults = self.faults.clone();
        later(duration, move || faults.set_watches_late(Duration::ZERO));
    }

    /// The API server is put back to what was backed up then. The log has every NodeClaim and Lease that is another now.
    pub(super) fn restore(&self, of: Duration, duration: Duration) -> Result<(), Failure> {
        let snapshots = self.snapshots.borrow();
        let Some((_, snapshot)) = snapshots.iter().rev().find(|(at, _)| *at <= of) else {
            return Err(Failure::System("nothing was backed up that could be restored".to_owned()));
        };
        self.faults.take_down(Instant::now() + duration);
        for Restored { gvr, before, after } in self.api.restore(snapshot) {
            let (resource, object) = (gvr.resource.as_ref(), after.as_ref().or(before.as_ref()));
            let Some(object) = object.filter(|_| ["nodeclaims", "leases"].contains(&resource)) else { continue };
            let mut fields = vec![
                ("verb", json!(if after.is_some() { "restore" } else { "lose" })),
                ("resource", json!(resource)),
                ("subresource", json!(null)),
                ("namespace", object["metadata"]["namespace"].clone()),
                ("name", object["metadata"]["name"].clone()),
                ("uid", object["metadata"]["uid"].clone()),
                ("code", json!(200)),
            ];
            match &after {
                Some(lease) if resource == "leases" => fields.push(("sent", json!({"spec": lease["spec"]}))),
                Some(claim) => {
                    fields.push(("deleting", json!(claim["metadata"]["deletionTimestamp"].is_string())));
                    fields.push(("claim", told_of_claim(claim)));
                }
                None => fields.push(("claim", json!(null))),
            }
            self.log.append("api", &Caller::named("restore"), fields);
        }
        self.mend_what_is_put_back();
        Ok(())
    }

    /// EC2 lists no instances for a while.
    pub(super) fn empty_lists(&self, duration: Option<Duration>) {
        self.faults.change(|faults| faults.ec2.empty_lists = true);
        let faults = self.faults.clone();
        later(duration, move || faults.change(|faults| faults.ec2.empty_lists = false));
    }

    /// Instances that another cluster of this name has launched, in the same account and region.
    pub(super) fn foreign_instances(&self, count: u32) -> Result<(), Failure> {
        let cluster = &self.config.cluster_name;
        let own = BTreeMap::from([
            (tags::owned_by(cluster), tags::OWNED.to_owned()),
            (tags::CLUSTER_NAME.to_owned(), cluster.clone()),
            (tags::NODE_POOL.to_owned(), "default".to_owned()),
            (tags::NODE_CLASS.to_owned(), "default".to_owned()),
            (tags::CLUSTER_UID.to_owned(), OTHER_CLUSTER.to_owned()),
        ]);
        let zones: Vec<String> = self.region.zones().into_iter().map(|zone| zone.name).collect();
        for zone in zones.iter().cycle().take(count as usize) {
            let placement = Placement {
                instance_type: "m5.large".to_owned(),
                zone: zone.clone(),
                capacity_type: CapacityType::OnDemand,
                tags: own.clone(),
                user_data: String::new(),
            };
            self.region.place(&placement).map_err(|why| Failure::System(format!("foreign instances: {why}")))?;
        }
        Ok(())
    }

    /// Whether the collection has said that it waits for an operator.
    pub(super) fn collection_waits(&self) -> bool {
        let waits = |entry: &Entry| {
            entry.kind == "story"
                && entry.text("event") == "collection_braked"
                && matches!(entry.text("reason"), "over_bound" | "claims_lost" | "held")
        };
        self.log.with_entries(|entries| entries.iter().any(waits))
    }

    /// The operator allows everything to be collected from now on until then.
    pub(super) fn allow_collection(&self, duration: Duration) -> Result<(), Failure> {
        let until = self.wall() + jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX);
        let patch = json!({"metadata": {"annotations": {annotations::ALLOW_COLLECTION: until.to_string()}}});
        let namespaces = Gvr::new("", "v1", "namespaces");
        let patched = self.api.patch(&namespaces, "", "kube-system", &patch);
        patched.map(drop).map_err(|why| Failure::System(format!("namespace kube-system: {why}")))
    }
}
