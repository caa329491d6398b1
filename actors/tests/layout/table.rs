//! The table at the head of `wiring`.

use std::collections::BTreeSet;

/// One row: each of the senders sends each of the messages, and each of the takers takes it.
#[derive(Debug)]
pub struct Row {
    /// Senders.
    pub from: BTreeSet<String>,
    /// Messages.
    pub messages: BTreeSet<String>,
    /// Recipients.
    pub to: BTreeSet<String>,
}

/// The names between backticks.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The rows of the table in a text.
pub fn rows(text: &str) -> Vec<Row> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("//! |")).skip(2);
    let cells = lines.map(|line| line.trim_end_matches('|').split('|').map(names).collect::<Vec<_>>());
    let row = |cells: Vec<BTreeSet<String>>| {
        let [from, messages, to] = cells.try_into().unwrap_or_else(|cells| panic!("not three cells: {cells:?}"));
        Row { from, messages, to }
    };
    cells.map(row).collect()
}

#[test]
fn a_row_is_read() {
    let text = "//! | from | message | to |\n//! |---|---|---|\n//! | `a`, `b` (why) | `M`, `N` | `c` |\n//! end\n";
    let set = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<BTreeSet<_>>();
    let rows = rows(text);
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0].from, &rows[0].messages), (&set(&["a", "b"]), &set(&["M", "N"])));
    assert_eq!(rows[0].to, set(&["c"]));
}
