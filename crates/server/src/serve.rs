//! Sockets: HTTP/1.1 with or without TLS, and the limits that keep slow and many clients from holding the server.

use crate::config::TlsConfig;
use axum::response::Response;
use futures_util::{StreamExt, stream::FuturesUnordered};
use hyper::{
    Request,
    body::Incoming,
    rt::{Sleep, Timer},
    server::conn::http1,
    service::Service,
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::Instant,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

#[derive(Debug, Clone)]
pub struct ServeLimits {
    /// Connections at a time. Further ones wait in the operating system's queue.
    pub connections_max: usize,
    /// How long the head of a request may take, and a handshake; also how long an idle connection is kept.
    pub head_timeout: Duration,
    /// Head and buffered part of a body; hyper refuses more headers than 100 by itself.
    pub head_bytes_max: usize,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self { connections_max: 4_096, head_timeout: Duration::from_secs(30), head_bytes_max: 64 * 1024 }
    }
}

/// Who answers the requests of a socket.
pub trait App:
    Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static
{
}

impl<A> App for A where
    A: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// A socket that is served until it is told to stop.
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
        let accepting = accept(listener, app, tls, limits, connections.clone(), stop.subscribe());
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
    limits: ServeLimits,
    connections: Arc<Semaphore>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told(&mut stop) => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, most likely: without a pause this would spin.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (app, tls, limits, stop) = (app.clone(), tls.clone(), limits.clone(), stop.clone());
        tokio::spawn(async move {
            serve(stream, app, tls, &limits, stop).await;
            drop(permit);
        });
    }
}

async fn serve(
    stream: TcpStream,
    app: impl App,
    tls: Option<TlsAcceptor>,
    limits: &ServeLimits,
    stop: watch::Receiver<bool>,
) {
    let _best_effort = stream.set_nodelay(true);
    match tls {
        None => talk(stream, app, limits, stop).await,
        Some(tls) => match tokio::time::timeout(limits.head_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => talk(stream, app, limits, stop).await,
            Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
            Err(_) => tracing::debug!("a handshake took too long"),
        },
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    app: impl App,
    limits: &ServeLimits,
    mut stop: watch::Receiver<bool>,
) {
    let head = Head::default();
    let mut http = http1::Builder::new();
    http.timer(head.clone()).header_read_timeout(limits.head_timeout).max_buf_size(limits.head_bytes_max);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), app));
    // As a set: the connection is woken with every request, and they are asked only when they are woken themselves.
    let mut ends = FuturesUnordered::<Pin<Box<dyn Future<Output = End> + Send>>>::new();
    ends.push(Box::pin(async {
        told(&mut stop).await;
        End::Graceful
    }));
    ends.push(Box::pin(async {
        head.is_late(limits.head_timeout).await;
        End::Late
    }));
    let ended = loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => break ended,
            end = ends.next() => match end {
                Some(End::Late) => return tracing::debug!("the head of a request took too long"),
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
    /// The next request is too long in coming.
    Late,
}

/// Until when the head of the next request must be there, as long as one is waited for. A timer for each connection looks at it,
/// where hyper would begin and end one with each request.
#[derive(Clone, Default)]
struct Head(Arc<Mutex<Option<std::time::Instant>>>);

impl Head {
    /// Completes when a head is late. Whatever is waited for from now on may take until then at least.
    async fn is_late(&self, timeout: Duration) {
        loop {
            let (due, now) = (*self.0.lock(), Instant::now());
            let due = due.map_or(now + timeout, Instant::from_std);
            if due <= now {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }
}

impl Timer for Head {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        *self.0.lock() = Some(deadline);
        Box::pin(HeadWait(self.clone()))
    }

    fn reset(&self, _: &mut Pin<Box<dyn Sleep>>, deadline: std::time::Instant) {
        *self.0.lock() = Some(deadline);
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into_std()
    }
}

/// What hyper waits for: it never comes, because a late head ends the connection.
struct HeadWait(Head);

impl Future for HeadWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Sleep for HeadWait {}

impl Drop for HeadWait {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}

async fn told(stop: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, which tells the same.
    drop(stop.wait_for(|stop| *stop).await);
}

/// TLS from the files that the configuration names, if it does.
pub fn tls(config: &TlsConfig) -> Result<Option<TlsAcceptor>, String> {
    let (Some(certificates), Some(key)) = (&config.certificates, &config.key) else { return Ok(None) };
    let read = |path: &Path, error: &dyn ToString| format!("{}: {}", path.display(), error.to_string());
    let chain = CertificateDer::pem_file_iter(certificates).map_err(|error| read(certificates, &error))?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(|error| read(certificates, &error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| read(key, &error))?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let server = builder.map_err(|error| error.to_string())?.with_no_client_auth().with_single_cert(chain, key);
    let mut server = server.map_err(|error| error.to_string())?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(server))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::service::service_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    const TIMEOUT: Duration = Duration::from_millis(100);

    /// A connection to a server that takes so long for each answer.
    fn connect(answer: Duration, head_timeout: Duration) -> (DuplexStream, watch::Sender<bool>) {
        let (client, server) = tokio::io::duplex(4_096);
        let (stop, stopped) = watch::channel(false);
        let limits = ServeLimits { head_timeout, ..ServeLimits::default() };
        let app = service_fn(move |_| async move {
            tokio::time::sleep(answer).await;
            Ok::<_, Infallible>(Response::new(axum::body::Body::from("done")))
        });
        tokio::spawn(async move { talk(server, app, &limits, stopped).await });
        (client, stop)
    }

    async fn ask(client: &mut DuplexStream) {
        client.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
        let mut answer = [0; 1_024];
        let length = client.read(&mut answer).await.unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200 OK") && answer[..length].ends_with(b"done"));
    }

    async fn ends(client: &mut DuplexStream) {
        assert_eq!(client.read(&mut [0; 16]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn an_idle_connection_is_kept_for_a_while_after_an_answer() {
        let (mut client, _stop) = connect(2 * TIMEOUT, TIMEOUT);
        let begun = Instant::now();
        ask(&mut client).await; // longer than a head may take
        ends(&mut client).await;
        assert!(begun.elapsed() >= 3 * TIMEOUT);
    }

    #[tokio::test]
    async fn a_head_that_comes_byte_by_byte_ends_its_connection() {
        let (mut client, _stop) = connect(Duration::ZERO, TIMEOUT);
        for byte in b"GET / HTTP/1.1\r\nslow: ".iter().chain([b's'; 200].iter()) {
            if client.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(TIMEOUT / 20).await;
        }
        panic!("it was waited for ten times as long as it may take");
    }

    #[tokio::test]
    async fn a_server_that_stops_ends_an_idle_connection() {
        let (mut client, stop) = connect(Duration::ZERO, ServeLimits::default().head_timeout);
        ask(&mut client).await;
        stop.send_replace(true);
        ends(&mut client).await;
    }
}
