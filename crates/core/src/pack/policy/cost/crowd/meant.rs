//! For which nodes pods are meant, and whose turn it is while one is filled.

use crate::pack::model::ids::{BundleId, IndexVec};

/// What of each bundle is meant for nodes of a type, as a part of it.
#[derive(Debug, Clone)]
pub(super) struct Meant {
    /// For the next of them.
    pub node: IndexVec<BundleId, f64>,
    /// For all that are still to come.
    pub all: IndexVec<BundleId, f64>,
}

/// Whose pods a node is filled with, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Crowded ones first: what this node does not take of them no other node can take beside its own.
    ItsCrowded,
    Its,
    ItsLikes,
    Anybodys,
}

impl Whose {
    /// Whose turn is next.
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
    /// How much of a bundle may be taken.
    pub fn left(&self, whose: Whose, bundle: BundleId, crowded: bool) -> f64 {
        match whose {
            Whose::ItsCrowded if !crowded => 0.0,
            Whose::ItsCrowded | Whose::Its => self.node[bundle],
            Whose::ItsLikes => self.all[bundle],
            Whose::Anybodys => f64::INFINITY,
        }
    }
}
