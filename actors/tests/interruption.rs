//! Warnings of the interruption queue, and when they are deleted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod world;

use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_core::clock::Clock as _;
use serde_json::json;
use world::run;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// SQS gives a message again whenever it likes: to delete one copy is to delete it.
#[test]
fn a_warning_that_comes_again_while_it_is_written_down_is_deleted_when_it_is_written() {
    run(|world| async move {
        world
            .pool("default", json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]));
        world.pods(4, "500m");
        let _replica = world.replica_with(0, Settings { interruption_queue: "demo".into(), ..Settings::default() });
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
