//! DynamicResources: a pod's ResourceClaims on a node, by the same search as the control plane's, and their allocation.

use dovetail_core::dra::{DeviceBook, DeviceId, MOST_STEPS, allocate};
use serde_json::{Value, json};

use super::filter::FilterReason;
use super::node::NodeInfo;
use crate::cluster::cache::{CachedObject, Key};
use crate::cluster::context::{ClusterChange, ClusterContext};
use crate::cluster::kind::Kind;

/// Claims of a pod, to be judged node by node.
#[derive(Debug, Default)]
pub(crate) struct ClaimPlan {
    book: DeviceBook,
    /// `namespace/name` of each claim.
    claims: Vec<String>,
}

/// The names of a pod's ResourceClaims; `None` while one that a template makes is not there.
pub(crate) fn claims_of(pod: &Value) -> Option<Vec<String>> {
    let made = pod["status"]["resourceClaimStatuses"].as_array();
    let mut all = Vec::new();
    for one in pod["spec"]["resourceClaims"].as_array().into_iter().flatten() {
        match one["resourceClaimName"].as_str() {
            Some(name) => all.push(name.to_owned()),
            None => {
                let made = made?.iter().find(|made| made["name"] == one["name"])?;
                all.extend(made["resourceClaimName"].as_str().map(str::to_owned));
            }
        }
    }
    Some(all)
}

impl ClaimPlan {
    /// The plan of a pod.
    ///
    /// # Errors
    /// The reason for which no node would do.
    pub(crate) fn new(book: &DeviceBook, key: &Key, pod: Option<&CachedObject>) -> Result<Self, String> {
        let Some(pod) = pod.filter(|pod| pod["spec"]["resourceClaims"].is_array()) else { return Ok(Self::default()) };
        let names = claims_of(pod).ok_or("waiting for resource claims of the pod to be created")?;
        let claims: Vec<String> = names.iter().map(|name| format!("{}/{name}", key.namespace)).collect();
        match claims.iter().zip(&names).find(|(key, _)| !book.claims.all().contains_key(*key)) {
            Some((_, name)) => Err(format!("resourceclaim \"{name}\" not found")),
            None => Ok(Self { book: book.clone(), claims }),
        }
    }

    /// The reason that a node does not have the devices.
    pub(crate) fn judge(&self, node: &NodeInfo) -> Option<FilterReason> {
        if self.claims.is_empty() {
            return None;
        }
        self.allocations(node).err().map(|_| FilterReason::Devices)
    }

    fn allocations(&self, node: &NodeInfo) -> Result<Vec<(String, Vec<DeviceId>)>, String> {
        allocate(&self.book, (&node.name, &node.labels), &self.claims, MOST_STEPS)
    }

    /// Writes the devices that a pod gets on a node, and that it uses all of its claims.
    pub(super) fn reserve(&self, ctx: &mut ClusterContext, book: &mut DeviceBook, pod: (&Key, &str), node: &NodeInfo) {
        let Ok(found) = self.allocations(node) else { return };
        let (key, uid) = pod;
        for claim in &self.claims {
            let Some((namespace, name)) = claim.split_once('/') else { continue };
            let own = Key::new(namespace, name);
            ctx.kube.modify_status(Kind::ResourceClaim, &own, |object| {
                if let Some((_, devices)) = found.iter().find(|(one, _)| one == claim) {
                    object["status"]["allocation"] = allocation(object, devices, &node.name);
                }
                let user = json!({"resource": "pods", "name": key.name, "uid": uid});
                match object["status"]["reservedFor"].as_array_mut() {
                    Some(users) if users.contains(&user) => {}
                    Some(users) => users.push(user),
                    None => object["status"]["reservedFor"] = json!([user]),
                }
                true
            });
            // The next pod is judged before the watch shows it.
            take_in(book, Kind::ResourceClaim, &own, ctx.kube.get(Kind::ResourceClaim, &own).as_deref());
        }
    }
}

/// An allocation of devices on a node, each under the request that it is for.
fn allocation(claim: &Value, devices: &[DeviceId], node: &str) -> Value {
    let mut requests = Vec::new();
    for request in claim["spec"]["devices"]["requests"].as_array().into_iter().flatten() {
        let count = request["exactly"]["count"].as_u64().unwrap_or(1);
        (0..count).for_each(|_| requests.push(request["name"].clone()));
    }
    let last = requests.last().cloned().unwrap_or_default();
    let results = devices.iter().enumerate().map(|(at, one)| {
        let request = requests.get(at).unwrap_or(&last);
        json!({"request": request, "driver": one.driver, "pool": one.pool, "device": one.device})
    });
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    json!({
        "devices": {"results": results.collect::<Vec<_>>()},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    })
}

/// Follows an object about devices. Answers false for objects of other kinds.
pub(super) fn follow(book: &mut DeviceBook, change: &ClusterChange) -> bool {
    take_in(book, change.kind, &change.key, change.new.as_deref())
}

fn take_in(book: &mut DeviceBook, kind: Kind, key: &Key, object: Option<&Value>) -> bool {
    fn parsed<T: serde::de::DeserializeOwned>(object: Option<&Value>) -> Option<T> {
        object.and_then(|object| T::deserialize(object).ok())
    }
    match kind {
        Kind::ResourceClaim => match parsed(object) {
            Some(claim) => book.apply_claim(&claim),
            None => book.claims.remove(&key.to_string()),
        },
        Kind::DeviceClass => match parsed(object) {
            Some(class) => book.apply_class(&class),
            None => book.classes.remove(&key.name),
        },
        Kind::ResourceSlice => match parsed(object) {
            Some(slice) => book.apply_slice(&slice),
            None => book.remove_slice(&key.name),
        },
        _ => return false,
    };
    true
}
