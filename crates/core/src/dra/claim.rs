//! ResourceClaims and DeviceClasses as they are known: the devices that are asked for, and those that claims have.

use std::collections::BTreeSet;

use dovetail_api::resource::{
    AllocationResult, DeviceClass, DeviceConstraint, DeviceRequest, DeviceSelector, ExactDeviceRequest, ResourceClaim,
};

use super::device::{DeviceId, PropertyName};
use super::slice::read_terms;
use crate::requirements::Requirements;

/// Most devices of a claim, as Kubernetes bounds them.
pub const MOST_DEVICES: usize = 32;
/// Most requests, constraints, alternatives and selectors of each, as Kubernetes bounds them.
const MOST_PARTS: usize = 32;
/// Longest expression of a selector, in bytes, as Kubernetes bounds it.
const LONGEST_EXPRESSION: usize = 10 * 1024;
/// Most users of a claim, as Kubernetes bounds them.
const MOST_USERS: usize = 256;

/// A ResourceClaim.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The wish; the reason that it cannot be planned for, if it makes no sense or is not supported.
    pub wish: Result<Wish, String>,
    /// The devices that it has.
    pub allocation: Option<Allocation>,
    /// Uids of the pods that may use them.
    pub users: BTreeSet<String>,
    /// True if others than pods may.
    pub used_by_others: bool,
}

/// The devices that a claim asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wish {
    pub requests: Vec<Request>,
    pub matches: Vec<MatchAttribute>,
}

/// A request for devices, by its alternatives, the preferred one first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    pub name: String,
    pub alternatives: Vec<Alternative>,
}

/// An alternative of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alternative {
    /// `request/alternative`, or the request's name if there is one alternative alone.
    pub name: String,
    /// Name of the DeviceClass.
    pub class: String,
    /// Selectors beside those of the class.
    pub selectors: Vec<String>,
    /// Number of devices; all that match if `None`.
    pub count: Option<usize>,
}

/// A rule that devices have one value of an attribute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatchAttribute {
    /// Requests that it is about; all if empty.
    pub requests: BTreeSet<String>,
    pub attribute: PropertyName,
}

/// The devices that a claim has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    pub devices: Vec<DeviceId>,
    /// Terms of which a node that uses them has to meet one; every node if `None`.
    pub terms: Option<Vec<Requirements>>,
}

impl Claim {
    /// Reads an object.
    #[must_use]
    pub fn from_object(object: &ResourceClaim) -> Self {
        let status = object.status.as_ref();
        let users = || status.into_iter().flat_map(|status| &status.reserved_for);
        let is_pod = |group: &str, resource: &str| group.is_empty() && resource == "pods";
        let mut wish = read_wish(object);
        let allocation = match status.and_then(|status| status.allocation.as_ref()).map(read_allocation) {
            Some(Ok(allocation)) => Some(allocation),
            Some(Err(fault)) => {
                wish = Err(format!("its allocation: {fault}"));
                None
            }
            None => None,
        };
        Self {
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            name: object.metadata.name.clone().unwrap_or_default(),
            uid: object.metadata.uid.clone().unwrap_or_default(),
            wish,
            allocation,
            users: users()
                .filter(|one| is_pod(&one.api_group, &one.resource))
                .take(MOST_USERS)
                .map(|one| one.uid.clone())
                .collect(),
            used_by_others: users().any(|one| !is_pod(&one.api_group, &one.resource)) || users().count() > MOST_USERS,
        }
    }

    /// `namespace/name`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The devices that it has and keeps although the pods `leaving` go: a claim whose users all go is as good as free.
    #[must_use]
    pub fn kept_allocation(&self, leaving: &BTreeSet<&str>) -> Option<&Allocation> {
        let goes = !self.used_by_others
            && !self.users.is_empty()
            && self.users.iter().all(|uid| leaving.contains(uid.as_str()));
        self.allocation.as_ref().filter(|_| !goes)
    }
}

