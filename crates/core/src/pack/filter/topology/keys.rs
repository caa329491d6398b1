//! Which label keys over which rules go a class asks for.

use crate::pack::model::ids::KeyId;

/// A set of zonal keys; there are at most [`super::MOST_KEYS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KeySet(u32);

impl KeySet {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn has(self, key: KeyId) -> bool {
        self.0 >> key.index() & 1 == 1
    }

    pub fn insert(&mut self, key: KeyId) {
        self.0 |= 1 << key.index();
    }
}
