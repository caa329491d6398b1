//! Requirements that pods on one node have to meet together: keys whose value the node leaves open, so that each pod
//! may be content with some value and not all of them with the same.

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::pack::model::bits::Bits;
use crate::pack::model::columns::Columns;
use crate::requirements::Requirements;

/// A set of such requirements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JointId(u32);

impl JointId {
    /// No such requirement.
    pub const NONE: Self = Self(0);
}

/// All sets met so far, and which two go together.
#[derive(Debug)]
pub(crate) struct Joints {
    sets: IndexSet<Requirements, FxBuildHasher>,
    types: Vec<Bits>,
    meets: FxHashMap<(JointId, JointId), Option<JointId>>,
}

impl Joints {
    pub fn new(len: usize) -> Self {
        let mut sets = IndexSet::default();
        sets.insert(Requirements::new());
        Self { sets, types: vec![Bits::full(len)], meets: FxHashMap::default() }
    }

    /// The id of a set.
    pub fn of(&mut self, set: Requirements, columns: &Columns<'_>) -> JointId {
        let (at, new) = self.sets.insert_full(set);
        if new {
            let mut types = self.types[0].clone();
            for (key, requirement) in self.sets[at].iter() {
                if let Some(column) = columns.get(key) {
                    types.and(&column.select(requirement));
                }
            }
            self.types.push(types);
        }
        JointId(at as u32)
    }

    /// The types that can satisfy a set.
    pub fn types(&self, id: JointId) -> &Bits {
        &self.types[id.0 as usize]
    }

    /// Both sets; `None` when they exclude each other.
    pub fn meet(&mut self, a: JointId, b: JointId, columns: &Columns<'_>) -> Option<JointId> {
        let pair = (a.min(b), a.max(b));
        if let Some(known) = self.meets.get(&pair) {
            return *known;
        }
        let (left, right) = (&self.sets[a.0 as usize], &self.sets[b.0 as usize]);
        let met = left.intersects(right).is_ok().then(|| {
            let mut both = left.clone();
            both.intersect(right);
            both
        });
        let met = met.map(|both| self.of(both, columns));
        self.meets.insert(pair, met);
        met
    }
}
