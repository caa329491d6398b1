//! Messages of the interruption queue: by whom they are taken, and when they are deleted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_actors::settings::Rebalance;
use dovetail_api::names::tags::{CLUSTER_UID, LAUNCH_TOKEN, NODE_POOL};
use dovetail_core::clock::Clock as _;
use dovetail_core::interruption::InterruptionKind;
use dovetail_core::interruption::status::Trouble;
use dovetail_core::ownership::token::launch_token;
use dovetail_sandbox::apiserver::NODE_CLAIMS;
use serde_json::json;
use world::{Spoil, World, run, seconds};

fn listening() -> Settings {
    Settings { interruption_queue: "demo".into(), ..Settings::default() }
}

fn four_pods(world: &World) {
    world.pool("default", json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]));
    world.pods(4, "500m");
}

#[test]
fn what_comes_into_the_queue_after_the_term_is_left_to_the_next() {
    run(|world| async move {
        four_pods(&world);
        world.cloud.spoil([Spoil::Hangs]);
        let first = world.replica_with(0, listening());
        world.until(seconds(60), || !world.cloud.calls().is_empty()).await;
        world.cloud.announce("while it leads");
        world.until(seconds(5), || world.cloud.unread() == 0).await;
        let later = async {
            tokio::time::sleep(seconds(1)).await;
            world.cloud.announce("after that");
            tokio::time::sleep(seconds(3)).await;
        };
        tokio::join!(first.shutdown(), later);
        assert_eq!(world.cloud.unread(), 1);
        let _second = world.replica_with(1, listening());
        world.until(seconds(60), || world.cloud.unread() == 0).await;
    });
}

/// SQS gives a message again whenever it likes: to delete one copy is to delete it.
#[test]
fn warning_repeated_while_being_written_is_deleted_when_written() {
    run(|world| async move {
        four_pods(&world);
        let _replica = world.replica_with(0, listening());
        world.until_bound(4, seconds(180)).await;
        tokio::time::sleep(seconds(60)).await;
        let instance = world.cloud.living()[0].id.clone();
        let time = world.clock.wall().to_string();
        let warning = json!({"version": "0", "id": "warning", "detail-type": "EC2 Spot Instance Interruption Warning",
            "source": "aws.ec2", "time": time, "detail": {"instance-id": instance, "instance-action": "terminate"}});
        let written = || {
            world.claims().iter().any(|claim| claim["metadata"]["annotations"].to_string().contains("spot_interrupted"))
        };
        world.faults.hold_writes(0, seconds(3), Some(seconds(1)));
        world.cloud.announce_by(&warning.to_string(), "first");
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.cloud.announce_by(&warning.to_string(), "second");
        tokio::time::sleep(seconds(1)).await;
        assert!(world.cloud.unread() == 0 && !written());
        assert_eq!(world.cloud.deleted(), Vec::<String>::new());
        world.until(seconds(30), || world.cloud.deleted() == ["first"]).await;
        assert!(written(), "{}", world.log_events().join("\n"));
        world.cloud.announce_by(&warning.to_string(), "third");
        world.until(seconds(30), || world.cloud.deleted() == ["first", "third"]).await;
        assert_eq!(world.journal.count("interrupted"), 1, "{}", world.log_events().join("\n"));
    });
}

fn warning(id: &str, instance: &str, world: &World) -> String {
    let time = world.clock.wall().to_string();
    json!({"version": "0", "id": id, "detail-type": "EC2 Spot Instance Interruption Warning", "source": "aws.ec2",
        "time": time, "detail": {"instance-id": instance, "instance-action": "terminate"}})
    .to_string()
}

/// The instance of the only claim, once there is one.
async fn running(world: &World) -> String {
    four_pods(world);
    world.until_bound(4, seconds(180)).await;
    world.cloud.living()[0].id.clone()
}

