//! Ids of packing: places in its lists. A place in one list is none in another, so each list has an id of its own, and
//! only that id reads it. Ids are made and read here alone.
//!
//! Say class 3 is looked up among the pools by mistake. With bare integers that finds a pool, and the plan is wrong without
//! a sign. `pools[class]` does not compile, as [`IndexVec<PoolId, PoolView>`](IndexVec) takes no [`ClassId`].

use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use indexmap::{Equivalent, IndexSet};
use rustc_hash::FxBuildHasher;

use crate::instance_type::InstanceType;
use crate::pod::Pod;
use crate::problem::ExistingNode;

/// A place in one kind of list.
pub(crate) trait Id: Copy {
    fn from_index(index: usize) -> Self;

    /// The place as an index into a slice.
    fn place(self) -> usize;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) struct $name(u32);

        #[allow(dead_code)] // every id has the same functions, whichever of them it needs
        impl $name {
            /// The first place: comes before every other.
            pub const FIRST: Self = Self(0);
            /// An id after every other, which is in no list.
            pub const LAST: Self = Self(u32::MAX);

            /// The place as an index into a slice.
            #[inline]
            pub fn index(self) -> usize {
                // No platform that Dovetail runs on has a `usize` of less than 32 bits.
                self.0 as usize
            }

            /// The ids of a list of `count` things, in order.
            pub fn all(count: usize) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator + Clone {
                (0..count).map(Self::from)
            }
        }

        impl From<usize> for $name {
            #[inline]
            fn from(index: usize) -> Self {
                // A list of 2^32 things does not fit into memory beside what it is about: the id loses nothing.
                debug_assert!(u32::try_from(index).is_ok());
                Self(index as u32)
            }
        }

        impl Id for $name {
            #[inline]
            fn from_index(index: usize) -> Self {
                Self::from(index)
            }

            #[inline]
            fn place(self) -> usize {
                self.index()
            }
        }
    };
}

id! {
    /// A pod of the problem.
    PodId
}

id! {
    /// A node that there is, in the problem's order; for consolidation those launched since come after them.
    NodeId
}

id! {
    /// An instance type of the problem.
    InstanceTypeId
}

id! {
    /// A class of equal pods, in the order in which classes are placed.
    ClassId
}

id! {
    /// A pool in the order in which pools are tried: the first is the heaviest.
    PoolId
}

id! {
    /// A distinct set of requirements that pods have on a node.
    SetId
}

id! {
    /// One of a class's alternatives, which are tried in order: the later, the less of what its pods prefer is left.
    TierId
}

id! {
    /// A bin: one combination of the domains of rules over zones and other labels in which a node can be.
    BinId
}

id! {
    /// A rule between pods.
    GroupId
}

id! {
    /// A label key over which rules between pods go, the node's name apart.
    KeyId
}

id! {
    /// A value of such a key, as a zone is one of the zone's key.
    DomainId
}

id! {
    /// Distinct rules for what one node may hold; the first are none at all.
    NodeRulesId
}

id! {
    /// Requirements that the pods of a node meet together; the first are none.
    JointId
}

id! {
    /// One way of buying, as zone, capacity type and further labels: a bit of a [`Mask`](super::offers::Mask).
    OfferingId
}

id! {
    /// A distinct statement of instance types on one label key.
    StatementId
}

id! {
    /// A volume that several pods use.
    VolumeId
}

id! {
    /// A shape of pods, and the row that it has in the linear program.
    ShapeId
}

id! {
    /// A bundle of pods, which is a shape to the candidates that may carry it.
    BundleId
}

/// A list that only its own kind of id reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexVec<I, T> {
    all: Vec<T>,
    of: PhantomData<I>,
}

impl<I, T> Default for IndexVec<I, T> {
    fn default() -> Self {
        Self { all: vec![], of: PhantomData }
    }
}

impl<I: Id, T> IndexVec<I, T> {
    pub fn new() -> Self {
        Self::default()
    }

