//! The disruptor's commands: nothing is launched in the stead of nodes that cannot be held, and what was begun is taken back.

use dovetail_actors::messages::{HoldClaims, LaunchClaims, PlanClaims, Wrote};
use dovetail_sandbox::apiserver::{NODE_CLAIMS, NODES};

use super::disruptor::{go_on, nodes, removed, start, under_used, with_pool};
use crate::alone::Alone;
use crate::alone::objects::node_name;
use crate::alone::wire::Refuses;

/// Two nodes, of which one would do.
fn two(bench: &Alone) {
    nodes(bench, 2);
    bench.pod("web-1", Some(1));
    bench.pod("web-2", Some(2));
}

fn is_tainted(bench: &Alone, number: u64) -> bool {
    let node = bench.api.get(&NODES, "", &node_name(number)).unwrap();
    node["spec"]["taints"].to_string().contains("karpenter.sh/disrupted")
}

fn given_up(bench: &Alone) -> Vec<String> {
    let all = bench.heard.all::<Wrote>();
    let name = |one: &std::rc::Rc<Wrote>| match &**one {
        Wrote::NotMade(name) => Some(name.clone()),
        _ => None,
    };
    all.iter().filter_map(name).collect()
}

#[test]
fn refused_hold_launches_nothing_and_frees_the_nodes() {
    for (refuses, path) in [
        (Refuses::Validation, "/nodeclaims/default-1/status"),
        (Refuses::Webhook, "/nodeclaims/default-2/status"),
        (Refuses::Webhook, "/nodes/"),
    ] {
        with_pool(under_used(), async |bench| {
            let actor = start(&bench);
            two(&bench);
            refuses.begin(&bench.wire, "PATCH", path);
            refuses.begin(&bench.wire, "PUT", path);
            go_on(&bench, &actor, 900).await;
            assert_eq!((bench.heard.count::<LaunchClaims>(), removed(&bench)), (0, vec![]), "{refuses:?} {path}");
            let undone = bench.told.count("disruption_undone");
            assert!((1..=20).contains(&undone), "{refuses:?} {path}: {undone} commands in a quarter of an hour");
            let planned: usize = bench.heard.all::<PlanClaims>().iter().map(|plan| plan.claims.len()).sum();
            assert_eq!(given_up(&bench).len(), planned, "{refuses:?} {path}: what was planned is no room");
            let holds = bench.heard.all::<HoldClaims>();
            let (held, freed): (Vec<_>, Vec<_>) = holds.iter().partition(|hold| hold.held);
            assert_eq!(held.len(), freed.len(), "{refuses:?} {path}");
        });
    }
}

#[test]
fn once_claims_can_be_held_again_the_command_is_found_anew() {
    with_pool(under_used(), async |bench| {
        let actor = start(&bench);
        two(&bench);
        Refuses::Validation.begin(&bench.wire, "PATCH", "/nodeclaims/default-1/status");
        go_on(&bench, &actor, 300).await;
        bench.wire.heal();
        go_on(&bench, &actor, 900).await;
        assert!(bench.heard.count::<LaunchClaims>() >= 1, "{:?}", bench.told.lines());
        assert!(is_tainted(&bench, 1) && is_tainted(&bench, 2), "nothing new comes to them");
    });
}

#[test]
fn claim_gone_before_its_replacement_ends_the_command() {
    with_pool(under_used(), async |bench| {
        let actor = start(&bench);
        two(&bench);
        go_on(&bench, &actor, 900).await;
        assert_eq!(bench.heard.count::<LaunchClaims>(), 1, "{:?}", bench.told.lines());
        // The launches of the replacements fail for good.
        let orders = bench.heard.last::<LaunchClaims>();
        let name = orders.orders[0].claim.metadata.name.clone().unwrap();
        bench.heard.cluster(|state| state.delete_claim(&name, None));
        go_on(&bench, &actor, 1200).await;
        assert!(bench.told.count("disruption_undone") >= 1, "{:?}", bench.told.lines());
        assert_eq!(removed(&bench), [], "nothing goes without what was to come in its stead");
        assert!(bench.is_there(&NODE_CLAIMS, "default-1") && bench.is_there(&NODE_CLAIMS, "default-2"));
    });
}
