//! Columns of the lists of nodes and pools, with the order in which a narrow terminal drops them.

use jiff::Timestamp;

use super::facts::{NodeRow, PoolRow};
use super::figures::{age, bar, bought, dollars, host, text};
use super::sorting::SortKey;

/// Cells of a bar in a row.
const BAR: usize = 5;

/// A column of a list.
pub struct Column<T> {
    pub title: &'static str,
    pub width: u16,
    pub sort: Option<SortKey>,
    /// Columns of a higher rank are dropped first.
    rank: u8,
    pub text: fn(&T, Timestamp) -> String,
}

pub const NODES: [Column<NodeRow>; 11] = [
    Column { title: "NODE", width: 16, sort: Some(SortKey::Name), rank: 0, text: |row, _| host(&row.name) },
    Column { title: "CPU", width: 10, sort: Some(SortKey::Cpu), rank: 1, text: |row, _| bar(row.cpu, BAR) },
    Column { title: "MEMORY", width: 10, sort: Some(SortKey::Memory), rank: 1, text: |row, _| bar(row.memory, BAR) },
    Column {
        title: "PODS",
        width: 7,
        sort: Some(SortKey::Pods),
        rank: 2,
        text: |row, _| format!("{}/{}", row.pods.used, row.pods.of),
    },
    Column { title: "$/H", width: 6, sort: Some(SortKey::Price), rank: 1, text: |row, _| dollars(row.price) },
    Column { title: "TYPE", width: 13, sort: Some(SortKey::Type), rank: 2, text: |row, _| text(&row.instance_type) },
    Column { title: "BOUGHT", width: 9, sort: None, rank: 3, text: |row, _| text(bought(&row.capacity_type)) },
    Column { title: "ZONE", width: 11, sort: Some(SortKey::Zone), rank: 5, text: |row, _| text(&row.zone) },
    Column { title: "POOL", width: 14, sort: Some(SortKey::Pool), rank: 4, text: |row, _| text(&row.pool) },
    Column { title: "AGE", width: 6, sort: Some(SortKey::Age), rank: 3, text: |row, now| age(row.created, now) },
    Column {
        title: "PHASE",
        width: 11,
        sort: Some(SortKey::Phase),
        rank: 1,
        text: |row, _| row.phase.name().to_owned(),
    },
];

pub const POOLS: [Column<PoolRow>; 8] = [
    Column { title: "POOL", width: 16, sort: Some(SortKey::Name), rank: 0, text: |row, _| text(&row.name) },
    Column { title: "NODES", width: 6, sort: Some(SortKey::Pods), rank: 0, text: |row, _| row.nodes.to_string() },
    Column { title: "READY", width: 6, sort: None, rank: 1, text: |row, _| row.ready.to_string() },
    Column { title: "COMING", width: 6, sort: None, rank: 1, text: |row, _| row.coming.to_string() },
    Column { title: "$/H", width: 8, sort: Some(SortKey::Price), rank: 0, text: |row, _| dollars(Some(row.price)) },
    Column { title: "CPU", width: 10, sort: Some(SortKey::Cpu), rank: 2, text: |row, _| bar(row.cpu, BAR) },
    Column { title: "MEMORY", width: 10, sort: Some(SortKey::Memory), rank: 3, text: |row, _| bar(row.memory, BAR) },
    Column { title: "LIMIT", width: 22, sort: None, rank: 2, text: |row, _| limit(row) },
];

/// The nearest limit, or the state of a pool that is not ready.
fn limit(row: &PoolRow) -> String {
    if !row.is_ready {
        return "not Ready".to_owned();
    }
    let Some(limit) = &row.limit else { return "none".to_owned() };
    text(&format!("{} {}", bar(limit.share, BAR), limit.resource))
}

/// The columns that have room in so many characters.
pub fn fitting<T>(columns: &[Column<T>], width: usize) -> Vec<&Column<T>> {
    let mut shown: Vec<&Column<T>> = columns.iter().collect();
    let needed = |shown: &[&Column<T>]| shown.iter().map(|one| usize::from(one.width) + 1).sum::<usize>();
    // Spaces are between columns, and not behind the last.
    while needed(&shown) > width + 1 && shown.len() > 1 {
        let highest = shown.iter().map(|one| one.rank).max().unwrap_or_default();
        let Some(at) = shown.iter().rposition(|one| one.rank == highest) else { break };
        shown.remove(at);
    }
    shown
}