    /// A list of `count` clones of a value.
    pub fn from_elem(value: T, count: usize) -> Self
    where
        T: Clone,
    {
        vec![value; count].into()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds a value at the end; returns its id.
    pub fn push(&mut self, value: T) -> I {
        self.all.push(value);
        I::from_index(self.all.len() - 1)
    }

    pub fn get(&self, id: I) -> Option<&T> {
        self.all.get(id.place())
    }

    pub fn last(&self) -> Option<&T> {
        self.all.last()
    }

    /// All ids, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + Clone + use<I, T> {
        (0..self.all.len()).map(I::from_index)
    }

    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.all.iter()
    }

    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.all.iter_mut()
    }

    /// Each value with its id.
    pub fn enumerate(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator + Clone {
        self.all.iter().enumerate().map(|(at, one)| (I::from_index(at), one))
    }

    /// The id of the first value for which `is` holds.
    pub fn position(&self, is: impl FnMut(&T) -> bool) -> Option<I> {
        self.all.iter().position(is).map(I::from_index)
    }

    pub fn fill(&mut self, value: T)
    where
        T: Clone,
    {
        self.all.fill(value);
    }

    pub fn as_slice(&self) -> &[T] {
        &self.all
    }
}

impl<I, T> From<Vec<T>> for IndexVec<I, T> {
    fn from(all: Vec<T>) -> Self {
        Self { all, of: PhantomData }
    }
}

impl<I: Id, T> Index<I> for IndexVec<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.all[id.place()]
    }
}

impl<I: Id, T> IndexMut<I> for IndexVec<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.all[id.place()]
    }
}

impl<I, T> FromIterator<T> for IndexVec<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(all: A) -> Self {
        Vec::from_iter(all).into()
    }
}

impl<I, T> IntoIterator for IndexVec<I, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

impl<'v, I, T> IntoIterator for &'v IndexVec<I, T> {
    type Item = &'v T;
    type IntoIter = std::slice::Iter<'v, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

impl<'v, I, T> IntoIterator for &'v mut IndexVec<I, T> {
    type Item = &'v mut T;
    type IntoIter = std::slice::IterMut<'v, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter_mut()
    }
}

/// Distinct values, each by the id that it got when it came first.
#[derive(Debug, Clone)]
pub(crate) struct Interned<I, T> {
    all: IndexSet<T, FxBuildHasher>,
    of: PhantomData<I>,
}

impl<I, T> Default for Interned<I, T> {
    fn default() -> Self {
        Self { all: IndexSet::default(), of: PhantomData }
    }
}

impl<I: Id, T: Hash + Eq> Interned<I, T> {
    /// The id of a value, which is added if it is not known yet.
    pub fn insert(&mut self, value: T) -> I {
        I::from_index(self.all.insert_full(value).0)
    }

    pub fn id_of<Q: Hash + Equivalent<T> + ?Sized>(&self, value: &Q) -> Option<I> {
        self.all.get_index_of(value).map(I::from_index)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All ids, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + Clone + use<I, T> {
        (0..self.all.len()).map(I::from_index)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> + Clone {
        self.all.iter()
    }

    /// Each value with its id.
    pub fn enumerate(&self) -> impl Iterator<Item = (I, &T)> + Clone {
        self.all.iter().enumerate().map(|(at, one)| (I::from_index(at), one))
    }
}

impl<I: Id, T> Index<I> for Interned<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.all[id.place()]
    }
}

impl Index<PodId> for Vec<Pod> {
    type Output = Pod;

    fn index(&self, id: PodId) -> &Pod {
        &self.as_slice()[id.index()]
    }
}

impl Index<NodeId> for Vec<ExistingNode> {
    type Output = ExistingNode;

    fn index(&self, id: NodeId) -> &ExistingNode {
        &self.as_slice()[id.index()]
    }
}

impl Index<InstanceTypeId> for Vec<Arc<InstanceType>> {
    type Output = Arc<InstanceType>;

    fn index(&self, id: InstanceTypeId) -> &Arc<InstanceType> {
        &self.as_slice()[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_by_the_ids_that_it_gave() {
        let mut list: IndexVec<PoolId, &str> = IndexVec::new();
        let (first, second) = (list.push("a"), list.push("b"));
        assert_eq!((list[first], list[second]), ("a", "b"));
        assert_eq!(list.enumerate().map(|(id, _)| id).collect::<Vec<_>>(), [first, second]);
        assert_eq!(list.get(PoolId::LAST), None);
    }

    #[test]
    fn a_value_keeps_the_id_that_it_got_first() {
        let mut known: Interned<SetId, String> = Interned::default();
        let (a, b) = (known.insert("a".to_owned()), known.insert("b".to_owned()));
        assert_eq!(known.insert("a".to_owned()), a);
        assert_eq!((known.id_of("b"), known.id_of("c")), (Some(b), None));
    }
}
