//! Answers of AWS: each call gets the same body, and takes it or has an error that can be read.
#![no_main]

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use dovetail_cloud::cloud::{CloudInstances, CloudOfferings, CloudQueue};
use dovetail_cloud::ec2::adapt::http_client;
use dovetail_cloud::ec2::{Ec2Cloud, Ec2Settings, SdkParts};
use dovetail_core::clock::Clock;
use futures::FutureExt;
use libfuzzer_sys::fuzz_target;

/// Time that stands still between answers; waits of the SDK are passed over by tokio's paused clock.
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn wall(&self) -> jiff::Timestamp {
        let elapsed = jiff::SignedDuration::try_from(self.monotonic()).expect("a short time");
        jiff::Timestamp::from_second(1_780_000_000).expect("a time") + elapsed
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Status and body of the next answers.
type Next = Arc<Mutex<(u16, Bytes)>>;

struct Account {
    runtime: tokio::runtime::Runtime,
    next: Next,
}

thread_local! {
    static ACCOUNT: RefCell<Option<Account>> = const { RefCell::new(None) };
}

fn account() -> Account {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    Account { runtime, next: Next::default() }
}

async fn ask(next: Next, which: u8) {
    let client = http_client(move |_| {
        let (status, body) = next.lock().expect("no panic holds it").clone();
        async move { Ok(http::Response::builder().status(status).body(body).expect("a status")) }.boxed()
    });
    let clock = Arc::new(TokioClock(tokio::time::Instant::now()));
    let settings = Ec2Settings { cluster_name: "demo".into(), ..Ec2Settings::default() };
    let cloud = Ec2Cloud::new(SdkParts::in_process(client, "us-east-1", clock), settings);
    let ids = ["i-0123456789abcdef0".to_owned(), "cr-0123456789abcdef0".to_owned()];
    match which % 11 {
        0 => drop(cloud.instance_types().await.map_err(said)),
        1 => drop(cloud.offerings().await.map_err(said)),
        2 => drop(cloud.on_demand_prices().await.map_err(said)),
        3 => drop(cloud.spot_prices().await.map_err(said)),
        4 => drop(cloud.reserved_left(&ids).await.map_err(said)),
        5 => drop(cloud.instances().await.map_err(said)),
        6 => drop(cloud.instances_by_name(true).await.map_err(said)),
        7 => drop(cloud.instances_with_token("token").await.map_err(said)),
        8 => drop(cloud.instances_of(&ids).await.map_err(said)),
        9 => drop(cloud.instance_troubles().await.map_err(said)),
        _ => drop(cloud.receive("https://sqs.us-east-1.amazonaws.com/1/queue").await.map_err(said)),
    }
}

/// An error says something.
fn said(error: impl std::fmt::Display) {
    assert!(!error.to_string().is_empty(), "an error says nothing");
}

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (which, fails, body) = input;
    ACCOUNT.with_borrow_mut(|known| {
        let account = known.get_or_insert_with(account);
        let status = if fails { 400 } else { 200 };
        *account.next.lock().expect("no panic holds it") = (status, Bytes::copy_from_slice(body));
        let next = Arc::clone(&account.next);
        account.runtime.block_on(async {
            // A page that names itself as the next would be asked for without an end; the clock bounds it.
            let _ = tokio::time::timeout(Duration::from_secs(600), ask(next, which)).await;
        });
    });
});
