//! The thread that serves the API, on the machine's time: however long the control plane and the cluster compute on theirs,
//! clients are answered meanwhile.

use std::io;
use std::net::SocketAddr;

use dovetail_sandbox::apiserver::Listener;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// An API that is served. It ends with the process.
pub struct Serving {
    address: SocketAddr,
    alive: oneshot::Receiver<()>,
}

impl Serving {
    /// Makes a listener on a thread of its own and serves it there.
    ///
    /// # Errors
    /// There is no thread to be had, or the listener cannot be made.
    pub async fn start<M>(make: M) -> io::Result<Self>
    where
        M: AsyncFnOnce() -> io::Result<Listener> + Send + 'static,
    {
        let (emit, bound) = oneshot::channel();
        let (life, alive) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serve = move || {
            // Dropped when this thread ends, however it does.
            let _life: oneshot::Sender<()> = life;
            LocalSet::new().block_on(&runtime, async move {
                match make().await.and_then(|listener| Ok((listener.address()?, listener))) {
                    Err(why) => drop(emit.send(Err(why))),
                    Ok((address, listener)) => {
                        let _ = emit.send(Ok(address));
                        listener.serve().await;
                    }
                }
            });
        };
        std::thread::Builder::new().name("api".to_owned()).spawn(serve)?;
        let address = bound.await.map_err(|_| io::Error::other("the thread that serves the API ended"))??;
        Ok(Self { address, alive })
    }

    /// Address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until it is served no longer, which nothing but a bug brings about.
    pub async fn ended(self) {
        let _ = self.alive.await;
    }
}
