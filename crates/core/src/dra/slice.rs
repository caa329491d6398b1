//! ResourceSlices as they are known, each read within bounds: one that makes no sense spoils its own pool, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::resource::ResourceSlice;
use k8s_openapi::api::core::v1::NodeSelector;

use super::device::{CounterName, Device, DeviceId, LONGEST_TEXT, read_counters};
use crate::labels::NODE_NAME_FIELD;
use crate::requirements::{NodeSelectorRequirement, Requirements};

/// Most devices of one slice, as Kubernetes bounds them.
const MOST_DEVICES: usize = 128;
/// Most terms of a node selector that are read.
const MOST_TERMS: usize = 64;

/// The nodes from which devices can be used.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Reach {
    /// None that is known: the slice has counters alone, or says it in a way that is not read.
    #[default]
    Nowhere,
    Everywhere,
    /// The node of this name.
    Node(String),
    /// Nodes that meet one of the terms.
    Terms(Vec<Requirements>),
}

/// A ResourceSlice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slice {
    pub name: String,
    pub driver: String,
    pub pool: String,
    /// Only slices of a pool's highest generation count.
    pub generation: i64,
    /// Number of slices that its pool has.
    pub count: i64,
    pub reach: Reach,
    /// Node that owns the object.
    pub owner: Option<String>,
    pub devices: Vec<Arc<Device>>,
    /// Amounts that devices of the pool share.
    pub counters: BTreeMap<CounterName, i64>,
    /// The reason that its pool cannot be used, if the slice makes no sense.
    pub fault: Option<String>,
}

impl Slice {
    /// Reads an object. One that makes no sense has a fault, and no devices.
    #[must_use]
    pub fn from_object(object: &ResourceSlice) -> Self {
        let spec = &object.spec;
        let owners = object.metadata.owner_references.iter().flatten();
        let slice = Self {
            name: object.metadata.name.clone().unwrap_or_default(),
            driver: spec.driver.clone(),
            pool: spec.pool.name.clone(),
            generation: spec.pool.generation,
            count: spec.pool.resource_slice_count,
            owner: owners.filter(|one| one.kind == "Node").map(|one| one.name.clone()).next(),
            ..Self::default()
        };
        match slice.clone().filled(object) {
            Ok(filled) => filled,
            Err(fault) => Self { fault: Some(format!("ResourceSlice {}: {fault}", slice.name)), ..slice },
        }
    }

    fn filled(mut self, object: &ResourceSlice) -> Result<Self, String> {
        let spec = &object.spec;
        if [&self.driver, &self.pool].into_iter().any(|name| name.is_empty() || name.len() > LONGEST_TEXT) {
            return Err("it names no driver or no pool".into());
        }
        if spec.devices.len() > MOST_DEVICES {
            return Err(format!("it has more than {MOST_DEVICES} devices"));
        }
        self.reach = match (&spec.node_name, spec.all_nodes, &spec.node_selector) {
            (Some(name), ..) => Reach::Node(name.clone()),
            (_, Some(true), _) => Reach::Everywhere,
            (.., Some(selector)) => Reach::Terms(read_terms(selector)?),
            _ => Reach::Nowhere,
        };
        let read = |one| Device::from_published(&self.driver, one).map(Arc::new);
        self.devices = spec.devices.iter().map(read).collect::<Result<_, _>>()?;
        for set in &spec.shared_counters {
            self.counters.extend(read_counters(&set.name, set)?);
        }
        Ok(self)
    }

    /// The node that the devices are of, whether it is named or only owns the object.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match &self.reach {
            Reach::Node(name) => Some(name),
            _ => self.owner.as_deref(),
        }
    }
}

