//! The registrar after registration: instances get their tags, one that cannot be tagged keeps no other waiting, and what is not
//! reserved any more is said not to be.

use std::collections::BTreeMap;

use actix::prelude::*;
use dovetail_actors::messages::ClaimChanged;
use dovetail_actors::registrar::Registrar;
use dovetail_sandbox::apiserver::{NODE_CLAIMS, NODES};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::registrar::{show, start};
use crate::alone::objects::{id, node_name};
use crate::alone::wire::Refuses;
use crate::alone::{Alone, Fails, alone};
use crate::world::cloud::Launched;

/// Claims whose nodes work, and whose instances have no tags of ours but those of their launch.
fn working(bench: &Alone, actor: &Addr<Registrar>, count: u64) {
    for number in 1..=count {
        let claim = bench.launched(&format!("default-{number}"), number, &["Launched", "Registered", "Initialized"]);
        bench.working(number);
        actor.do_send(ClaimChanged(claim.clone()));
        actor.do_send(bench.marks(&claim, number));
        show(bench, actor, number);
    }
}

/// True if a claim says that its instance is tagged.
fn says_tagged(bench: &Alone, number: u64) -> bool {
    let claim = bench.claim_now(&format!("default-{number}"));
    claim.annotations().get("karpenter.k8s.aws/tagged").is_some_and(|says| says == "true")
}

/// Time passes, and the watch shows the claims as they stand.
async fn go_on(bench: &Alone, actor: &Addr<Registrar>, count: u64, seconds: u32) {
    for _ in 0..seconds {
        bench.pass(1.0).await;
        (1..=count).for_each(|number| show(bench, actor, number));
    }
}

#[test]
fn instance_is_tagged_once_its_node_is_known() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        go_on(&bench, &actor, 1, 300).await;
        let asked = bench.sky.asked("tag");
        assert_eq!(asked.len(), 1, "{asked:?}");
        for part in [id(1), node_name(1), "karpenter.sh/nodeclaim".into(), "default-1".into(), "demo".into()] {
            assert!(asked[0].contains(&part), "{part}: {asked:?}");
        }
        assert!(says_tagged(&bench, 1));
    });
}

#[test]
fn denied_tagging_is_retried_less_often_and_reported_once() {
    alone(|bench| async move {
        bench.sky.always("tag", Some(Fails::Never));
        let actor = start(&bench);
        working(&bench, &actor, 3);
        bench.pass(3600.0).await;
        let asked = bench.sky.count("tag");
        assert!((3 * 7..=3 * 16).contains(&asked), "{asked} calls for three instances in an hour");
        assert_eq!(bench.told.count("retrying"), 1, "{:?}", bench.told.lines());
        bench.sky.always("tag", None);
        go_on(&bench, &actor, 3, 920).await;
        assert!((1..=3).all(|number| says_tagged(&bench, number)));
    });
}

#[test]
fn one_that_cannot_be_tagged_keeps_no_other_waiting() {
    alone(|bench| async move {
        bench.sky.next("tag", [Fails::Throttled]);
        let actor = start(&bench);
        working(&bench, &actor, 3);
        go_on(&bench, &actor, 3, 12).await;
        assert_eq!((1..=3).filter(|number| says_tagged(&bench, *number)).count(), 2);
        go_on(&bench, &actor, 3, 20).await;
        assert!((1..=3).all(|number| says_tagged(&bench, number)));
        assert_eq!(bench.sky.count("tag"), 4);
    });
}

#[test]
fn no_instance_is_tagged_while_describes_fail() {
    alone(|bench| async move {
        bench.sky.always("instances_of", Some(Fails::Throttled));
        let actor = start(&bench);
        working(&bench, &actor, 2);
        bench.pass(3600.0).await;
        let looks = bench.sky.count("instances_of");
        assert!((5..=16).contains(&looks), "{looks} looks in an hour");
        assert_eq!((bench.sky.count("tag"), bench.told.count("retrying")), (0, 1), "{:?}", bench.told.lines());
        bench.sky.always("instances_of", None);
        go_on(&bench, &actor, 2, 920).await;
        assert!(says_tagged(&bench, 1) && says_tagged(&bench, 2));
    });
}

