//! Orders of nodes and pools.

use std::cmp::Ordering;

use super::facts::{NodeRow, PoolRow, Share};

/// Columns that nodes and pools are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortKey {
    #[default]
    Name,
    Cpu,
    Memory,
    Pods,
    Price,
    Type,
    Pool,
    Zone,
    Age,
    Phase,
}

impl SortKey {
    const ALL: [Self; 10] = [
        Self::Name,
        Self::Cpu,
        Self::Memory,
        Self::Pods,
        Self::Price,
        Self::Type,
        Self::Pool,
        Self::Zone,
        Self::Age,
        Self::Phase,
    ];

    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|one| *one == self).unwrap_or_default();
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pods => "pods",
            Self::Price => "price",
            Self::Type => "type",
            Self::Pool => "pool",
            Self::Zone => "zone",
            Self::Age => "age",
            Self::Phase => "phase",
        }
    }

    pub fn order_nodes(self, one: &NodeRow, other: &NodeRow) -> Ordering {
        let ratio = |share: Share| share.ratio().unwrap_or(-1.0);
        match self {
            Self::Name => one.name.cmp(&other.name),
            Self::Cpu => ratio(one.cpu).total_cmp(&ratio(other.cpu)),
            Self::Memory => ratio(one.memory).total_cmp(&ratio(other.memory)),
            Self::Pods => one.pods.used.cmp(&other.pods.used),
            Self::Price => one.price.unwrap_or(-1.0).total_cmp(&other.price.unwrap_or(-1.0)),
            Self::Type => one.instance_type.cmp(&other.instance_type),
            Self::Pool => one.pool.cmp(&other.pool),
            Self::Zone => one.zone.cmp(&other.zone),
            // The oldest has the largest age.
            Self::Age => other.created.cmp(&one.created),
            Self::Phase => one.phase.cmp(&other.phase),
        }
    }

    pub fn order_pools(self, one: &PoolRow, other: &PoolRow) -> Ordering {
        let ratio = |share: Share| share.ratio().unwrap_or(-1.0);
        match self {
            Self::Cpu => ratio(one.cpu).total_cmp(&ratio(other.cpu)),
            Self::Memory => ratio(one.memory).total_cmp(&ratio(other.memory)),
            Self::Price => one.price.total_cmp(&other.price),
            Self::Pods | Self::Age | Self::Phase => one.nodes.cmp(&other.nodes),
            Self::Name | Self::Type | Self::Pool | Self::Zone => one.name.cmp(&other.name),
        }
    }
}
