//! Assignment of a class's pods to nodes: equal pods are told apart only here.

use crate::pack::model::classes::Class;
use crate::pack::model::ids::{ClassId, IndexVec};
use crate::pack::model::numbers::len_of;

/// The pods of the classes, of which each is given away once, in order.
pub(super) struct PodAssigner<'c> {
    next: IndexVec<ClassId, usize>,
    classes: &'c IndexVec<ClassId, Class>,
}

impl<'c> PodAssigner<'c> {
    /// An assigner with all pods still to be assigned.
    pub fn new(classes: &'c IndexVec<ClassId, Class>) -> Self {
        Self { next: IndexVec::from_elem(0, classes.len()), classes }
    }

    /// The next pods of a class: no more than it has left.
    pub fn next_pods(&mut self, class: ClassId, count: u32) -> impl Iterator<Item = usize> + use<'c> {
        let first = self.next[class];
        let end = first + len_of(count);
        self.next[class] = end;
        self.classes[class].pods[first..end].iter().map(|pod| pod.index())
    }
}