#[test]
fn warning_before_any_claim_is_kept_a_minute_and_acted_on() {
    run(|world| async move {
        let _replica = world.replica_with(0, listening());
        tokio::time::sleep(seconds(5)).await;
        // The first instance that the cloud will make.
        world.cloud.announce_by(&warning("early", "i-00000000000000001", &world), "early");
        world.cloud.announce_by(&warning("never", "i-0fffffffffffffff0", &world), "never");
        world.until(seconds(5), || world.cloud.unread() == 0).await;
        four_pods(&world);
        world.until(seconds(40), || world.journal.count("interrupted") == 1).await;
        world.until(seconds(5), || world.cloud.deleted() == ["early"]).await;
        assert_eq!(world.journal.count("messages_ignored"), 0, "{}", world.log_events().join("\n"));
        world.until(seconds(70), || world.cloud.deleted() == ["early", "never"]).await;
        assert_eq!(world.journal.count("messages_ignored"), 1, "passed over, and said");
    });
}

#[test]
fn messages_are_deleted_ten_a_call_and_kept_ones_again() {
    run(|world| async move {
        let instance = {
            let _first = world.replica_with(0, listening());
            running(&world).await
        };
        let _replica = world.replica_with(1, listening());
        tokio::time::sleep(seconds(30)).await;
        world.cloud.keep_first();
        for number in 0..25 {
            let text = json!({"version": "0", "id": number.to_string(), "source": "aws.ec2",
                "detail-type": "EC2 Instance State-change Notification", "detail": {"instance-id": instance, "state": "running"}});
            world.cloud.announce_by(&text.to_string(), &format!("{number:02}"));
        }
        world.until(seconds(30), || world.cloud.deleted().len() == 25).await;
        let mut deleted = world.cloud.deleted();
        deleted.sort();
        assert_eq!(deleted, (0..25).map(|number| format!("{number:02}")).collect::<Vec<_>>());
        let calls = world.cloud.deletions();
        assert!(calls.len() <= 4 && calls.iter().all(|size| *size <= 10), "{calls:?}");
    });
}

#[test]
fn rebalance_recommendation_is_followed_only_where_set() {
    for rebalance in [Rebalance::Event, Rebalance::Replace] {
        run(|world| async move {
            let _replica = world.replica_with(0, Settings { rebalance, ..listening() });
            let instance = running(&world).await;
            let time = world.clock.wall().to_string();
            let text = json!({"version": "0", "id": "rebalance", "detail-type": "EC2 Instance Rebalance Recommendation",
                "source": "aws.ec2", "time": time, "detail": {"instance-id": instance}});
            world.cloud.announce_by(&text.to_string(), "rebalance");
            world.until(seconds(30), || world.cloud.deleted() == ["rebalance"]).await;
            assert_eq!(world.journal.count("rebalance_recommended"), 1);
            tokio::time::sleep(seconds(240)).await;
            let stays = world.cloud.living().iter().any(|one| one.id == instance);
            assert_eq!(stays, rebalance == Rebalance::Event, "{}", world.log_events().join("\n"));
        });
    }
}

#[test]
fn failed_check_ends_instance_without_queue_event_replaces_node() {
    for kind in [InterruptionKind::InstanceStatus, InterruptionKind::EventStatus] {
        run(|world| async move {
            let _replica = world.replica(0);
            let instance = running(&world).await;
            let time = match kind {
                InterruptionKind::EventStatus => world.clock.wall() + jiff::SignedDuration::from_hours(24),
                _ => world.clock.wall() - jiff::SignedDuration::from_mins(3),
            };
            let what = "reachability".to_owned();
            world.cloud.trouble(vec![Trouble { instance: instance.clone(), kind, time: Some(time), what }]);
            world.until(seconds(400), || world.cloud.living().iter().all(|one| one.id != instance)).await;
            let (failed, interrupted) = (world.journal.count("status_failed"), world.journal.count("interrupted"));
            let expected = if kind == InterruptionKind::EventStatus { (0, 1) } else { (1, 0) };
            assert_eq!((failed, interrupted), expected, "{}", world.log_events().join("\n"));
        });
    }
}

