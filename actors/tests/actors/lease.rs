//! Values written into the Lease by hand keep no replica from leading for good: they are reported, and recovered from.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use dovetail_core::clock::Clock as _;
use dovetail_sandbox::apiserver::LEASES;
use serde_json::{Value, json};
use world::{World, run, seconds};

const NAME: &str = "karpenter-leader-election";

fn spec(world: &World) -> Value {
    world.api.get(&LEASES, "kube-system", NAME).map(|lease| lease["spec"].clone()).unwrap_or_default()
}

/// Lines that say why the Lease is ignored.
fn refusals(world: &World) -> Vec<String> {
    world.log_events().into_iter().filter(|line| line.contains("ignores lease")).collect()
}

#[test]
fn term_at_end_of_field_is_seen_once_and_somebody_leads_again() {
    for term in [i32::MAX, i32::MAX - 1, 2_000_000_000] {
        run(|world| async move {
            let replicas = [world.replica(0), world.replica(1)];
            world.until(seconds(30), || world.journal.count("elected") == 1).await;
            world.pool("default", json!([]));
            world.api.patch(&LEASES, "kube-system", NAME, &json!({"spec": {"leaseTransitions": term}})).unwrap();
            world.until(seconds(10), || !refusals(&world).is_empty()).await;
            let told = refusals(&world);
            assert!(told[0].contains(&format!("its leaseTransitions is {term}")), "{told:?}");
            let took = world.until(seconds(60), || world.journal.count("elected") == 2).await;
            assert!(took < seconds(40), "{took:?}");
            let led = spec(&world)["leaseTransitions"].as_i64().unwrap();
            assert!(led > 0 && led < 1_000_000, "{led}");
            world.pods(3, "1");
            world.until_bound(3, seconds(120)).await;
            assert!(refusals(&world).len() <= 2, "each replica says it once: {:?}", refusals(&world));
            for replica in replicas {
                assert_eq!(replica.state().await["leader"]["refuses"], Value::Null);
            }
        });
    }
}

#[test]
fn unrenewed_lease_of_68_years_is_taken_after_a_minute() {
    run(|world| async move {
        let now = format!("{:.6}", world.clock.wall());
        let lease = json!({"metadata": {"name": NAME}, "spec": {"holderIdentity": "karpenter-7d4", "leaseTransitions": 3,
            "leaseDurationSeconds": i32::MAX, "acquireTime": now, "renewTime": now}});
        world.api.create(&LEASES, "kube-system", lease).unwrap();
        let replica = world.replica(0);
        tokio::time::sleep(seconds(40)).await;
        assert_eq!(world.journal.count("elected"), 0, "who honours its own duration may lead by it");
        let told = refusals(&world);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("karpenter-7d4") && told[0].contains("2147483647"), "{told:?}");
        let refuses = replica.state().await["leader"]["refuses"].as_str().unwrap().to_owned();
        assert!(refuses.contains("delete the Lease if \"karpenter-7d4\" has ended"), "{refuses}");
        let took = world.until(seconds(120), || world.journal.count("elected") == 1).await;
        assert!(took > seconds(15) && took < seconds(35), "{took:?}");
        assert_eq!(
            (&spec(&world)["leaseDurationSeconds"], &replica.state().await["leader"]["refuses"]),
            (&json!(15), &Value::Null)
        );
    });
}

#[test]
fn partly_unreadable_lease_is_taken_over_all_the_same() {
    run(|world| async move {
        let lease = json!({"metadata": {"name": NAME, "managedFields": [{"manager": "x", "operation": "Update",
            "apiVersion": "coordination.k8s.io/v1", "time": "9999-12-31T23:59:59Z", "fieldsType": "FieldsV1", "fieldsV1": {}}]},
            "spec": {"holderIdentity": "gone", "leaseTransitions": 3, "leaseDurationSeconds": 15,
                "renewTime": "9999-12-31T23:59:59.000000Z", "acquireTime": "9999-12-31T23:59:59.000000Z"}});
        world.api.create(&LEASES, "kube-system", lease).unwrap();
        let replica = world.replica(0);
        world.until(seconds(60), || world.journal.count("elected") == 1).await;
        assert_eq!(spec(&world)["holderIdentity"], "replica-0");
        replica.shutdown().await;
        assert_eq!(spec(&world)["holderIdentity"], "", "and it is given back");
    });
}