#[test]
fn refused_note_of_tagging_costs_ever_fewer_calls() {
    for refuses in [Refuses::Webhook, Refuses::Validation] {
        alone(|bench| async move {
            let actor = start(&bench);
            working(&bench, &actor, 2);
            refuses.begin(&bench.wire, "PATCH", "/nodeclaims/default-1");
            go_on(&bench, &actor, 2, 1800).await;
            assert!(!says_tagged(&bench, 1) && says_tagged(&bench, 2), "{refuses:?}");
            let asked = bench.sky.asked("tag").iter().filter(|one| one.contains(&id(1))).count();
            assert!((4..=12).contains(&asked), "{refuses:?}: {asked} calls in half an hour");
            bench.wire.heal();
            go_on(&bench, &actor, 2, 920).await;
            assert!(says_tagged(&bench, 1), "{refuses:?}");
        });
    }
}

/// The label of a claim and of its Node.
fn labels(bench: &Alone, key: &str) -> [Value; 2] {
    [(&NODE_CLAIMS, "default-1".to_owned()), (&NODES, node_name(1))]
        .map(|(kind, name)| bench.api.get(kind, "", &name).unwrap()["metadata"]["labels"][key].clone())
}

/// Sets the capacity type that EC2 reports for the instance.
fn bought(bench: &Alone, capacity_type: &str) {
    let mut instance = bench.sky.inner.living().remove(0);
    instance.capacity_type = capacity_type.into();
    bench.sky.inner.restore(Launched { instance, labels: BTreeMap::new(), cpu: "2".into() }, false);
}

#[test]
fn ended_reservation_makes_claim_and_node_on_demand() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        let reserved = json!({"metadata": {"labels": {"karpenter.sh/capacity-type": "reserved",
            "karpenter.k8s.aws/capacity-reservation-id": "cr-1"}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-1", &reserved).unwrap();
        bench.api.patch(&NODES, "", &node_name(1), &reserved).unwrap();
        bought(&bench, "reserved");
        go_on(&bench, &actor, 1, 180).await;
        assert_eq!(labels(&bench, "karpenter.sh/capacity-type"), ["reserved", "reserved"]);
        bought(&bench, "on-demand");
        bench.sky.next("instances_of", [Fails::Throttled]);
        go_on(&bench, &actor, 1, 300).await;
        assert_eq!(labels(&bench, "karpenter.sh/capacity-type"), ["on-demand", "on-demand"]);
        assert_eq!(labels(&bench, "karpenter.k8s.aws/capacity-reservation-id"), [Value::Null, Value::Null]);
        let said = bench.records("ReservationEnded");
        assert_eq!((said.len(), bench.told.count("reservation_ended")), (1, 1));
        assert!(said[0].0 == "default-1" && said[0].1.contains("capacity reservation has ended"), "{said:?}");
        bench.wire.forget();
        go_on(&bench, &actor, 1, 300).await;
        assert_eq!(bench.wire.writes(), [""; 0], "it is written once");
    });
}

#[test]
fn node_that_cannot_be_relabelled_is_relabelled_later() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        let reserved = json!({"metadata": {"labels": {"karpenter.sh/capacity-type": "reserved"}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-1", &reserved).unwrap();
        bench.api.patch(&NODES, "", &node_name(1), &reserved).unwrap();
        bought(&bench, "on-demand");
        // A webhook that watches over Nodes is away for a while.
        bench.wire.refuse("PATCH", "/nodes/", 1, 422);
        bench.wire.refuse("PUT", "/nodes/", 1, 422);
        go_on(&bench, &actor, 1, 600).await;
        assert_eq!(labels(&bench, "karpenter.sh/capacity-type"), ["on-demand", "on-demand"]);
    });
}