/// The terms of a node selector, one of which a node has to meet.
///
/// # Errors
/// Names the requirement that makes no sense.
pub(super) fn read_terms(selector: &NodeSelector) -> Result<Vec<Requirements>, String> {
    if selector.node_selector_terms.len() > MOST_TERMS {
        return Err(format!("its nodeSelector has more than {MOST_TERMS} terms"));
    }
    let mut terms = Vec::new();
    for term in &selector.node_selector_terms {
        let labels = term.match_expressions.iter().flatten().cloned();
        let fields = term.match_fields.iter().flatten().cloned().map(|mut one| {
            one.key = NODE_NAME_FIELD.to_owned();
            one
        });
        let written: Result<Vec<_>, _> =
            labels.chain(fields).map(|one| NodeSelectorRequirement::from_kube(&one)).collect();
        let written = written.map_err(|error| format!("nodeSelector: {error}"))?;
        // A term without requirements matches nothing.
        if !written.is_empty() {
            terms.push(Requirements::from_written(&written).map_err(|error| format!("nodeSelector: {error}"))?);
        }
    }
    Ok(terms)
}

/// A pool of devices, as far as it can be used from one place.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    pub driver: String,
    pub name: String,
    pub devices: Vec<Arc<Device>>,
    /// Amount that is there of each counter.
    pub counters: BTreeMap<CounterName, i64>,
    /// True if all of its slices are there.
    pub complete: bool,
    /// The reason that none of its devices may be used.
    pub fault: Option<String>,
}

impl Pool {
    /// True if its devices may be used.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.complete && self.fault.is_none()
    }

    #[must_use]
    pub fn id_of(&self, device: &Device) -> DeviceId {
        DeviceId { driver: self.driver.clone(), pool: self.name.clone(), device: device.name.clone() }
    }
}

/// The pools of these slices, by driver and name, with the devices whose slice satisfies `reaches`. Pools without such a slice
/// are left out.
#[must_use]
pub fn gather_pools<'a>(
    slices: impl IntoIterator<Item = &'a Arc<Slice>>,
    reaches: impl Fn(&Slice) -> bool,
) -> Vec<Pool> {
    let mut by_pool: BTreeMap<(&str, &str), Vec<&Arc<Slice>>> = BTreeMap::new();
    for slice in slices {
        by_pool.entry((&slice.driver, &slice.pool)).or_default().push(slice);
    }
    let gathered = by_pool.into_iter().filter_map(|((driver, name), all)| {
        let newest = all.iter().map(|slice| slice.generation).max()?;
        let current: Vec<_> = all.into_iter().filter(|slice| slice.generation == newest).collect();
        let reached: Vec<_> = current.iter().filter(|slice| reaches(slice)).collect();
        if reached.is_empty() {
            return None;
        }
        Some(Pool {
            driver: driver.to_owned(),
            name: name.to_owned(),
            devices: reached.iter().flat_map(|slice| slice.devices.iter().cloned()).collect(),
            counters: current.iter().flat_map(|slice| slice.counters.clone()).collect(),
            complete: current.iter().all(|slice| slice.count == count_of(&current)),
            fault: fault_of(&current),
        })
    });
    gathered.collect()
}

fn count_of(slices: &[&Arc<Slice>]) -> i64 {
    i64::try_from(slices.len()).unwrap_or(i64::MAX)
}

/// The reason that a pool with these slices makes no sense: one of them does not, two devices have one name, or a device takes
/// of a counter that is not there.
fn fault_of(slices: &[&Arc<Slice>]) -> Option<String> {
    if let Some(fault) = slices.iter().find_map(|slice| slice.fault.clone()) {
        return Some(fault);
    }
    let mut names = BTreeSet::new();
    let devices = || slices.iter().flat_map(|slice| &slice.devices);
    if let Some(twice) = devices().find(|device| !names.insert(&device.name)) {
        return Some(format!("two devices are called {}", twice.name));
    }
    let counters: BTreeSet<&CounterName> = slices.iter().flat_map(|slice| slice.counters.keys()).collect();
    let unknown = devices().flat_map(|device| device.traits.consumes.keys()).find(|name| !counters.contains(name));
    unknown.map(|(set, name)| format!("a device takes of counter {set}/{name}, which is not there"))
}
