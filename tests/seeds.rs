//! Random scenarios, through the binary: kills, pauses, partitions, errors, missing capacity, interruptions and scaling
//! drawn from seeds, and no invariant violated. `cargo xtask proof seeds` plays 100,000.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::{arg, dovetail, json, python, root, scratch, stderr, stdout};

/// Seeds that are played in every test. Broken variants are found by files (tests/simulated/broken.rs), not by these.
const SEEDS: &str = "1..50";
/// Seeds of a day, beside those: others each day, so that breadth grows with every run.
const SEEDS_A_DAY: i64 = 50;
/// First seed of the days: below it are those that files of tests were drawn by.
const FIRST_OF_DAYS: i64 = 200_000;

/// Plays seeds, of which none may violate an invariant or leave a pod behind; answers how many instances they launched.
fn play_seeds(seeds: &str) -> u64 {
    let output = dovetail(&["simulate", "--random", "--seeds", seeds, "--json"]);
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(0), "{seeds}: {:#}\n{}", summary["failed"], stderr(&output));
    summary["launched"].as_u64().unwrap()
}

#[test]
fn no_seed_violates_an_invariant_or_leaves_a_pod_behind() {
    assert!(play_seeds(SEEDS) > 300, "there was something to do");
}

/// `DOVETAIL_SEEDS_DAY=2026-11-28` plays those of another day again.
#[test]
#[allow(clippy::disallowed_methods)] // today is the real day
fn no_seed_of_today_violates_an_invariant() {
    let day = std::env::var("DOVETAIL_SEEDS_DAY").map_or_else(
        |_| jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date(),
        |day| day.parse::<jiff::civil::Date>().expect("a day, such as 2026-11-28"),
    );
    let days = day.since(jiff::civil::date(2026, 1, 1)).unwrap().get_days();
    let first = FIRST_OF_DAYS + i64::from(days) * SEEDS_A_DAY;
    println!("seeds {first}..{} of {day}", first + SEEDS_A_DAY - 1);
    assert!(play_seeds(&format!("{first}..{}", first + SEEDS_A_DAY - 1)) > 100, "there was something to do");
}

/// Plays the files of a seed beyond these that has found something. What a number draws may change, files do not.
fn comes_out_well(seed: &str) {
    let output = dovetail(&["simulate", &format!("tests/simulation/scenarios/seeds/{seed}/scenario.yaml"), "--json"]);
    // Exit 0: nobody is left behind either.
    let violations = json(&output, 0)["invariants"]["violations"].clone();
    assert_eq!(violations, serde_json::json!([]), "seed {seed}");
}

