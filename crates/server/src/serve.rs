//! Sockets: HTTP/1.1 with or without TLS, and limits against slow clients and too many connections.

mod answers;
mod clients;
mod head;
mod tls;
mod written;

pub use clients::ClientLimits;
pub(crate) use clients::{Client, FirstUse, TokenFull};
pub use tls::tls;

use crate::{api::Problem, bodies::Bodies};
use axum::response::Response;
use clients::Clients;
use futures_util::{StreamExt, stream::FuturesUnordered};
use head::Head;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use mundi_model::Code;
use mundi_runtime::metrics::{Metric, Metrics};
use socket2::SockRef;
use std::{convert::Infallible, io, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};
use tokio_rustls::TlsAcceptor;
use written::{Followed, WriteRate, Written};

#[derive(Debug, Clone)]
pub struct ServeLimits {
    /// Connections at a time. Further ones wait in the operating system's queue.
    pub connections_max: usize,
    /// How long the head of a request may take, and a handshake; also how long an idle connection is kept.
    pub head_timeout: Duration,
    /// Head and buffered part of a body; hyper refuses more headers than 100 by itself.
    pub head_bytes_max: usize,
    /// In each such time a client takes at least `write_bytes_per_second_min` of what waits for it, or loses its connection.
    pub write_timeout: Duration,
    pub write_bytes_per_second_min: u64,
    /// Answers that may wait to be written on one connection. Further requests on it are not begun.
    pub pipelined_max: usize,
    /// Of the connections at a time, how many one client may have. Further ones are refused.
    pub clients: ClientLimits,
}

impl Default for ServeLimits {
    fn default() -> Self {
        let connections_max = 4_096;
        let half = connections_max / 2;
        Self {
            connections_max,
            head_timeout: Duration::from_secs(30),
            head_bytes_max: 64 * 1024,
            write_timeout: Duration::from_secs(30),
            write_bytes_per_second_min: 1_024,
            pipelined_max: 16,
            clients: ClientLimits { per_address_max: half, per_token_max: half },
        }
    }
}

impl ServeLimits {
    fn write_rate(&self) -> WriteRate {
        let bytes_min = u128::from(self.write_bytes_per_second_min) * self.write_timeout.as_millis() / 1_000;
        WriteRate { timeout: self.write_timeout, bytes_min: u64::try_from(bytes_min).unwrap_or(u64::MAX).max(1) }
    }
}

/// Answers the requests of a connection.
pub trait App: Clone + Send + Sync + 'static {
    fn answer<'a>(
        &'a self,
        connection: &'a Connection,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response> + Send;

    /// Counts what is refused and cut off.
    fn metrics(&self) -> Option<&Metrics> {
        None
    }

    /// The memory budget of answers, if there is one.
    fn answers(&self) -> Option<&Arc<Bodies>> {
        None
    }
}

fn count(app: &impl App, metric: Metric) {
    if let Some(metrics) = app.metrics() {
        metrics.add(metric, 1);
    }
}

/// The connection that a request came by.
#[derive(Clone)]
pub struct Connection(pub(crate) Arc<Client>);

/// A socket that is served until it is asked to stop.
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    connections: Arc<Semaphore>,
    connections_max: u32,
}

impl Server {
    /// Binds and begins to serve; when this returns, clients can connect.
    pub async fn start(
        address: SocketAddr,
        app: impl App,
        tls: Option<TlsAcceptor>,
        limits: ServeLimits,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let connections_max = u32::try_from(limits.connections_max).unwrap_or(u32::MAX).max(1);
        let connections = Arc::new(Semaphore::new(connections_max as usize));
        let stop = watch::Sender::new(false);
        let accepting = accept(listener, app, tls, Arc::new(limits), connections.clone(), stop.subscribe());
        tokio::spawn(accepting);
        Ok(Self { address, stop, connections, connections_max })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no new connection and no further request on an old one; completes when the last answer is out.
    pub async fn drain(&self) {
        self.stop.send_replace(true);
        let _all = self.connections.acquire_many(self.connections_max).await;
    }
}

async fn accept(
    listener: TcpListener,
    app: impl App,
    tls: Option<TlsAcceptor>,
    limits: Arc<ServeLimits>,
    connections: Arc<Semaphore>,
    mut stop: watch::Receiver<bool>,
) {
    let (clients, refused) = (Clients::new(limits.clients), Arc::new(Semaphore::new(REFUSED_MAX)));
    loop {
        let permit = match connections.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                count(&app, Metric::ConnectionsAwaited);
                let Ok(permit) = connections.clone().acquire_owned().await else { return };
                permit
            }
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told(&mut stop) => return,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Too many open files, most likely: without a pause this would spin.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(client) = clients.connect(address.ip()) else {
            count(&app, Metric::RefusedAddressConnections);
            refuse(stream, tls.is_some(), &refused, limits.clients.per_address_max);
            continue;
        };
        let (app, tls, limits, stop) = (app.clone(), tls.clone(), limits.clone(), stop.clone());
        tokio::spawn(async move {
            serve(stream, app, tls, Connection(client), &limits, stop).await;
            drop(permit);
        });
    }
}

