//! Kinds of a pool's nodes by its DaemonSets that have no pod there: those that run on all nodes count on each, and one that
//! runs in one zone, on one kind of capacity or by one label of many takes no room on nodes that are pinned otherwise.

use std::cell::{Cell, OnceCell, RefCell};

use rustc_hash::FxHashMap;

use super::classes::Amounts;
use super::ids::PoolId;
use super::pools::{Fit, PoolView};

/// Largest number of kinds of nodes that are told apart beside the pools themselves; on more of them all DaemonSets of the pool
/// count.
const MOST_KINDS: usize = 256;

/// Nodes of a pool on which the same DaemonSets run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NodeKind {
    pub pool: PoolId,
    fit: usize,
}

impl NodeKind {
    /// Nodes of which nothing is known but the pool: each of its DaemonSets may run there.
    pub fn any(pool: PoolId) -> Self {
        Self { pool, fit: pool.index() }
    }
}

/// Room of each kind of nodes for pods, computed when it is first asked for.
#[derive(Debug)]
pub(crate) struct Fits {
    all: Vec<OnceCell<Fit>>,
    /// Kinds by pool and the DaemonSets, as bits, that are absent.
    known: RefCell<FxHashMap<(PoolId, u64), NodeKind>>,
    next: Cell<usize>,
    nothing: Amounts,
}

impl Fits {
    /// No kinds yet beside those of `pools` pools; `nothing` has a zero for each resource.
    pub fn new(pools: usize, nothing: Amounts) -> Self {
        let all = std::iter::repeat_with(OnceCell::new).take(pools + MOST_KINDS).collect();
        Self { all, known: RefCell::default(), next: Cell::new(pools), nothing }
    }

    /// The kind of a pool's nodes on which some DaemonSets, as bits, are absent.
    pub fn kind(&self, pool: PoolId, view: &PoolView, absent: u64) -> NodeKind {
        if absent == 0 {
            return NodeKind::any(pool);
        }
        if let Some(known) = self.known.borrow().get(&(pool, absent)) {
            return *known;
        }
        let next = self.next.get();
        let kind = match self.all.get(next) {
            Some(slot) => {
                slot.get_or_init(|| view.fit(absent, &self.nothing));
                self.next.set(next + 1);
                NodeKind { pool, fit: next }
            }
            // Too many are told apart: less room is assumed than there is.
            None => NodeKind::any(pool),
        };
        self.known.borrow_mut().insert((pool, absent), kind);
        kind
    }

    /// Room for pods on nodes of a kind.
    pub fn fit(&self, kind: NodeKind, view: &PoolView) -> &Fit {
        self.all[kind.fit].get_or_init(|| view.fit(0, &self.nothing))
    }
}
