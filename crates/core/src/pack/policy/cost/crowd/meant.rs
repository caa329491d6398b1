//! Parts of bundles that are meant for nodes, and turns in which pods fill one.

use crate::pack::model::ids::{BundleId, IndexVec};

/// Parts of each bundle that are meant for nodes of a type.
#[derive(Debug, Clone)]
pub(super) struct Meant {
    /// Parts for the next of them.
    pub node: IndexVec<BundleId, f64>,
    /// Parts for all that are still to come.
    pub all: IndexVec<BundleId, f64>,
}

/// Turns in which a node is filled, by the pods that may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Crowded ones first: what this node does not take of them no other node can take beside its own.
    ItsCrowded,
    Its,
    ItsLikes,
    Anybodys,
}

impl Whose {
    /// The next turn.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::ItsCrowded => Some(Self::Its),
            Self::Its => Some(Self::ItsLikes),
            Self::ItsLikes => Some(Self::Anybodys),
            Self::Anybodys => None,
        }
    }
}

impl Meant {
    /// The part of a bundle that may be taken.
    pub fn left(&self, whose: Whose, bundle: BundleId, crowded: bool) -> f64 {
        match whose {
            Whose::ItsCrowded if !crowded => 0.0,
            Whose::ItsCrowded | Whose::Its => self.node[bundle],
            Whose::ItsLikes => self.all[bundle],
            Whose::Anybodys => f64::INFINITY,
        }
    }
}
