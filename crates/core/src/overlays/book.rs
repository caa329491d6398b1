//! The overlays of a cluster, and what they have been found to make of its types, as long as neither changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::overlay::WrittenOverlay;
use super::{Overlaid, OverlaidPool, evaluate};

/// Outcomes that are kept: those of the usual types, and of the types of a last resort, before and after a change of pools.
const KEPT: usize = 4;

/// All overlays, by name. A clone shares what has been worked out.
#[derive(Clone, Default)]
pub struct OverlayBook {
    all: Arc<BTreeMap<String, WrittenOverlay>>,
    worked_out: Arc<Mutex<Vec<Worked>>>,
}

/// An outcome, and the pools that it is of.
struct Worked {
    pools: Vec<OverlaidPool>,
    outcome: Arc<Overlaid>,
}

impl fmt::Debug for OverlayBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OverlayBook").field(&self.all).finish()
    }
}

impl OverlayBook {
    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Overlays by name.
    #[must_use]
    pub fn all(&self) -> &BTreeMap<String, WrittenOverlay> {
        &self.all
    }

    /// Keeps an overlay as it is now. Answers true if its meaning has changed: a new status is none.
    pub fn insert(&mut self, overlay: WrittenOverlay) -> bool {
        let name = overlay.object.metadata.name.clone().unwrap_or_default();
        let news = self.all.get(&name).is_none_or(|known| known.read != overlay.read);
        Arc::make_mut(&mut self.all).insert(name, overlay);
        self.forget_if(news)
    }

    /// Forgets an overlay that is gone. Answers true if it was known.
    pub fn remove(&mut self, name: &str) -> bool {
        let news = self.all.contains_key(name);
        if news {
            Arc::make_mut(&mut self.all).remove(name);
        }
        self.forget_if(news)
    }

    /// Keeps only overlays whose name satisfies `keep`. Answers true if any goes.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) -> bool {
        let news = self.all.keys().any(|name| !keep(name));
        if news {
            Arc::make_mut(&mut self.all).retain(|name, _| keep(name));
        }
        self.forget_if(news)
    }

    fn forget_if(&mut self, news: bool) -> bool {
        if news {
            self.worked_out = Arc::default();
        }
        news
    }

    /// The outcome for these pools, which is worked out once.
    #[must_use]
    pub fn outcome(&self, pools: Vec<OverlaidPool>) -> Arc<Overlaid> {
        let mut kept = self.worked_out.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.iter().find(|one| are_same(&one.pools, &pools)) {
            return known.outcome.clone();
        }
        let outcome = Arc::new(evaluate(self.all.iter().map(|(name, one)| (name, &one.read)), &pools));
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push(Worked { pools, outcome: outcome.clone() });
        outcome
    }
}

/// True for the same pools with the same lists of types.
fn are_same(known: &[OverlaidPool], asked: &[OverlaidPool]) -> bool {
    let same = |(a, b): (&OverlaidPool, &OverlaidPool)| {
        Arc::ptr_eq(&a.types, &b.types) && a.name == b.name && a.labels == b.labels
    };
    known.len() == asked.len() && known.iter().zip(asked).all(same)
}