/// An event whose text changes is another event: counts in it would have it said at each look.
#[test]
fn too_many_failed_checks_are_said_once_a_quarter_hour_per_node() {
    run(|world| async move {
        world.pool("default", world::on_demand_m5());
        let _replica = world.replica(0);
        for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
            world.pods_of(name, 1, "1500m");
            world.until_bound(number + 1, seconds(300)).await;
        }
        let failing = |count: usize| {
            let since = world.clock.wall() - jiff::SignedDuration::from_mins(3);
            let living = world.cloud.living().into_iter().take(count);
            let trouble = |instance| Trouble {
                instance,
                kind: InterruptionKind::InstanceStatus,
                time: Some(since),
                what: "c".into(),
            };
            living.map(|one| trouble(one.id)).collect::<Vec<_>>()
        };
        assert_eq!(failing(3).len(), 3, "a node each");
        let said =
            || world.events("NodeRepairBlocked").into_iter().filter(|(name, _)| name.starts_with("default-")).count();
        for look in 0..8 {
            world.cloud.trouble(failing(2 + look % 2));
            tokio::time::sleep(seconds(60)).await;
        }
        assert_eq!(said(), 3, "{:?}", world.events("NodeRepairBlocked"));
        tokio::time::sleep(seconds(600)).await;
        assert!(said() > 3, "it is said again");
        assert_eq!(world.cloud.living().len(), 3, "none is taken away");
    });
}

#[test]
fn spot_without_a_queue_is_said_once() {
    run(|world| async move {
        world.pool("default", json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]));
        let _replica = world.replica(0);
        world.until(seconds(60), || world.journal.count("spot_unheard") == 1).await;
        tokio::time::sleep(seconds(600)).await;
        assert_eq!(world.journal.count("spot_unheard"), 1);
    });
    run(|world| async move {
        world.pool("default", json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]));
        let _replica = world.replica_with(0, listening());
        tokio::time::sleep(seconds(120)).await;
        assert_eq!(world.journal.count("spot_unheard"), 0);
    });
}

/// Numbers of nodes that are warned of, and of messages.
const DEEP: (usize, usize) = (1_000, 15_000);

/// A claim of a spot node that runs.
fn running_spot(world: &World, number: usize) {
    let name = format!("spot-{number:04}");
    let instance = format!("i-{number:017x}");
    let labels = json!({"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot",
        "node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-east-1a"});
    let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": labels, "finalizers": ["karpenter.sh/termination"]},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}});
    let claim = world.api.create(&NODE_CLAIMS, "", claim).unwrap();
    let token = launch_token([claim["metadata"]["uid"].as_str().unwrap()], 1);
    let tags = [(CLUSTER_UID, "uid-of-this-cluster"), (NODE_POOL, "default"), (LAUNCH_TOKEN, token.as_str())];
    world.cloud.strange(&instance, &tags);
    let status = json!({"status": {"providerID": format!("aws:///us-east-1a/{instance}"), "conditions": [
        {"type": "Launched", "status": "True", "reason": "Launched", "lastTransitionTime": world.clock_text()}]}});
    world.api.patch_status(&NODE_CLAIMS, "", &name, &status).unwrap();
}

#[test]
fn fifteen_thousand_messages_are_deleted_as_fast_as_calls_allow() {
    run(|world| async move {
        let (nodes, messages) = DEEP;
        let call = Duration::from_millis(20);
        world.pool("default", json!([]));
        (1..=nodes).for_each(|number| running_spot(&world, number));
        let _replica = world.replica_with(0, listening());
        tokio::time::sleep(seconds(20)).await;
        world.faults.change(|faults| faults.api_server.latency = call);
        world.cloud.slow_queue(call);
        for number in 1..=messages {
            // Each fifteenth is a warning, the others are about what asks for nothing.
            let instance = format!("i-{:017x}", (number - 1) * nodes / messages + 1);
            let id = format!("message-{number}");
            let text = if number % (messages / nodes) == 1 {
                warning(&id, &instance, &world)
            } else {
                json!({"version": "0", "id": id, "source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification",
                    "detail": {"instance-id": instance, "state": "running"}})
                .to_string()
            };
            world.cloud.announce_by(&text, &number.to_string());
        }
        let begin = world.clock.monotonic();
        world.until(seconds(60), || world.cloud.deleted().len() == messages).await;
        let took = (world.clock.monotonic() - begin).as_secs_f64();
        println!("{messages} messages, {nodes} nodes: {took:.2} s, {:.0} a second", messages as f64 / took);
        let mut deleted = world.cloud.deleted();
        deleted.sort();
        deleted.dedup();
        assert_eq!(deleted.len(), messages, "each once");
        assert_eq!(world.journal.count("interrupted"), nodes, "each node once");
        assert!(messages as f64 / took > 5_000.0, "{took} s");
    });
}