/// The same, where so many pods have no room, and each has been told so.
fn comes_out_with_pending(seed: &str, count: usize, why: &str) {
    let output = dovetail(&["simulate", &format!("tests/simulation/scenarios/seeds/{seed}/scenario.yaml"), "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["invariants"]["violations"], serde_json::json!([]), "seed {seed}");
    let pending = report["pods"]["pending"].as_object().unwrap();
    assert!(pending.values().all(|told| told.as_str().unwrap().contains(why)), "{pending:#?}");
    assert_eq!(pending.len(), count, "seed {seed}");
}

/// The same, with everything that happened, JSON Lines.
fn comes_out_well_with_events(seed: &str) -> String {
    let (scenario, events) =
        (format!("tests/simulation/scenarios/seeds/{seed}/scenario.yaml"), format!("{seed}.jsonl"));
    let events = scratch(&events);
    let report = json(&dovetail(&["simulate", &scenario, "--json", "--events", arg(&events)]), 0);
    assert_eq!(report["invariants"]["violations"], serde_json::json!([]), "seed {seed}");
    std::fs::read_to_string(events).unwrap()
}

#[test]
fn claim_lost_during_a_replica_pause_is_not_written_to_forever() {
    comes_out_well("1196");
}

/// Lists were empty, so that a claim was launched for twice; then it was lost, and what it had was rightly braked for ten
/// minutes.
#[test]
fn two_instances_of_a_claim_that_was_lost_wait_for_the_operator() {
    comes_out_well("4795");
}

/// More launches were taken over while lists were empty than may be collected at once: an operator had to look.
#[test]
fn many_doubly_launched_claims_wait_for_the_operator() {
    comes_out_well("19506");
    comes_out_well("21677");
}

/// The leader that had collected four was gone when they had long ended; its successor collected two more.
#[test]
fn leader_change_does_not_widen_the_collection_bound() {
    comes_out_well("13981");
    // Its first listing was empty, and no claim said that it was wrong.
    comes_out_well("25070");
    // Two of the five had their claims again, out of a backup of the API server.
    comes_out_well("73563");
}

/// The API server was restored to when another led, who slept or had been started anew, and took its old Lease at once.
#[test]
fn no_term_is_given_out_twice_where_the_lease_is_restored() {
    comes_out_well("1609");
    comes_out_well("1708");
    comes_out_well("5050");
}

/// An operator deleted the claim while its node was let in.
#[test]
fn a_node_that_is_let_in_while_its_claim_is_deleted_is_drained() {
    let events = comes_out_well_with_events("1230");
    assert!(
        events.contains("\"change\":\"evicted\"") && !events.contains("\"change\":\"lost\""),
        "pods went with their node"
    );
}

/// A creation was done late, after its claim had been deleted: that was taken for the end of the second, which nobody then
/// knew, and for which the next term waited.
#[test]
fn claim_reusing_the_name_of_a_gone_one_is_another_claim() {
    comes_out_with_pending("794", 9, "limit of 2 cpu reached");
}

/// The first request for a claim was held on its way for half a minute; the second had made it, and it had gone again.
#[test]
fn what_a_creation_makes_after_its_claim_has_gone_is_taken_back() {
    for seed in ["1115", "1360"] {
        assert!(comes_out_well_with_events(seed).contains("created_late"), "seed {seed}");
    }
}

#[test]
fn pod_a_backup_puts_on_an_ended_instance_counts_against_nobody() {
    comes_out_well("22531");
}

/// Two pods of an ordered StatefulSet waited at once, and each was planned for with the same ones to come.
#[test]
fn the_pods_to_come_of_a_stateful_set_are_planned_for_once() {
    comes_out_well("25564");
}

/// The API server was away for eight seconds, and its backup was from a second before a new leader's first write, of which
/// the other replica had not heard.
#[test]
fn a_backup_from_just_before_a_new_leader_gives_no_term_twice() {
    comes_out_well("34055");
}

/// The API server had lost a NodeClaim without a trace, which its watches still had: its instance was kept for it.
#[test]
fn what_only_a_watch_still_has_keeps_no_instance() {
    comes_out_well("7978");
}

/// EC2 throttled, and the Node of a NodeClaim that was being deleted was shown while its instance waited to be ended.
#[test]
fn no_instance_is_ended_past_its_node() {
    comes_out_well("10267");
}

/// A Node became ready between the write of its registration and the answer to it.
#[test]
fn a_node_that_becomes_ready_while_it_registers_is_initialized() {
    comes_out_well("11491");
}

/// All spot was sold out, and one CreateFleet in six said nothing: each held the pod on its claim for six minutes.
#[test]
fn pod_finds_another_pool_where_some_launches_say_nothing() {
    comes_out_well("346");
}

#[test]
fn a_new_leader_puts_pods_where_the_one_before_had_planned_them() {
    comes_out_well("35131");
    comes_out_well("42227");
}

#[test]
fn late_claims_of_an_earlier_leader_are_taken_back_if_unneeded() {
    // Creations of a leader that was killed are held for half a minute, and done while its successor's Lease is gone.
    let events = comes_out_well_with_events("16368");
    let all = |parts: [&str; 3]| events.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count();
    let late = all(["\"resource\":\"nodeclaims\"", "\"verb\":\"create\"", "\"answerLost\":true"]);
    let taken_back = |reason: &str| all(["\"actor\":\"launcher\"", "\"nodeclaim_deleted\"", reason]);
    // Those that come while the pool is at its limit go for that.
    let (unneeded, beyond) = (taken_back("\"reason\":\"unneeded\""), taken_back("\"reason\":\"limits\""));
    assert_eq!((late, unneeded + beyond), (4, 4));
    assert!(unneeded > 0, "none is taken back as nobody needs it");
}

/// After a restore the watch of pods was back before that of claims: a leader launched above the limit for pods whose claims it
/// was about to see.
#[test]
fn nothing_is_launched_by_half_of_what_there_is() {
    comes_out_with_pending("30109", 6, "limit of 25 cpu reached");
}

/// A claim was created, which nobody answered, and lost; its creation was repeated beside the claim that had followed.
#[test]
fn a_claim_that_has_come_and_gone_is_not_created_again() {
    comes_out_well("1499");
}

/// Pods that had to leave a node were planned anew on the place of others, whose successors were about to come.
#[test]
fn the_place_of_a_pod_that_has_just_gone_is_its_successors() {
    comes_out_well("1749");
}

/// The API server was restored just as a claim's node registered: the claim says so, and the Node was gone.
#[test]
fn pods_do_not_wait_for_a_claim_whose_node_is_gone() {
    comes_out_well("12893");
}

/// A zone was sold out, which only a preference asked for, while nodes of the pool were on trial: each round of refusals
/// took half a minute, and what the first had taught was forgotten before the last.
#[test]
fn a_sold_out_zone_that_is_only_preferred_holds_up_no_trial() {
    comes_out_well("11833");
}

/// A zone was sold out that a pod had rather be in, and EC2 was throttled: what it had refused first was forgotten before
/// all of it was refused.
#[test]
fn a_pod_does_not_insist_on_a_zone_that_is_sold_out() {
    comes_out_well("97604");
}

/// Watches are ten seconds late: pods that were bound before the node was tainted were not known when it was called drained.
#[test]
fn a_node_is_drained_when_the_api_server_shows_nobody_on_it() {
    comes_out_well("12454");
}

/// A new leader packed pods of a node that had to go before one that had waited for longer, and gave them the claim that was on
/// its way for it.
#[test]
fn pod_that_waited_under_another_leader_keeps_its_coming_node() {
    comes_out_well("26350");
}

/// A creation that nobody answered was done after its claim had come and gone; a budget was asked before its controller had
/// seen that its workload has grown, or has less; a new leader knows less of claims that it took over than who made them.
#[test]
fn what_nobody_can_know_yet_is_held_against_nobody() {
    comes_out_well("13673");
    comes_out_well("14450");
    comes_out_well("18605");
    comes_out_well("22735");
    comes_out_well("25709");
    // Pods went, by their owner's will, from a node that had to go already.
    comes_out_well("29138");
    comes_out_well("30506");
}

/// Watches are late: a pod goes and its node is interrupted before anybody here has heard of it, and what has been deleted is
/// shown as it was for five seconds.
#[test]
fn late_watches_cause_no_excess_or_repeated_requests() {
    let events = comes_out_well_with_events("6453");
    let calls = events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let deletions = calls.filter(|one| one["kind"] == "api" && one["resource"] == "nodes" && one["verb"] == "delete");
    let count = deletions.count();
    assert!((1..=5).contains(&count), "{count} calls to delete one Node, of which some are answered by errors");
}

/// The only replica was cut off while its pods were placed, and led again before its watch told it so.
#[test]
fn leader_cut_off_launches_for_no_pod_placed_meanwhile() {
    comes_out_well("70446");
}

#[test]
fn the_audit_agrees_with_what_random_scenarios_report() {
    for seed in ["3", "11", "19"] {
        let (folder, events) = (scratch(&format!("audit-{seed}")), scratch(&format!("audit-{seed}.jsonl")));
        dovetail(&["simulate", "--random", "--seeds", seed, "--out", arg(&folder)]);
        let scenario = folder.join(format!("seed-{seed}/scenario.yaml"));
        let output = dovetail(&["simulate", arg(&scenario), "--json", "--events", arg(&events)]);
        let saved = scratch(&format!("audit-{seed}.report.json"));
        std::fs::write(&saved, &output.stdout).unwrap();
        let audit = python(&["tests/simulation/audit.py", arg(&events), arg(&saved)]);
        assert!(audit.status.success(), "seed {seed}: {}{}", stdout(&audit), stderr(&audit));
    }
}

#[test]
fn a_seed_replays_exactly_by_its_number_and_by_its_files() {
    let folder = scratch("replayed");
    let [by_number, by_files] = ["number", "files"].map(|name| scratch(&format!("replayed-{name}.jsonl")));
    let args = ["simulate", "--random", "--seeds", "8", "--out", arg(&folder), "--events", arg(&by_number)];
    assert_eq!(dovetail(&args).status.code(), Some(0));
    let scenario = folder.join("seed-8/scenario.yaml");
    json(&dovetail(&["simulate", arg(&scenario), "--json", "--events", arg(&by_files)]), 0);
    let (one, two) = (std::fs::read(by_number).unwrap(), std::fs::read(by_files).unwrap());
    assert!(one.len() > 10_000 && one == two, "two runs of one seed differ");
}

/// Without `biased` a `select!` draws its branch from the process's random state, and a seed takes another course in some
/// runs in a hundred: too few for the test above.
#[test]
fn every_select_takes_its_branches_in_their_order() {
    let (mut selects, mut drawn) = (0, Vec::new());
    for path in ["src", "actors", "crates"].into_iter().flat_map(sources) {
        let text = std::fs::read_to_string(&path).unwrap();
        for (at, _) in text.match_indices("select!") {
            selects += 1;
            let body = text[at + "select!".len()..].trim_start().trim_start_matches(['{', '(', '[']).trim_start();
            if !body.starts_with("biased;") {
                drawn.push(format!("{}:{}", path.display(), text[..at].lines().count()));
            }
        }
    }
    assert!(selects >= 10, "looked at the wrong place: {selects}");
    assert_eq!(drawn, [""; 0]);
}

/// The Rust files below a folder.
fn sources(folder: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(kind) if kind == "rs" => found.push(path),
                _ => {}
            }
        }
    }
    found
}

