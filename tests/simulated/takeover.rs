//! A leader that goes in the middle of its work, through the binary: its successor finishes or gives up what is half
//! done, from the API server and EC2 alone. Nothing is lost, nothing is there twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::played;
use played::{Played, play};

/// More than are launched at the same time, so that some are under way and some have not begun whenever the leader goes.
const PODS: u32 = 30;

fn nothing_lost_nothing_twice(played: &Played) {
    assert_eq!(played.report["pods"]["bound"], PODS, "{}", played.name);
    let twice: Vec<_> = played.log_events("launched").iter().map(|line| line["node_claim"].clone()).collect();
    assert_eq!(played.report["launched"], PODS, "{}: {} launched stories", played.name, twice.len());
    assert_eq!(played.report["nodes"].as_array().unwrap().len(), PODS as usize, "{}", played.name);
    played.came_out_well();
}

/// The burst lasts from the first NodeClaim at 2 s to the last launch at about 8 s.
fn moments() -> impl Iterator<Item = u32> {
    (1500..=9000).step_by(1500)
}

#[test]
fn a_leader_killed_in_mid_burst_is_succeeded_by_one_of_two() {
    for at in moments() {
        let steps = format!("replicas: 2\nsteps: [{{at: {at}ms, kill: {{replica: leader, for: 60s}}}}]\nuntil: 10m\n");
        nothing_lost_nothing_twice(&play(&format!("killed-{at}-of-2"), PODS, &steps));
    }
}

#[test]
fn two_leaders_killed_in_a_row_are_succeeded_by_the_third() {
    for at in moments() {
        let second = at + 21_000;
        let steps = format!(
            "replicas: 3\nsteps:\n  - {{at: {at}ms, kill: {{replica: leader}}}}\n  - {{at: {second}ms, kill: {{replica: leader}}}}\nuntil: 10m\n"
        );
        nothing_lost_nothing_twice(&play(&format!("killed-{at}-of-3"), PODS, &steps));
    }
}

#[test]
fn leader_paused_beyond_its_lease_goes_on_without_harm() {
    for at in moments() {
        let steps = format!("replicas: 2\nsteps: [{{at: {at}ms, pause: {{replica: leader, for: 40s}}}}]\nuntil: 10m\n");
        nothing_lost_nothing_twice(&play(&format!("paused-{at}"), PODS, &steps));
    }
}

#[test]
fn leader_cut_off_in_mid_burst_gives_way_without_duplicates() {
    for (at, direction) in moments().zip(["in", "out", "both"].into_iter().cycle()) {
        let cut = format!("partition: {{replica: leader, from: [apiServer], direction: {direction}, for: 60s}}");
        let steps = format!("replicas: 2\nsteps: [{{at: {at}ms, {cut}}}]\nuntil: 10m\n");
        nothing_lost_nothing_twice(&play(&format!("cut-off-{at}-{direction}"), PODS, &steps));
    }
}

#[test]
fn killed_leaders_work_is_finished_despite_faults_at_both_ends() {
    for at in moments() {
        let faults = "faults: {apiServer: {errorRate: 0.1, latency: 20ms}, ec2: {errorRate: 0.2, throttleRate: 0.1}}";
        let steps = format!(
            "replicas: 3\n{faults}\nsteps: [{{at: {at}ms, kill: {{replica: leader, for: 30s}}}}]\nuntil: 30m\n"
        );
        let played = play(&format!("killed-{at}-with-faults"), PODS, &steps);
        assert_eq!(played.report["pods"]["bound"], PODS);
        assert_eq!(played.report["nodes"].as_array().unwrap().len(), PODS as usize);
        played.came_out_well();
    }
}
