//! boto3 against the region, over HTTP: see `tests/region_boto3/README.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, reason = "a test on real time, beside a real process")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use dovetail_sandbox::clock::RealClock;
use dovetail_sandbox::faults::FaultsInForce;
use dovetail_sandbox::log::EventLog;
use dovetail_sandbox::region::{AccountCapacityReservation, AccountPlacementGroup, Region, RegionConfig, serve};
use tokio::net::TcpListener;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A virtual environment with the pinned packages, made anew when the pins have changed.
fn python() -> PathBuf {
    let pins = root().join("tests/region_boto3/requirements.txt");
    let venv = root().join("target/venv-boto3");
    let (python, made_from) = (venv.join("bin/python"), venv.join("requirements.txt"));
    let wanted = std::fs::read_to_string(&pins).unwrap();
    if std::fs::read_to_string(&made_from).ok().as_ref() != Some(&wanted) {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"])
            .arg(&pins));
        std::fs::write(&made_from, wanted).unwrap();
    }
    python
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// An account with a placement group, a reservation and a capacity block.
fn config() -> RegionConfig {
    let mut config = RegionConfig::new("us-east-1", "demo");
    let strategy = "partition".to_owned();
    let group =
        AccountPlacementGroup { id: "pg-0123456789abcdef0".into(), name: "rack".into(), strategy, partitions: 3 };
    config.placement_groups = vec![group];
    let reserved = |id: &str, instance_type: &str, block: bool| AccountCapacityReservation {
        id: id.into(),
        instance_type: instance_type.into(),
        zone: "us-east-1a".into(),
        count: 2,
        tags: [("team".to_owned(), "ml".to_owned())].into(),
        open: false,
        block,
        interruptible: false,
        ends_after: block.then(|| Duration::from_secs(24 * 3600)),
    };
    config.reservations = vec![
        reserved("cr-0123456789abcdef0", "m5.xlarge", false),
        reserved("cr-0123456789abcdef1", "m5.2xlarge", true),
    ];
    config
}

#[tokio::test]
async fn boto3_reads_from_the_region_what_it_reads_from_aws() {
    let python = python();
    let clock = Arc::new(RealClock::new());
    let faults = FaultsInForce::new(1);
    faults.change(|settings| {
        settings.ec2.insufficient_capacity = vec!["r5.large/*/spot".to_owned()];
        settings.ec2.vcpu_quotas = [("X/on-demand".to_owned(), 0)].into();
        settings.ec2.unauthorized = vec!["CreateSecurityGroup".to_owned()];
    });
    let region = Region::new(config(), clock.clone(), EventLog::new(clock), faults);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let mut check = Command::new(python);
    check.arg(root().join("tests/region_boto3/check.py")).args([&endpoint, "demo"]);
    // The region is served by this thread, so the script is waited for on another.
    let (done, mut finished) = tokio::sync::oneshot::channel();
    let waiter = std::thread::spawn(move || drop(done.send(check.output().unwrap())));
    let output = tokio::select! {
        biased;
        never = serve(region.clone(), listener) => panic!("the listener failed: {never:?}"),
        () = region.run() => unreachable!("the agenda is worked off for ever"),
        output = &mut finished => output.unwrap(),
    };
    waiter.join().unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{wrong}");
    println!("{said}");
}