#[test]
fn a_scenario_that_fails_is_cut_down_to_what_it_fails_by() {
    let folder = scratch("shrunk");
    let args = ["simulate", "--random", "--seeds", "1", "--out", arg(&folder), "--break", "no-token", "--shrink"];
    let output = dovetail(&args);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("INV-11") && stdout(&output).contains("shrunk from"), "{}", stdout(&output));
    let shrunk = folder.join("seed-1/shrunk.yaml");
    let text = std::fs::read_to_string(&shrunk).unwrap();
    // Every launch goes out under a token of its own: it takes no fault to find that.
    assert!(text.contains("steps: []") && !text.contains("errorRate"), "{text}");
    let broken = dovetail(&["simulate", arg(&shrunk), "--json", "--break", "no-token"]);
    assert!(stdout(&broken).contains("INV-11"));
    let whole = dovetail(&["simulate", arg(&shrunk), "--shrink"]);
    assert_eq!((whole.status.code(), stdout(&whole).contains("nothing to shrink")), (Some(0), true));
}

#[test]
fn what_cannot_be_played_is_said() {
    for args in [
        vec!["simulate", "--random", "--seeds", "9..1"],
        vec!["simulate", "--random", "--seeds", "many"],
        vec!["simulate", "--random", "--seeds", "1..2", "--events", "x.jsonl"],
        vec!["simulate", "--random", "scenario.yaml"],
        vec!["simulate", "--seeds", "1"],
        vec!["simulate"],
    ] {
        let output = dovetail(&args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}
