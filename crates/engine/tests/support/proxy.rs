//! A line between an engine and its database that can be cut and held at chosen places.

use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// The fate of a message of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each test takes what it needs")]
pub(crate) enum Act {
    /// It goes through.
    Pass,
    /// The line is cut, and it never arrives.
    CutBefore,
    /// It arrives, and the line is cut before the answer.
    CutAfter,
    /// It does not arrive, and nothing else does: the line is there, and silent.
    Hold,
}

type Decide = dyn Fn(&[u8]) -> Act + Send + Sync;

#[derive(Clone)]
pub(crate) struct Proxy {
    port: u16,
    decide: Arc<Mutex<Arc<Decide>>>,
    open: watch::Sender<bool>,
}

impl Proxy {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let own = listener.local_addr().expect("its address").port();
        let proxy =
            Self { port: own, decide: Arc::new(Mutex::new(Arc::new(|_| Act::Pass))), open: watch::Sender::new(true) };
        let accepting = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let proxy = accepting.clone();
                tokio::spawn(async move { proxy.carry(client, port).await });
            }
        });
        proxy
    }

    /// The URL with this line in between.
    pub(crate) fn url(&self) -> String {
        format!("postgres://mundi@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    pub(crate) fn decide(&self, decide: impl Fn(&[u8]) -> Act + Send + Sync + 'static) {
        *self.decide.lock() = Arc::new(decide);
    }

    /// Cuts all lines; new ones are possible.
    pub(crate) fn cut(&self) {
        self.open.send_replace(true);
    }

    async fn carry(self, client: TcpStream, port: u16) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        let (mut cut, mute) = (self.open.subscribe(), AtomicBool::new(false));
        tokio::select! {
            () = self.forth(from_client, to_server, &mute) => {}
            () = back(from_server, to_client, &mute) => {}
            _ = cut.changed() => {}
        }
    }

    async fn forth(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mute: &AtomicBool) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let decide = self.decide.lock().clone();
            match decide(&buffer[..count]) {
                Act::Pass => {}
                Act::CutBefore => return,
                // Read on, and forgotten: closed with something unread, the line would take from the client what the server has said last.
                Act::Hold => {
                    while let Ok(1..) = from.read(&mut buffer).await {}
                    std::future::pending::<()>().await;
                }
                Act::CutAfter => {
                    mute.store(true, Ordering::SeqCst);
                    let _sent = to.write_all(&buffer[..count]).await;
                    // Half a close: the server reads all, answers to nobody, and ends the line itself.
                    let _closed = to.shutdown().await;
                    std::future::pending::<()>().await;
                }
            }
            if to.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    }
}

async fn back(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mute: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if !mute.load(Ordering::SeqCst) && to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
