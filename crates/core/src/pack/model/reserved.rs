//! Reserved capacity: it is paid for already, so it comes before anything that is bought, and every planned node of it
//! takes one instance of its reservation, until none is left (spec core 3.12).

use super::bits::Bits;
use super::context::Context;
use super::ids::{IndexVec, PoolId};
use super::item::Item;
use super::offers::{Mask, Offers, Reservation};
use super::options::enough_values;
use crate::instance_type::is_marked;
use crate::pack::limits::LimitsLeft;
use crate::pack::place::planned_node::PlannedNode;

/// Instances that are left of each reservation while packing, whichever pool uses it.
#[derive(Debug, Clone)]
pub(crate) struct Reservations {
    all: Vec<Reservation>,
    /// The offering bits without those of reservations that are used up.
    open: Mask,
}

/// Bounds on new nodes: the pools' limits, and the offering bits that are left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room<'p> {
    pub limits: &'p IndexVec<PoolId, LimitsLeft>,
    pub open: Mask,
}

impl Reservations {
    pub fn new(offers: &Offers) -> Self {
        Self { all: offers.reservations.clone(), open: offers.all() }
    }

    /// The offering bits without those of reservations that are used up.
    pub fn open(&self) -> Mask {
        self.open
    }

    /// True if any reservation has no instance left for a node that could use one.
    pub fn are_short(&self) -> bool {
        self.all.iter().any(|one| one.left == Some(0))
    }

    /// Closes offering bits: nothing more is planned in them.
    pub fn close(&mut self, offering_bits: Mask) {
        self.open &= !offering_bits;
    }

    /// Settles the reservation of a planned node, and takes an instance of it: the one whose instance type costs least. Where
    /// the pool's `minValues` ask for more types than that, it holds every reservation that would do, so that whichever it gets
    /// is there. `None` when nothing is left for it.
    pub fn hold(&mut self, context: &Context<'_>, planned: &PlannedNode) -> Option<PlannedNode> {
        let held = self.narrowed(context, planned)?;
        for one in self.all.iter_mut().filter(|one| one.offering_bits & held.offering_bits != 0) {
            one.left = one.left.map(|left| left.saturating_sub(1));
            if one.left == Some(0) {
                self.open &= !one.offering_bits;
            }
        }
        Some(held)
    }

    fn narrowed(&self, context: &Context<'_>, planned: &PlannedNode) -> Option<PlannedNode> {
        let offering_bits = planned.offering_bits & self.open & context.offers.reserved;
        let bought = context.bought(offering_bits);
        let first = bought.order.iter().find(|at| planned.types.has(**at))?;
        let (_, cheapest) = context.offers.cheapest(*first, offering_bits);
        [cheapest.bit(), offering_bits].into_iter().find_map(|offering_bits| {
            let mut types: Bits = planned.types.clone();
            types.and(&context.bought(offering_bits).types);
            let enough = !types.is_empty() && enough_values(context, planned.pool, &types, offering_bits);
            enough.then(|| planned.narrowed(types, offering_bits))
        })
    }

    /// Lowers the pods left of each item to what the rest of the reservations could carry of it.
    pub fn bound(&self, context: &Context<'_>, pool: PoolId, items: &mut [Item<'_>]) {
        for item in items {
            let requests = &context.classes[item.class].requests;
            let kind = item.kind(context, pool);
            let carried = |one: &Reservation| {
                let Some(left) = one.left else { return u32::MAX };
                let types = context.bought(one.offering_bits);
                let each = types.order.iter().map(|at| {
                    let room = context.room(kind, *at).iter().zip(requests);
                    room.filter(|(_, asked)| **asked > 0).map(|(have, asked)| have / asked).min().unwrap_or(0)
                });
                left.saturating_mul(u32::try_from(each.max().unwrap_or(0)).unwrap_or(0))
            };
            let usable = self.all.iter().filter(|one| one.offering_bits & item.offering_bits & self.open != 0);
            item.left.bound(usable.map(carried).fold(0, u32::saturating_add));
        }
    }

    /// Describes the reservations of these offering bits that are used up; `None` if there are none.
    pub fn describe(&self, offering_bits: Mask) -> Option<String> {
        let used = self.all.iter().filter(|one| one.left == Some(0) && one.offering_bits & offering_bits != 0);
        // Capacity of which commitments cover no more can be bought nevertheless.
        let used = used.filter(|one| !is_marked(&one.id));
        let named: Vec<&str> = used.map(|one| if one.id.is_empty() { "without an id" } else { &one.id }).collect();
        let noun = if named.len() == 1 { "capacity reservation" } else { "capacity reservations" };
        (!named.is_empty()).then(|| format!("nothing is left of {noun} {}", named.join(", ")))
    }
}

/// Parts to try one after the other: reserved capacity, then what is bought.
pub(crate) fn in_order(offers: &Offers, offering_bits: Mask) -> impl Iterator<Item = Mask> + use<> {
    [offering_bits & offers.reserved, offering_bits & !offers.reserved].into_iter().filter(|part| *part != 0)
}
