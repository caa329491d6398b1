//! The room that bodies and their answers take in memory. Small bodies have a room of their own. One address has half of it at
//! most, and the one place beyond it while nobody else does.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{BODY_MOST, SMALL_MOST};

/// Room for all small bodies together, beside the last; bytes.
const SMALL_ROOM: usize = 6 << 20;
/// Room for all large bodies together, beside the last; bytes.
const LARGE_ROOM: usize = 2 << 20;
/// Room for the small bodies of one address together; bytes.
const OF_ONE_ADDRESS: usize = SMALL_ROOM / 2;
/// Most bytes taken at once: a part of a body is a buffer.
const PART_MOST: usize = SMALL_MOST;

/// A body of up to 2 MiB, or a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyKind {
    Small,
    Large,
}

/// A room that is shared, and one place beyond it: without it several bodies could wait for each other, each with a part of
/// the room.
#[derive(Clone)]
struct SharedRoom {
    room: Arc<Semaphore>,
    last: Arc<Semaphore>,
}

impl SharedRoom {
    fn with_bytes(size: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(size)), last: Arc::new(Semaphore::new(1)) }
    }
}

/// The rooms of all bodies.
pub(super) struct Rooms {
    small: SharedRoom,
    large: SharedRoom,
    /// By address, while it has a body here.
    of_addresses: RefCell<BTreeMap<IpAddr, Weak<Semaphore>>>,
}

impl Default for Rooms {
    fn default() -> Self {
        const { assert!(LARGE_ROOM < BODY_MOST && OF_ONE_ADDRESS > SMALL_MOST) };
        Self {
            small: SharedRoom::with_bytes(SMALL_ROOM),
            large: SharedRoom::with_bytes(LARGE_ROOM),
            of_addresses: RefCell::default(),
        }
    }
}

impl Rooms {
    /// A body begins. It takes no room yet.
    pub(super) fn enter(&self, peer: IpAddr, kind: BodyKind) -> Room {
        let (shared, of_address) = match kind {
            BodyKind::Small => (self.small.clone(), Some(self.of_address(peer))),
            BodyKind::Large => (self.large.clone(), None),
        };
        Room { shared, of_address, taken: Vec::new() }
    }

    fn of_address(&self, peer: IpAddr) -> SharedRoom {
        let mut all = self.of_addresses.borrow_mut();
        all.retain(|_, room| room.strong_count() > 0);
        let known = all.get(&peer).and_then(Weak::upgrade);
        let room = known.unwrap_or_else(|| Arc::new(Semaphore::new(OF_ONE_ADDRESS)));
        all.insert(peer, Arc::downgrade(&room));
        SharedRoom { room, last: self.small.last.clone() }
    }
}

/// The room that a body takes, until it is given back.
pub(super) struct Room {
    shared: SharedRoom,
    of_address: Option<SharedRoom>,
    taken: Vec<OwnedSemaphorePermit>,
}

impl Room {
    /// Waits for room for some more bytes of a body. Who has the last place has room for all.
    pub(super) async fn grow(&mut self, size: usize) {
        for room in self.of_address.iter().chain([&self.shared]) {
            if self.taken.last().is_some_and(|one| Arc::ptr_eq(one.semaphore(), &room.last)) {
                return;
            }
            let size = u32::try_from(size.min(PART_MOST)).unwrap_or(u32::MAX);
            let taken = tokio::select! {
                biased;
                taken = room.room.clone().acquire_many_owned(size) => taken,
                taken = room.last.clone().acquire_owned() => taken,
            };
            // Neither is ever closed.
            let Ok(taken) = taken else { return };
            match self.taken.iter_mut().find(|one| Arc::ptr_eq(one.semaphore(), taken.semaphore())) {
                Some(own) => own.merge(taken),
                None => self.taken.push(taken),
            }
        }
    }
}
