//! Places in packing's lists. A place in one list is none in another, so each has its type; they are made and read here alone.

use std::ops::{Index, IndexMut};

use indexmap::IndexSet;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) struct $name(u32);

        impl $name {
            /// As the list is indexed.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// Those of a list of so many, in order.
            pub fn all(count: usize) -> impl Iterator<Item = Self> {
                (0..count).map(Self::from)
            }
        }

        impl From<usize> for $name {
            fn from(index: usize) -> Self {
                Self(index as u32)
            }
        }

        impl<T> Index<$name> for [T] {
            type Output = T;

            fn index(&self, at: $name) -> &T {
                &self[at.index()]
            }
        }

        impl<T> IndexMut<$name> for [T] {
            fn index_mut(&mut self, at: $name) -> &mut T {
                &mut self[at.index()]
            }
        }

        impl<T> Index<$name> for Vec<T> {
            type Output = T;

            fn index(&self, at: $name) -> &T {
                &self.as_slice()[at.index()]
            }
        }

        impl<T> IndexMut<$name> for Vec<T> {
            fn index_mut(&mut self, at: $name) -> &mut T {
                &mut self.as_mut_slice()[at.index()]
            }
        }

        impl<T, S> Index<$name> for IndexSet<T, S> {
            type Output = T;

            fn index(&self, at: $name) -> &T {
                &self[at.index()]
            }
        }
    };
}

id! {
    /// A rule between pods, by its place among all of them.
    GroupId
}

id! {
    /// A value of a key over which rules go, such as a zone, by its place among that key's values.
    DomainId
}

impl DomainId {
    /// No other comes before it.
    pub const FIRST: Self = Self(0);
    /// No other comes after it.
    pub const LAST: Self = Self(u32::MAX);
}