fn read_allocation(written: &AllocationResult) -> Result<Allocation, String> {
    // Administrators look at devices; they do not take them.
    let taken = written.devices.results.iter().filter(|one| one.admin_access != Some(true));
    let devices =
        taken.map(|one| DeviceId { driver: one.driver.clone(), pool: one.pool.clone(), device: one.device.clone() });
    let terms = written.node_selector.as_ref().map(read_terms).transpose()?;
    Ok(Allocation { devices: devices.collect(), terms })
}

fn read_wish(object: &ResourceClaim) -> Result<Wish, String> {
    let written = &object.spec.devices;
    if written.requests.len() > MOST_PARTS || written.constraints.len() > MOST_PARTS {
        return Err(format!("more than {MOST_PARTS} requests or constraints"));
    }
    let requests = written.requests.iter().map(read_request).collect::<Result<_, _>>()?;
    let matches = written.constraints.iter().map(read_constraint).collect::<Result<_, _>>()?;
    Ok(Wish { requests, matches })
}

fn read_request(written: &DeviceRequest) -> Result<Request, String> {
    let name = written.name.clone();
    let at = |error: String| format!("request {name}: {error}");
    let alternatives = match (&written.exactly, written.first_available.as_slice()) {
        (Some(exactly), []) => vec![read_alternative(name.clone(), exactly).map_err(at)?],
        (None, several @ [_, ..]) if several.len() <= MOST_PARTS => {
            let each = several.iter().map(|one| read_alternative(format!("{name}/{}", one.name), &one.exactly));
            each.collect::<Result<_, _>>().map_err(at)?
        }
        _ => return Err(at("neither exactly nor firstAvailable says what it is for".into())),
    };
    Ok(Request { name, alternatives })
}

/// Reads an alternative; a field that is not supported is named.
fn read_alternative(name: String, written: &ExactDeviceRequest) -> Result<Alternative, String> {
    let unsupported = [
        ("adminAccess", written.admin_access == Some(true)),
        ("tolerations", !written.tolerations.is_empty()),
        ("capacity", written.capacity.is_some()),
    ];
    if let Some((field, _)) = unsupported.iter().find(|(_, used)| *used) {
        return Err(format!("field {field} is not supported"));
    }
    let count = match written.allocation_mode.as_deref() {
        None | Some("ExactCount") => {
            let count = usize::try_from(written.count.unwrap_or(1)).unwrap_or(0);
            Some(count).filter(|count| *count > 0).ok_or("count is not above zero")?.into()
        }
        Some("All") => None,
        Some(other) => return Err(format!("allocationMode {other:?} is not supported")),
    };
    let class = written.device_class_name.clone();
    Ok(Alternative { name, class, selectors: read_selectors(&written.selectors)?, count })
}

fn read_selectors(written: &[DeviceSelector]) -> Result<Vec<String>, String> {
    if written.len() > MOST_PARTS {
        return Err(format!("more than {MOST_PARTS} selectors"));
    }
    let each = written.iter().map(|one| match &one.cel {
        Some(cel) if cel.expression.len() <= LONGEST_EXPRESSION => Ok(cel.expression.clone()),
        Some(_) => Err(format!("a selector is longer than {LONGEST_EXPRESSION} bytes")),
        None => Err("a selector is of a kind that is not supported".to_owned()),
    });
    each.collect()
}

fn read_constraint(written: &DeviceConstraint) -> Result<MatchAttribute, String> {
    if written.distinct_attribute.is_some() {
        return Err("field distinctAttribute is not supported".into());
    }
    let full = written.match_attribute.as_ref().and_then(|attribute| attribute.split_once('/'));
    let (domain, name) = full.ok_or("a constraint is of a kind that is not supported")?;
    Ok(MatchAttribute {
        requests: written.requests.iter().cloned().collect(),
        attribute: (domain.to_owned(), name.to_owned()),
    })
}

/// The selectors of a DeviceClass, or the reason that they cannot be read.
pub type ClassSelectors = Result<Vec<String>, String>;

/// Reads a DeviceClass.
///
/// # Errors
/// The reason that its selectors cannot be read.
pub fn read_class(object: &DeviceClass) -> ClassSelectors {
    read_selectors(&object.spec.selectors)
}
