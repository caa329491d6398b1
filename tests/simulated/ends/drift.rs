//! Nodes that are no longer what their pool and class ask for are replaced, within budgets and places first; nodes that still
//! are what is asked for stay. Each scenario is run by the binary, and its report is checked against its events by the audit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::played;

use std::collections::BTreeSet;

use played::{Played, at, play_kept};

impl Played {
    /// The most claims that were going at once: asked to, and their instance not ending yet.
    fn most_at_once(&self) -> usize {
        let mut changes: Vec<(f64, i32)> = self.removed().values().map(|t| (*t, 1)).collect();
        let ends = self.events.iter().filter(|event| event["kind"] == "instance" && event["change"] == "shutting-down");
        changes.extend(ends.map(|event| (at(event), -1)));
        changes.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let going = changes.iter().scan(0, |going, (_, by)| {
            *going += by;
            Some(*going)
        });
        usize::try_from(going.max().unwrap_or(0)).unwrap()
    }

    fn all_twelve_bound(&self) {
        assert_eq!(self.report["pods"]["pending"], serde_json::json!({}));
        assert_eq!(self.report["pods"]["bound"], 12);
    }

    /// Every pod that was sent away was missed for a few seconds, as its place was there.
    fn nobody_is_missed_for_long(&self) {
        let number = |field: &str| self.report["downtime"][field].as_f64().unwrap();
        let (missed, evicted) = (number("podSeconds"), number("evicted"));
        assert!(evicted >= 12.0 && missed <= 4.0 * evicted, "{evicted} pods were missed for {missed} s together");
        assert!(self.log_events("places_given_up").is_empty());
    }

    fn reasons(&self) -> BTreeSet<&str> {
        self.log_events("drifted").into_iter().map(|line| line["reason"].as_str().unwrap()).collect()
    }
}

#[test]
fn changed_template_replaces_every_node_within_the_budget() {
    let run = play_kept("drift-label", &[]);
    run.all_twelve_bound();
    let removed = run.removed();
    assert_eq!(removed.len(), 12, "each node once");
    assert!(removed.values().all(|t| *t > 300.0), "{removed:?}");
    // A quarter of twelve is three; with three replacements there it is a quarter of fifteen, rounded up.
    assert!(run.most_at_once() <= 4, "{}", run.most_at_once());
    run.nobody_is_missed_for_long();
    assert_eq!(run.reasons(), BTreeSet::from(["NodePoolDrifted"]));
    assert!(run.log_events("disrupting").iter().all(|line| line["reason"] == "drifted"));
    for node in run.report["nodes"].as_array().unwrap() {
        assert_eq!(node["labels"]["release"], "two", "{node}");
    }
}

#[test]
fn narrower_requirements_nodes_still_meet_replace_nothing() {
    let run = play_kept("drift-none", &[]);
    run.all_twelve_bound();
    assert_eq!((run.removed().len(), run.log_events("drifted").len()), (0, 0));
    assert_eq!(run.report["launched"], 12);
}

#[test]
fn new_image_replaces_every_node_and_warns_also_by_a_successor() {
    let run = play_kept("drift-image", &[]);
    run.all_twelve_bound();
    assert_eq!(run.removed().len(), 12);
    assert!(run.most_at_once() <= 4, "{}", run.most_at_once());
    run.nobody_is_missed_for_long();
    assert_eq!(run.reasons(), BTreeSet::from(["AMIDrift"]));
    let warned = run.log_events("unpinned_image");
    assert!((1..=2).contains(&warned.len()), "once a leader: {warned:?}");
    assert_eq!(warned[0]["node_class"], "large");
    let leaders: BTreeSet<i64> =
        run.log_events("disrupting").iter().map(|line| line["replica"].as_i64().unwrap()).collect();
    assert_eq!(leaders.len(), 2, "both have replaced some");
}

#[test]
fn sold_out_replacements_keep_drifted_nodes_and_tries_get_fewer() {
    let run = play_kept("drift-sold-out", &[]);
    run.all_twelve_bound();
    // Claims of replacements that EC2 had nothing for are deleted; no node is.
    assert!(run.log_events("removing").is_empty(), "{:?}", run.log_events("removing"));
    assert_eq!(run.report["downtime"]["evicted"], 0);
    let off = run.log_events("replacement_off");
    let pauses: Vec<i64> = off.iter().map(|line| line["pause_seconds"].as_i64().unwrap()).collect();
    assert!(pauses.first() == Some(&120) && pauses.is_sorted() && pauses.last() > pauses.first(), "{pauses:?}");
}