/// Connections at a time that are told that they are too many; others are closed without a word.
const REFUSED_MAX: usize = 64;

/// How long a connection that is refused may take to send its request. A client that is answered before it asks takes the answer for an error.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(1);

/// Says why, if there is time for it, and closes. Before a handshake nothing can be said.
fn refuse(mut stream: TcpStream, is_tls: bool, refused: &Arc<Semaphore>, per_address_max: usize) {
    tracing::debug!("an address has too many connections");
    let Ok(slot) = refused.clone().try_acquire_owned() else { return };
    if is_tls {
        return;
    }
    let detail = format!("an address has at most {per_address_max} connections at a time");
    let answer = Problem::new(Code::ConnectionsFull, detail).to_http();
    tokio::spawn(async move {
        let saying = async {
            let mut request = [0; 4_096]; // what is left unread resets the connection, and takes the answer with it
            let _whatever_came = stream.read(&mut request).await?;
            stream.write_all(&answer).await?;
            stream.shutdown().await
        };
        drop(tokio::time::timeout(REFUSED_TIMEOUT, saying).await);
        drop(slot);
    });
}

async fn serve(
    stream: TcpStream,
    app: impl App,
    tls: Option<TlsAcceptor>,
    connection: Connection,
    limits: &ServeLimits,
    stop: watch::Receiver<bool>,
) {
    let _best_effort = stream.set_nodelay(true);
    // Else the system takes megabytes that a slow client has not read yet, and it looks as if nothing moved on.
    let _best_effort = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES);
    match tls {
        None => talk(stream, app, connection, limits, stop).await,
        Some(tls) => match tokio::time::timeout(limits.head_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => talk(stream, app, connection, limits, stop).await,
            Ok(Err(error)) => {
                count(&app, Metric::HandshakesFailed);
                tracing::debug!(%error, "a handshake failed");
            }
            Err(_) => {
                count(&app, Metric::HandshakesFailed);
                tracing::debug!("a handshake took too long");
            }
        },
    }
}

/// Bytes of an answer that the system holds and has not sent.
const UNSENT_BYTES: u32 = 128 * 1024;

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    app: impl App,
    client: Connection,
    limits: &ServeLimits,
    mut stop: watch::Receiver<bool>,
) {
    let (head, written, rate) = (Head::default(), Arc::<Written>::default(), limits.write_rate());
    let mut http = http1::Builder::new();
    http.timer(head.clone()).header_read_timeout(limits.head_timeout).max_buf_size(limits.head_bytes_max);
    let answering = service_fn(|request| async {
        written.has_room(limits.pipelined_max).await;
        let response = app.answer(&client, request).await;
        let response = match app.answers() {
            Some(answers) => {
                let (response, is_refusal) = answers::counted(response, answers, || client.0.owner(), &written);
                if is_refusal {
                    count(&app, Metric::RefusedAnswers);
                }
                response
            }
            None => response,
        };
        client.0.end_request();
        written.answered();
        Ok::<_, Infallible>(response)
    });
    let followed = TokioIo::new(Followed { stream, written: written.clone(), rate });
    let mut connection = std::pin::pin!(http.serve_connection(followed, answering));
    // As a set: the connection is woken with every request, and they are asked only when they are woken themselves.
    let mut ends = FuturesUnordered::<Pin<Box<dyn Future<Output = End> + Send>>>::new();
    ends.push(Box::pin(async {
        told(&mut stop).await;
        End::Graceful
    }));
    ends.push(Box::pin(async {
        head.is_late(limits.head_timeout).await;
        End::Now("the head of a request took too long", Metric::CutHead)
    }));
    ends.push(Box::pin(async {
        written.is_late(rate).await;
        End::Now("the client reads too slowly", Metric::CutSlow)
    }));
    ends.push(Box::pin(async {
        client.0.ended().await;
        End::Now("its token was revoked", Metric::CutRevoked)
    }));
    let ended = loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => break ended,
            end = ends.next() => match end {
                Some(End::Now(reason, metric)) => {
                    count(&app, metric);
                    return tracing::debug!(reason, "a connection was closed");
                }
                Some(End::Graceful) | None => connection.as_mut().graceful_shutdown(),
            },
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Why a connection is to end.
enum End {
    /// The server stops.
    Graceful,
    /// The client has lost its right to it.
    Now(&'static str, Metric),
}

async fn told(stop: &mut watch::Receiver<bool>) {
    // An error means that the server has stopped, which has the same effect.
    drop(stop.wait_for(|stop| *stop).await);
}

#[cfg(test)]
mod tests;
