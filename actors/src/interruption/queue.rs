//! The queue's side of the interruption: found by its name, read for ever, with back-off while it is not there.

use std::ops::ControlFlow;
use std::time::Duration;

use actix::prelude::*;
use dovetail_cloud::{CloudError, CloudQueue};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::{Failed, Heard, Interruption, InterruptionLinks, Received};
use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::telemetry::log_event::LogEvent;

/// A call gives no more messages than this; one that gives fewer has emptied the queue, as far as it knows.
pub(super) const FULL: usize = 10;
/// Pause before something is asked for again within this process.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Longest pause between two attempts at a queue that is not there or fails: a warning leaves two minutes.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// Calls that wait for messages at the same time while the queue is deep: at 20 ms a call some 8,000 messages a second.
const MOST_RECEIVERS: usize = 16;

/// Reads the queue of the settings until the term ends; a call that waits for messages then is given up, or it would
/// take those that are the next leader's.
pub(super) async fn listen(links: InterruptionLinks, env: Env, to: Addr<Interruption>) {
    tokio::select! {
        biased;
        () = links.leader_term.over() => {}
        () = receive_messages(&*links.cloud, env, to) => {}
    }
}

async fn receive_messages(cloud: &dyn CloudQueue, env: Env, to: Addr<Interruption>) {
    let name = env.settings.interruption_queue.clone();
    let mut trouble = Trouble::new(&env, &name, to.clone());
    loop {
        let queue_url = match cloud.queue_url(&name).await {
            Ok(url) => url,
            Err(error) => {
                trouble.wait(&error).await;
                continue;
            }
        };
        if drain(cloud, &queue_url, &mut trouble, &to).await.is_break() {
            return;
        }
    }
}

/// Receives until the queue is not there any more, or nobody listens. Each call that comes back full has one more made beside it,
/// up to [`MOST_RECEIVERS`]; one that does not is the last but one.
async fn drain(
    cloud: &dyn CloudQueue,
    queue_url: &str,
    trouble: &mut Trouble,
    to: &Addr<Interruption>,
) -> ControlFlow<()> {
    let mut calls = FuturesUnordered::new();
    let mut wanted = 1;
    loop {
        while calls.len() < wanted {
            calls.push(cloud.receive(queue_url));
        }
        match calls.next().await {
            None => {}
            Some(Ok(messages)) => {
                trouble.over();
                wanted = if messages.len() >= FULL { (wanted + 1).min(MOST_RECEIVERS) } else { 1 };
                let received = Received { queue_url: queue_url.to_owned(), messages };
                if !received.messages.is_empty() && to.send(received).await.is_err() {
                    return ControlFlow::Break(());
                }
            }
            Some(Err(error)) => {
                wanted = 1;
                trouble.wait(&error).await;
                if error.is_not_found() {
                    return ControlFlow::Continue(());
                }
            }
        }
    }
}

/// A queue that does not answer: counted, told of once until it does, asked more and more rarely.
struct Trouble {
    env: Env,
    what: String,
    backoff: Backoff,
    to: Addr<Interruption>,
    /// A call was answered, and none has failed since.
    heard: bool,
}

impl Trouble {
    fn new(env: &Env, name: &str, to: Addr<Interruption>) -> Self {
        let backoff = Backoff::new(Duration::from_secs(1), LONGEST_PAUSE, env.rng("queue"));
        Self { env: env.clone(), what: format!("reading the interruption queue {name}"), backoff, to, heard: false }
    }

    async fn wait(&mut self, error: &CloudError) {
        self.heard = false;
        self.env.post(&self.to, Failed(error.clone()));
        let pause = self.backoff.pause();
        // A passing fault is repeated by the SDK already; what gets here is worth telling.
        if self.backoff.failures() == 1 {
            self.env.emit(LogEvent::Retrying { what: self.what.clone(), error: error.to_string() });
        }
        tokio::time::sleep(pause).await;
    }

    fn over(&mut self) {
        if !std::mem::replace(&mut self.heard, true) {
            self.env.post(&self.to, Heard);
        }
        if self.backoff.failures() > 0 {
            let attempts = self.backoff.failures() + 1;
            self.env.emit(LogEvent::Recovered { what: self.what.clone(), attempts });
            self.backoff.reset();
        }
    }
}
