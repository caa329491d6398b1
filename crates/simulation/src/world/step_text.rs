//! A scenario's steps in words, as the timeline has them.

use std::fmt;
use std::time::Duration;

use dovetail_sandbox::faults::Direction;

use super::Odd;
use super::actions::{Action, ReplicaRef};
use super::kinds::CLUSTER_WIDE;

impl fmt::Display for ReplicaRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "replica {number}"),
            Self::Leader => write!(f, "the leader"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale { kind, namespace, name, replicas } => {
                write!(f, "scale {kind} {namespace}/{name} to {replicas}")
            }
            Self::Resize { names, requests } => {
                let amounts: Vec<String> = requests.iter().map(|(name, amount)| format!("{name} {amount}")).collect();
                write!(f, "resize pods called {names} to {}", amounts.join(", "))
            }
            Self::Delete { kind, namespace, name } if CLUSTER_WIDE.contains(&kind.as_str()) || namespace.is_empty() => {
                write!(f, "delete {kind} {name}")
            }
            Self::Delete { kind, namespace, name } => write!(f, "delete {kind} {namespace}/{name}"),
            Self::DeleteSome { kind, count } => write!(f, "delete {} {kind} objects", most(*count)),
            Self::Apply { files } => write!(f, "apply {}", files.join(", ")),
            Self::InterruptSpot { share } => write!(f, "interrupt {}% of the spot instances", share * 100.0),
            Self::InterruptNode { node } => write!(f, "interrupt node {node}"),
            Self::InterruptPool { pool, .. } => write!(f, "interrupt the spot instances of {pool}"),
            Self::Message { .. } => write!(f, "send a message to the interruption queue"),
            Self::Kill { replica, duration } => write!(f, "kill {replica}{}", span(*duration)),
            Self::Pause { replica, duration } => write!(f, "pause {replica}{}", span(*duration)),
            Self::Partition { replica, from, direction, duration } => {
                let way = way_of(*direction);
                let from: Vec<String> = from.iter().map(|service| format!("{service:?}")).collect();
                write!(f, "cut {replica} off from {}{way}{}", from.join(", "), span(*duration))
            }
            Self::Lose { kind, count } => write!(f, "lose {} {kind} objects", most(*count)),
            Self::Spoil { kind, names, count, odd, duration } => {
                let how = match odd {
                    Odd::Unreadable(_) => "make unreadable",
                    Odd::ManagedFields => "write odd managedFields on",
                };
                write!(f, "{how} {} {kind} objects called {names}{}", most(*count), span(*duration))
            }
            Self::Unwell { condition, count, skip, duration, until_reboot, .. } => {
                let after = if *skip == 0 { String::new() } else { format!(" after the first {skip}") };
                let until = if *until_reboot { " until they are rebooted" } else { "" };
                let (most, span) = (most(*count), span(*duration));
                write!(f, "make {condition} False on {most} nodes{after}{until}{span}")
            }
            Self::EmptyLists { duration } => write!(f, "let EC2 list no instances{}", span(*duration)),
            Self::ForeignInstances { count } => write!(f, "launch {count} instances of another cluster"),
            Self::AllowCollection { duration } => write!(f, "allow the collection{}", span(Some(*duration))),
            Self::LookAfterCollection { duration } => write!(f, "look after the collection{}", span(Some(*duration))),
            Self::Restart { duration } => write!(f, "restart the API server{}", span(Some(*duration))),
            Self::SlowWatches { by, duration } => write!(f, "slow watches by {by:?}{}", span(*duration)),
            Self::HoldWrites { replica, by, duration } => {
                write!(f, "hold what {replica} writes by {by:?}{}", span(*duration))
            }
            Self::Snapshot => write!(f, "back up the API server"),
            Self::Restore { of, duration } => {
                write!(f, "restore the API server as it was at {of:?}{}", span(Some(*duration)))
            }
            Self::TakeReserved { .. }
            | Self::ResizeReserved { .. }
            | Self::Others { .. }
            | Self::ZoneDown { .. }
            | Self::ZonalShift { .. } => self.fmt_of_account(f),
        }
    }
}

impl Action {
    /// Text of what happens to the account and its zones; none of anything else.
    fn fmt_of_account(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TakeReserved { id, count } => write!(f, "let others take {count} instances of reservation {id}"),
            Self::ResizeReserved { id, count: 0 } => write!(f, "cancel reservation {id}"),
            Self::ResizeReserved { id, count } => write!(f, "give reservation {id} {count} instances"),
            Self::Others { instance_type, zone, count } => {
                write!(f, "let others run {count} instances of {instance_type} in {zone}")
            }
            Self::ZoneDown { zone, duration } => write!(f, "take zone {zone} down{}", span(*duration)),
            Self::ZonalShift { zone, duration } => write!(f, "shift away from zone {zone}{}", span(*duration)),
            _ => Ok(()),
        }
    }
}

fn way_of(direction: Direction) -> &'static str {
    match direction {
        Direction::Both => "",
        Direction::In => ", inbound",
        Direction::Out => ", outbound",
    }
}

fn most(count: Option<usize>) -> String {
    count.map_or_else(|| "all".to_owned(), |count| format!("{count}"))
}

fn span(duration: Option<Duration>) -> String {
    duration.map_or_else(String::new, |time| format!(" for {time:?}"))
}
