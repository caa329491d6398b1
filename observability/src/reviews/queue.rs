//! Order of the answers: addresses take turns, and large bodies keep no small one waiting.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::ops::Bound;

use super::rooms::BodyKind;

/// Reviews that wait, of all addresses together and of one.
const WAITING_MOST: usize = 256;
const OF_ONE_MOST: usize = 128;

/// Reviews that wait for a worker. Pure.
pub(super) struct ReviewQueue<T> {
    waiting: BTreeMap<IpAddr, VecDeque<(BodyKind, T)>>,
    many: usize,
    /// Address whose review was taken last.
    last: Option<IpAddr>,
}

impl<T> Default for ReviewQueue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), many: 0, last: None }
    }
}

impl<T> ReviewQueue<T> {
    /// Lets a review wait, or gives it back where too many do.
    pub(super) fn push(&mut self, peer: IpAddr, kind: BodyKind, review: T) -> Result<(), T> {
        let own = self.waiting.get(&peer).map_or(0, VecDeque::len);
        if self.many >= WAITING_MOST || own >= OF_ONE_MOST {
            return Err(review);
        }
        self.waiting.entry(peer).or_default().push_back((kind, review));
        self.many += 1;
        Ok(())
    }

    /// The oldest review of the address whose turn it is; with `small_only` large ones stay.
    pub(super) fn pop(&mut self, small_only: bool) -> Option<T> {
        let fits = |kind: BodyKind| !small_only || kind == BodyKind::Small;
        let has = |(peer, own): (&IpAddr, &VecDeque<(BodyKind, T)>)| {
            own.iter().position(|(kind, _)| fits(*kind)).map(|at| (*peer, at))
        };
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.waiting.range((after, Bound::Unbounded)).find_map(has);
        let (peer, at) = next.or_else(|| self.waiting.iter().find_map(has))?;
        let own = self.waiting.get_mut(&peer)?;
        let (_, review) = own.remove(at)?;
        if own.is_empty() {
            self.waiting.remove(&peer);
        }
        self.many -= 1;
        self.last = Some(peer);
        Some(review)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn addresses_take_turns_however_much_one_asks() {
        let mut queue = ReviewQueue::default();
        for n in 0..OF_ONE_MOST {
            queue.push(peer(1), BodyKind::Small, (1, n)).unwrap();
        }
        assert_eq!(queue.push(peer(1), BodyKind::Small, (1, 999)), Err((1, 999)));
        queue.push(peer(2), BodyKind::Small, (2, 0)).unwrap();
        queue.push(peer(3), BodyKind::Small, (3, 0)).unwrap();
        let first: Vec<_> = (0..5).filter_map(|_| queue.pop(false)).collect();
        assert_eq!(first, [(1, 0), (2, 0), (3, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn large_review_waits_for_its_worker_alone() {
        let mut queue = ReviewQueue::default();
        for (kind, name) in [(BodyKind::Large, "one"), (BodyKind::Large, "two"), (BodyKind::Small, "three")] {
            queue.push(peer(1), kind, name).unwrap();
        }
        assert_eq!((queue.pop(true), queue.pop(true)), (Some("three"), None));
        assert_eq!((queue.pop(false), queue.pop(false), queue.pop(false)), (Some("one"), Some("two"), None));
        assert!(queue.waiting.is_empty() && queue.many == 0);
    }
}
