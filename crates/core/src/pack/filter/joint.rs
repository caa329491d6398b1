//! Requirements that pods on one node have to meet together: keys whose value the node leaves open, so that each pod
//! may be content with some value and not all of them with the same.

use rustc_hash::FxHashMap;

use crate::pack::model::bits::Bits;
use crate::pack::model::columns::Columns;
use crate::pack::model::ids::{IndexVec, Interned, JointId};
use crate::requirements::Requirements;

impl JointId {
    /// The empty set: no such requirement.
    pub const NONE: Self = Self::FIRST;
}

/// All sets met so far, and the intersection of each two that were compared.
#[derive(Debug)]
pub(crate) struct Joints {
    sets: Interned<JointId, Requirements>,
    types: IndexVec<JointId, Bits>,
    meets: FxHashMap<(JointId, JointId), Option<JointId>>,
}

impl Joints {
    pub fn new(len: usize) -> Self {
        let mut sets = Interned::default();
        sets.insert(Requirements::new());
        Self { sets, types: vec![Bits::full(len)].into(), meets: FxHashMap::default() }
    }

    pub fn id_of(&mut self, set: Requirements, columns: &Columns<'_>) -> JointId {
        let id = self.sets.insert(set);
        if self.types.get(id).is_none() {
            let mut types = self.types[JointId::NONE].clone();
            for (key, requirement) in self.sets[id].iter() {
                if let Some(column) = columns.get(key) {
                    types.and(&column.select(requirement));
                }
            }
            self.types.push(types);
        }
        id
    }

    /// The types that can satisfy a set.
    pub fn types(&self, id: JointId) -> &Bits {
        &self.types[id]
    }

    /// The intersection of both sets; `None` when they exclude each other.
    pub fn meet(&mut self, a: JointId, b: JointId, columns: &Columns<'_>) -> Option<JointId> {
        let pair = (a.min(b), a.max(b));
        if let Some(known) = self.meets.get(&pair) {
            return *known;
        }
        let (left, right) = (&self.sets[a], &self.sets[b]);
        let met = left.intersects(right).is_ok().then(|| {
            let mut both = left.clone();
            both.intersect(right);
            both
        });
        let met = met.map(|both| self.id_of(both, columns));
        self.meets.insert(pair, met);
        met
    }
}
