//! Choice of the connections that are kept where more come than there are places for. A new one is always let in: whoever has
//! been idle for longest goes for it, so that connections on which nobody says anything keep nobody out.
//!
//! | who comes | places | the one that goes |
//! |---|---|---|
//! | this machine (`127.0.0.1`, `::1`) | [`RESERVED`] of its own | its longest idle |
//! | the node (`HOST_IP`), whose kubelet probes | [`RESERVED`] of its own | its longest idle |
//! | anybody else, up to [`OF_ONE`] | [`OF_OTHERS`] together | the longest idle of whoever has most |
//! | anybody else, beyond that | | its own longest idle |

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Connections of all others together.
pub const OF_OTHERS: usize = 64;
/// Connections of one address.
pub const OF_ONE: usize = 8;
/// Connections of this machine, and of the node.
pub const RESERVED: usize = 16;

/// Bounds on the number of connections.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// All connections of others than this machine and the node together.
    pub of_others: usize,
    /// Connections of one address.
    pub of_one: usize,
    /// Connections of this machine, and as many of the node.
    pub reserved: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { of_others: OF_OTHERS, of_one: OF_ONE, reserved: RESERVED }
    }
}

/// Open connections. Pure: the time comes from outside.
#[derive(Debug, Default)]
pub struct ConnectionPlaces {
    bounds: Bounds,
    /// The node's address, where it is known.
    node: Option<IpAddr>,
    open: BTreeMap<u64, Connection>,
    next: u64,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    kind: Kind,
    /// Time at which a byte last passed.
    moved: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Machine,
    Node,
    Other,
}

impl ConnectionPlaces {
    /// No connections.
    pub fn new(node: Option<IpAddr>) -> Self {
        Self::within(node, Bounds::default())
    }

    /// Places with other bounds.
    pub fn within(node: Option<IpAddr>, bounds: Bounds) -> Self {
        Self { bounds, node: node.map(|address| address.to_canonical()), ..Self::default() }
    }

    /// Lets a connection in. Its number, and the number of the one that goes for it, if one has to.
    pub fn admit(&mut self, peer: IpAddr, now: Duration) -> (u64, Option<u64>) {
        let peer = peer.to_canonical();
        let kind = self.kind(peer);
        let goes = self.goes(peer, kind);
        if let Some(goes) = goes {
            self.open.remove(&goes);
        }
        let number = self.next;
        self.next += 1;
        self.open.insert(number, Connection { peer, kind, moved: now });
        (number, goes)
    }

    /// A byte has passed.
    pub fn moved(&mut self, number: u64, now: Duration) {
        if let Some(connection) = self.open.get_mut(&number) {
            connection.moved = now;
        }
    }

    /// Time at which a byte last passed; `None` when it is not connected any more.
    pub fn last_moved(&self, number: u64) -> Option<Duration> {
        self.open.get(&number).map(|connection| connection.moved)
    }

    /// Removes a connection that has ended.
    pub fn leave(&mut self, number: u64) {
        self.open.remove(&number);
    }

    fn kind(&self, peer: IpAddr) -> Kind {
        if peer == IpAddr::from(Ipv4Addr::LOCALHOST) || peer == IpAddr::from(Ipv6Addr::LOCALHOST) {
            return Kind::Machine;
        }
        if self.node == Some(peer) { Kind::Node } else { Kind::Other }
    }

    fn goes(&self, peer: IpAddr, kind: Kind) -> Option<u64> {
        let alike = || self.open.iter().filter(move |(_, one)| one.kind == kind);
        let longest_idle = |of: IpAddr| alike().filter(|(_, one)| one.peer == of).min_by_key(|(_, one)| one.moved);
        if kind != Kind::Other {
            return (alike().count() >= self.bounds.reserved)
                .then(|| longest_idle(peer))
                .flatten()
                .map(|(number, _)| *number);
        }
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        alike().for_each(|(_, one)| *counts.entry(one.peer).or_default() += 1);
        if counts.get(&peer).is_some_and(|own| *own >= self.bounds.of_one) {
            return longest_idle(peer).map(|(number, _)| *number);
        }
        let most = counts.values().copied().max().filter(|_| alike().count() >= self.bounds.of_others)?;
        let those = alike().filter(|(_, one)| counts.get(&one.peer) == Some(&most));
        those.min_by_key(|(_, one)| one.moved).map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn who_holds_many_connections_loses_its_own_and_nobody_elses() {
        let mut places = ConnectionPlaces::new(None);
        let (probe, _) = places.admit(address(1), at(0));
        let own: Vec<u64> = (0..OF_ONE).map(|n| places.admit(address(2), at(1 + n as u64)).0).collect();
        for more in 0..1000 {
            let (_, goes) = places.admit(address(2), at(100 + more));
            assert!(goes.is_some_and(|goes| goes != probe), "{more}");
        }
        assert_eq!(places.last_moved(probe), Some(at(0)));
        assert!(own.iter().all(|gone| places.last_moved(*gone).is_none()), "the oldest went first");
    }

    #[test]
    fn newcomer_displaces_longest_idle_connection_of_busiest_peer() {
        let mut places = ConnectionPlaces::new(None);
        let all: Vec<u64> = (0..OF_OTHERS).map(|n| places.admit(address((n / 4) as u8), at(n as u64)).0).collect();
        // The first has said something since.
        places.moved(all[0], at(900));
        let (probe, goes) = places.admit(address(200), at(901));
        assert_eq!(goes, Some(all[1]));
        for more in 0..300 {
            let (_, goes) = places.admit(address((more % 100) as u8), at(902));
            assert_ne!(goes, Some(probe), "one of one is not taken while others have two");
            if places.open.values().all(|one| places.open.values().filter(|two| two.peer == one.peer).count() < 2) {
                break;
            }
        }
        assert!(places.open.len() <= OF_OTHERS);
    }

    #[test]
    fn this_machine_and_the_node_have_places_that_nobody_else_takes() {
        let node = address(9);
        let mut places = ConnectionPlaces::new(Some("::ffff:10.0.0.9".parse().unwrap()));
        let (own, _) = places.admit(Ipv4Addr::LOCALHOST.into(), at(0));
        let (kubelet, _) = places.admit(node, at(0));
        for n in 0..5000_u32 {
            places.admit(IpAddr::V4(Ipv4Addr::from(0x0a01_0000 + n)), at(1));
        }
        assert_eq!((places.last_moved(own), places.last_moved(kubelet)), (Some(at(0)), Some(at(0))));
        assert_eq!(places.open.len(), OF_OTHERS + 2);
        // The node's longest idle connection goes for its new one.
        for n in 0..RESERVED as u64 {
            places.admit(node, at(2 + n));
        }
        assert_eq!(places.last_moved(kubelet), None);
        assert_eq!(places.open.len(), OF_OTHERS + 1 + RESERVED);
        places.leave(own);
        assert_eq!(places.last_moved(own), None);
    }
}
