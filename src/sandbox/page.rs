//! The first page: nodes, pods, price, leader, and the story. Everything that it needs is in it.

use std::rc::Rc;
use std::sync::Arc;

use dovetail_sandbox::apiserver::{Page, Pages};
use futures::FutureExt as _;
use tokio::sync::{mpsc, oneshot};

use super::state;
use crate::cli::SandboxArgs;
use crate::world::World;

const PAGE: &str = include_str!("page.html");
/// Askers that wait for the state at once; those beyond wait to ask.
const MOST_ASKERS: usize = 64;

/// The pages by path. The state is asked of the world's own thread.
pub fn pages(world: Rc<World>, args: &SandboxArgs) -> Pages {
    let (ask, mut asked) = mpsc::channel::<oneshot::Sender<Vec<u8>>>(MOST_ASKERS);
    let args = args.clone();
    tokio::task::spawn_local(async move {
        while let Some(asker) = asked.recv().await {
            // An asker that has gone away is no matter.
            let _ = asker.send(state::of(&world, &args).to_string().into_bytes());
        }
    });
    Arc::new(move |path: &str| match path {
        "/" => std::future::ready(Some(("text/html; charset=utf-8", PAGE.as_bytes().into()))).boxed(),
        "/sandbox/state" => state_from(ask.clone()).boxed(),
        _ => std::future::ready(None).boxed(),
    })
}

async fn state_from(ask: mpsc::Sender<oneshot::Sender<Vec<u8>>>) -> Option<Page> {
    let (asker, answer) = oneshot::channel();
    ask.send(asker).await.ok()?;
    Some(("application/json", answer.await.ok()?.into()))
}
