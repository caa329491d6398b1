//! Messages of the interruption queue: by whom they are taken, and when they are deleted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_core::clock::Clock as _;
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
fn a_warning_that_comes_again_while_it_is_written_down_is_deleted_when_it_is_written() {
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
        assert!(written(), "{}", world.story().join("\n"));
        world.cloud.announce_by(&warning.to_string(), "third");
        world.until(seconds(30), || world.cloud.deleted() == ["first", "third"]).await;
        assert_eq!(world.journal.count("interrupted"), 1, "{}", world.story().join("\n"));
    });
}
