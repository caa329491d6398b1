//! Work of a server that goes on when whoever asked for it is gone.

use tokio::sync::oneshot;

/// Runs `work` to its end, also when the answer is no longer waited for. `None` when the runtime ends first.
#[expect(clippy::disallowed_methods, reason = "a replica's LocalSet may be dropped, and the server's work goes on")]
pub async fn detached<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let (send, receive) = oneshot::channel();
    tokio::spawn(async move {
        let _ = send.send(work.await);
    });
    receive.await.ok()
}
