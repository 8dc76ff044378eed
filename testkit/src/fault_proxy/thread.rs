//! A server on a loopback port with its own thread and runtime, so that one may serve tests of several
//! runtimes.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The thread. Dropping it ends the server with all its connections, and waits.
#[derive(Debug)]
pub(super) struct ServerThread {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    /// Returns when the port accepts connections.
    pub(super) async fn start(
        name: &str,
        serve: impl AsyncFnOnce(TcpListener) + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (ready, listening) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(serve, ready, stopped))?;
        let ended = || io::Error::other("the server's thread ended early");
        let address = listening.await.unwrap_or_else(|_| Err(ended()))?;
        Ok(Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

fn run(
    serve: impl AsyncFnOnce(TcpListener),
    ready: oneshot::Sender<io::Result<SocketAddr>>,
    stopped: oneshot::Receiver<()>,
) {
    let started = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| {
            let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
            Ok((listener.local_addr()?, listener, runtime))
        });
    match started {
        Ok((address, listener, runtime)) => {
            let _ = ready.send(Ok(address));
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener) => {}
                    _ = stopped => {}
                }
            });
        }
        Err(error) => {
            let _ = ready.send(Err(error));
        }
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        // Without a receiver the thread has ended already.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the server's thread panicked; its message is above");
        }
    }
}
