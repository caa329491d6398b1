//! Items that ask for the same are one shape, whatever class they come from.

use rustc_hash::FxHashMap;

use super::super::bits::Bits;
use super::super::classes::Amounts;
use super::super::context::Context;
use super::super::item::Item;
use super::super::joint::JointId;
use super::super::offers::Mask;

/// Pods that ask for the same.
#[derive(Debug)]
pub(super) struct Shape {
    pub requests: Amounts,
    pub types: Bits,
    pub cells: Mask,
    pub joint: JointId,
    pub count: u32,
    /// Their items, in order.
    pub items: Vec<usize>,
}

/// All shapes, in the order of their first item.
#[derive(Debug)]
pub(super) struct Shapes {
    pub all: Vec<Shape>,
}

impl Shapes {
    pub fn of(context: &Context<'_>, open: &Bits, items: &[Item<'_>]) -> Self {
        let mut all: Vec<Shape> = Vec::new();
        let mut known: FxHashMap<(&Amounts, &Bits, Mask, JointId), usize> = FxHashMap::default();
        for (at, item) in items.iter().enumerate() {
            let requests = &context.classes[item.class as usize].requests;
            let selection = item.selection;
            let key = (requests, &selection.types, selection.cells, selection.joint);
            let types = || {
                let mut types = selection.types.clone();
                types.and(open);
                types
            };
            let shape = *known.entry(key).or_insert_with(|| {
                all.push(Shape {
                    requests: requests.clone(),
                    types: types(),
                    cells: selection.cells,
                    joint: selection.joint,
                    count: 0,
                    items: vec![],
                });
                all.len() - 1
            });
            all[shape].count += item.left;
            all[shape].items.push(at);
        }
        Self { all }
    }

    pub fn counts(&self) -> Vec<u32> {
        self.all.iter().map(|shape| shape.count).collect()
    }
}
