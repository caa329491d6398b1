//! Faults that try the brakes: answers that are not to be believed, and instances that are somebody else's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::{annotations, tags};
use dovetail_input::Failure;
use dovetail_sandbox::apiserver::{ApiServer, DeleteOptions, Gvr, Restored, claim_summary};
use dovetail_sandbox::cluster::MENDED_BY_REBOOT;
use dovetail_sandbox::log::{ActionEntry, Caller, EventLog};
use dovetail_sandbox::region::{CapacityType, Placement, RegionError, RegionInstance};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::World;
use super::actions::{Action, later};
use super::kinds::resource;

/// Identity of another cluster of the same name.
pub const OTHER_CLUSTER: &str = "00000000-0000-4000-8000-00000000face";
/// Tag of instances that others of the account run.
const OF_OTHERS: &str = "example.com/others";

/// NodeClaims that somebody deletes soon after they were created, as an admission webhook or a cleaning job may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimsDeleted {
    /// Age at which they are deleted.
    pub after: Duration,
    /// From the beginning for so long; without it, for ever.
    pub lasts: Option<Duration>,
}

/// Time between two looks for NodeClaims that are to be deleted.
const LOOKS: Duration = Duration::from_millis(500);

/// Deletes every NodeClaim that is old enough.
pub(super) async fn delete_claims(api: ApiServer, log: EventLog, deleted: ClaimsDeleted) {
    let (begun, mut seen) = (Instant::now(), BTreeMap::new());
    while deleted.lasts.is_none_or(|lasts| begun.elapsed() < lasts) {
        tokio::time::sleep(LOOKS).await;
        for claim in api.list(&resource("NodeClaim")) {
            let text = |field: &str| claim["metadata"][field].as_str().unwrap_or_default().to_owned();
            let since = *seen.entry(text("uid")).or_insert_with(Instant::now);
            if since.elapsed() >= deleted.after && text("deletionTimestamp").is_empty() {
                let (kind, name) = ("NodeClaim".to_owned(), text("name"));
                let action = Action::Delete { kind, namespace: String::new(), name };
                log.append("step", &Caller::named("operator"), [("action", json!(action))]);
                // One that is gone meanwhile need not be deleted.
                let _ = api.delete(&resource("NodeClaim"), "", &text("name"), &DeleteOptions::default());
            }
        }
    }
}

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

    /// A condition of some nodes of ours is False for a while, for that reason, as an agent on them reports it; or if so, until
    /// their machines restart.
    pub(super) fn unwell(
        &self,
        (condition, reason, until_reboot): (&str, &str, bool),
        skip: usize,
        count: Option<usize>,
        duration: Option<Duration>,
    ) {
        let ours = |node: &&Arc<Value>| node["metadata"]["labels"]["karpenter.sh/nodepool"].is_string();
        let text = |node: &Value, field: &str| node["metadata"][field].as_str().unwrap_or_default().to_owned();
        let nodes = self.nodes();
        let mut names: Vec<(String, String)> =
            nodes.iter().filter(ours).map(|node| (text(node, "name"), text(node, "uid"))).collect();
        names.sort();
        names.drain(..skip.min(names.len()));
        names.truncate(count.unwrap_or(usize::MAX));
        let message = if until_reboot { MENDED_BY_REBOOT } else { "" };
        names.iter().for_each(|(name, _)| report(&self.api, name, (condition, "False", reason, message), self.wall()));
        let (api, clock, condition) = (self.api.clone(), self.clock.clone(), condition.to_owned());
        later(duration, move || {
            for (name, uid) in names {
                let there = api.get(&resource("Node"), "", &name);
                if there.is_some_and(|node| node["metadata"]["uid"] == *uid) {
                    report(&api, &name, (&condition, "True", "Reported", ""), clock.wall());
                }
            }
        });
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
                    fields.push(("claim", claim_summary(claim)));
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

    /// Others of the account run so many instances of a type in a zone from now on.
    pub(super) fn others(&self, instance_type: &str, zone: &str, count: u32) -> Result<(), Failure> {
        let refuse = |why: RegionError| Failure::System(format!("instances of others: {why}"));
        let is_theirs = |one: &RegionInstance| {
            one.state.is_alive()
                && one.tags.contains_key(OF_OTHERS)
                && (one.instance_type.as_str(), one.zone.as_str()) == (instance_type, zone)
        };
        let there: Vec<RegionInstance> = self.region.instances().into_iter().filter(is_theirs).collect();
        let wanted = count as usize;
        there.iter().skip(wanted).try_for_each(|one| self.region.terminate(&one.id)).map_err(refuse)?;
        let placement = Placement {
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            capacity_type: CapacityType::OnDemand,
            tags: BTreeMap::from([(OF_OTHERS.to_owned(), String::new())]),
            user_data: String::new(),
        };
        (there.len()..wanted).try_for_each(|_| self.region.place(&placement).map(drop)).map_err(refuse)
    }

    /// True if the collection has said in this run that it waits for an operator.
    pub(super) fn collection_waits(&self) -> bool {
        let waits = |entry: &ActionEntry| {
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

/// Writes a condition of a Node, beside those that it has.
/// A Node's condition: type, status, reason and message.
fn report(api: &ApiServer, name: &str, (condition, status, reason, message): (&str, &str, &str, &str), now: Timestamp) {
    let Some(node) = api.get(&resource("Node"), "", name) else { return };
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let others = node["status"]["conditions"].as_array().into_iter().flatten().filter(|one| one["type"] != condition);
    let mut all: Vec<Value> = others.cloned().collect();
    all.push(json!({"type": condition, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now}));
    // A Node that has gone meanwhile reports nothing.
    let _ = api.patch_status(&resource("Node"), "", name, &json!({"status": {"conditions": all}}));
}
