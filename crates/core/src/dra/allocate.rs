//! The devices that a pod would get on one node, by what drivers have published there: kube-scheduler's allocation, and the reason
//! that a node which was meant for a pod has too few.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::book::DeviceBook;
use super::claim::Claim;
use super::device::DeviceId;
use super::places::published_pools;
use super::search::{Devices, MOST_STEPS, Place, Search, Wanted};
use super::selector::Selectors;
use crate::labels::NODE_NAME_FIELD;
use crate::pod::Pod;
use crate::requirements::{Requirement, Requirements};

/// Parts of a search's steps that a reason may take: it is looked for where nothing else may wait for it.
const STEPS_SHARE: u64 = 10;

/// The reason that a node's devices, as they are published, are not enough for a pod: it names the selector. `None` if they are, or
/// if its claims are not known.
#[must_use]
pub fn lacking_devices(book: &DeviceBook, node: (&str, &BTreeMap<String, String>), pod: &Pod) -> Option<String> {
    let named = pod.devices.iter().filter_map(|one| one.claim.as_ref());
    let keys: Vec<String> = named.map(|name| format!("{}/{name}", pod.namespace)).collect();
    let known = keys.iter().all(|key| book.claims.all().contains_key(key));
    allocate(book, node, &keys, MOST_STEPS / STEPS_SHARE).err().filter(|_| known)
}

/// The devices that claims would get on a node, by the claim's key; those that have devices already are left out.
///
/// # Errors
/// The reason that the node is out for a pod with these claims.
pub fn allocate(
    book: &DeviceBook,
    (node, labels): (&str, &BTreeMap<String, String>),
    claims: &[String],
    steps: u64,
) -> Result<Vec<(String, Vec<DeviceId>)>, String> {
    let mut own = Requirements::from_labels(labels);
    own.add(NODE_NAME_FIELD, Requirement::one_of([node]));
    let mut wanted: Vec<Wanted<'_>> = Vec::new();
    for key in claims {
        let claim: &Claim = book.claims.all().get(key).ok_or_else(|| format!("ResourceClaim {key} is not there"))?;
        if let Some(allocation) = &claim.allocation {
            let meets = |term: &Requirements| own.compatible(term, &BTreeSet::new()).is_ok();
            if !allocation.terms.as_ref().is_none_or(|terms| terms.iter().any(meets)) {
                return Err(format!("the devices of ResourceClaim {key} are on another node"));
            }
        } else {
            let wish = claim.wish.as_ref().map_err(|why| format!("ResourceClaim {key}: {why}"))?;
            wanted.push(Wanted { claim: key, wish });
        }
    }
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let none = BTreeSet::new();
    let kept = book.claims.all().values().filter_map(|claim| claim.kept_allocation(&none));
    let taken = kept.flat_map(|allocation| &allocation.devices).cloned().collect();
    let mut selectors = Selectors::default();
    let pools = published_pools(book.slices.all().values(), node, labels);
    let mut place = Place::new(Arc::new(Devices::new(pools, &mut selectors)), &taken);
    let mut search = Search { classes: book.classes.all(), selectors: &mut selectors, steps };
    let found = search.take_devices(&wanted, &mut place)?;
    Ok(wanted.iter().map(|one| one.claim.to_owned()).zip(found).collect())
}
