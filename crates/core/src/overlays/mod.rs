//! NodeOverlays: prices and extended resources that instance types have for scheduling in the place of the catalogue's (core spec
//! 3.13). What an overlay says is no money and no machine: bills go by the catalogue's price, which an offering keeps beside
//! its own, and a node has a resource once its kubelet says so.
//!
//! ```text
//! NodeOverlay ──► Overlay (or a fault) ──┐
//! pools' labels, types of their classes ─┴─► evaluate ──► types of each pool, verdict on each overlay
//! ```
//!
//! Invariants: OVL-1 the outcome does not depend on the order in which overlays come; OVL-2 an overlay acts as a whole or not at
//! all; OVL-3 of two that say something of the same, the heavier counts, and of two of one weight the later in order is
//! refused; OVL-4 types that no overlay says anything of are those of the catalogue, the same objects; OVL-5 without overlays
//! nothing is looked at.

mod book;
mod evaluate;
mod index;
mod overlay;
mod paid;
#[cfg(test)]
mod tests;
mod verdict;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use book::OverlayBook;
pub use evaluate::evaluate;
pub use overlay::{KnownOverlay, Overlay, OverlayFault, PriceRule, WrittenOverlay, read_overlay};
pub use paid::list_price;
pub use verdict::{OverlayVerdict, judge_overlay};

use crate::instance_type::InstanceType;

/// Instance types of a node class.
pub type ClassTypes = Arc<Vec<Arc<InstanceType>>>;

/// A pool, as overlays see it.
#[derive(Clone, Debug, PartialEq)]
pub struct OverlaidPool {
    /// `metadata.name`.
    pub name: String,
    /// Labels of its template, with its name as `karpenter.sh/nodepool`.
    pub labels: BTreeMap<String, String>,
    /// The catalogue's types of its class.
    pub types: ClassTypes,
}

/// Types by overlays, and the effect of each overlay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlaid {
    /// Types of the pools that overlays say anything of. Pools with the same types share the list.
    pub types: BTreeMap<String, ClassTypes>,
    /// The effect of each overlay, by name.
    pub effects: BTreeMap<String, OverlayEffect>,
}

/// The effect of one overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverlayEffect {
    /// It counts.
    Applied(OverlayReach),
    /// It cannot be used, with the reason.
    Invalid(String),
    /// Another one of its weight says something of the same: it is left out as a whole.
    Conflict(OverlayConflict),
}

/// Instance types and offerings that an overlay selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverlayReach {
    /// Names of the pools.
    pub pools: BTreeSet<String>,
    /// Number of instance types, of the pool that has most of them.
    pub types: usize,
    /// Number of a pool's offerings that have its price; heavier overlays may price others that it selects.
    pub offerings: usize,
}

/// The other overlay of a conflict, and a thing that both speak of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayConflict {
    /// Name of the overlay that counts.
    pub other: String,
    /// Weight of both.
    pub weight: i32,
    /// The offering or the resource, in words.
    pub both_say: String,
}
