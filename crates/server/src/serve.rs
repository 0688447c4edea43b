//! Sockets: HTTP/1.1 with or without TLS, and the limits that keep slow and many clients from holding the server.

mod answers;
mod clients;
mod written;

pub use clients::ClientLimits;
pub(crate) use clients::{Client, FirstUse, TokenFull};

use crate::{api::Problem, bodies::Bodies, config::TlsConfig};
use axum::response::Response;
use clients::Clients;
use futures_util::{StreamExt, stream::FuturesUnordered};
use hyper::{
    Request,
    body::Incoming,
    rt::{Sleep, Timer},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use mundi_model::Code;
use mundi_runtime::metrics::{Metric, Metrics};
use parking_lot::Mutex;
use socket2::SockRef;
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
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
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

    /// What answers may take of the memory; without a bound if there is none.
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

/// What the system holds of an answer and has not sent.
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
                    return tracing::debug!(reason, "a connection is cut off");
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
    use crate::bodies::BodyBudgets;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::DuplexStream;

    const TIMEOUT: Duration = Duration::from_millis(100);

    /// Takes so long for each answer, and counts them.
    #[derive(Clone, Default)]
    struct Done {
        takes: Duration,
        bytes: usize,
        answers: Arc<AtomicUsize>,
        budget: Option<Arc<Bodies>>,
    }

    impl App for Done {
        async fn answer<'a>(&'a self, _: &'a Connection, _: Request<Incoming>) -> Response {
            tokio::time::sleep(self.takes).await;
            self.answers.fetch_add(1, Ordering::Relaxed);
            Response::new(axum::body::Body::from("done".repeat(self.bytes.max(4) / 4)))
        }

        fn answers(&self) -> Option<&Arc<Bodies>> {
            self.budget.as_ref()
        }
    }

    #[tokio::test]
    async fn answers_that_nobody_reads_take_no_more_than_they_may_and_give_it_back() {
        const BYTES: usize = 1 << 20;
        let bytes_max = 3 * BYTES;
        let budgets = BodyBudgets { bytes_max, per_universe_bytes_max: bytes_max, per_token_bytes_max: bytes_max };
        let budget = Bodies::of_answers(budgets);
        let app = Done { bytes: BYTES, budget: Some(budget.clone()), ..Done::default() };
        let get = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";
        let mut held = Vec::new();
        for _ in 0..3 {
            let (mut client, stop) = connect_to(app.clone(), ServeLimits::default());
            client.write_all(get).await.unwrap();
            client.read_exact(&mut [0; 15]).await.unwrap(); // it is being written
            held.push((client, stop));
        }
        assert_eq!(budget.bytes(), bytes_max as u64);
        let (mut refused, _stop) = connect_to(app.clone(), ServeLimits::default());
        refused.write_all(get).await.unwrap();
        let mut answer = vec![0; 4_096];
        let length = refused.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("ANSWERS_FULL"), "{answer}");
        assert!(answer.contains("retry-after"), "{answer}");
        drop(held.pop());
        let (mut reader, _stop) = connect_to(app, ServeLimits::default());
        while budget.bytes() > 2 * BYTES as u64 {
            tokio::task::yield_now().await; // until the connection that is gone has given it back
        }
        reader.write_all(get).await.unwrap();
        let mut read = 0;
        while read < BYTES {
            read += reader.read(&mut [0; 65_536]).await.unwrap();
        }
        while budget.bytes() > 2 * BYTES as u64 {
            tokio::task::yield_now().await;
        }
    }

    fn connect_to(app: Done, limits: ServeLimits) -> (DuplexStream, watch::Sender<bool>) {
        let (client, server) = tokio::io::duplex(4_096);
        let (stop, stopped) = watch::channel(false);
        let connection = Connection(Clients::new(limits.clients).connect([127, 0, 0, 1].into()).unwrap());
        tokio::spawn(async move { talk(server, app, connection, &limits, stopped).await });
        (client, stop)
    }

    /// A connection to a server that takes so long for each answer.
    fn connect(takes: Duration, head_timeout: Duration) -> (DuplexStream, watch::Sender<bool>) {
        let limits = ServeLimits { head_timeout, ..ServeLimits::default() };
        connect_to(Done { takes, ..Done::default() }, limits)
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

    /// Sends requests until the server closes the connection, and reads nothing.
    async fn send_and_never_read(client: &mut DuplexStream, request: &[u8]) {
        for _ in 0..100_000 {
            if client.write_all(request).await.is_err() {
                return;
            }
        }
        panic!("the server takes whatever comes");
    }

    #[tokio::test]
    async fn a_client_that_never_reads_loses_its_connection_and_few_answers_were_made_for_it() {
        // Answers without a body, of which hyper would keep any number.
        let limits = ServeLimits { write_timeout: TIMEOUT, pipelined_max: 5, ..ServeLimits::default() };
        let app = Done::default();
        let (mut client, _stop) = connect_to(app.clone(), limits);
        send_and_never_read(&mut client, b"HEAD / HTTP/1.1\r\nhost: here\r\n\r\n").await;
        // Some 40 fill what is between the two; none of the others was begun before there was room.
        let answers = app.answers.load(Ordering::Relaxed);
        assert!((5..100).contains(&answers), "{answers}");
    }

    #[tokio::test]
    async fn a_client_that_reads_drop_by_drop_loses_its_connection() {
        let limits =
            ServeLimits { write_timeout: TIMEOUT, write_bytes_per_second_min: 100_000, ..ServeLimits::default() };
        let (mut client, _stop) = connect_to(Done { bytes: 1 << 20, ..Done::default() }, limits);
        client.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
        let mut taken = 0;
        // 1 kB in each window, where 10 kB are asked for: each drop alone would be in time.
        while client.read_exact(&mut [0; 1_024]).await.is_ok() {
            taken += 1_024;
            assert!(taken < 1 << 20, "it was waited for");
            tokio::time::sleep(TIMEOUT).await;
        }
    }

    #[tokio::test]
    async fn a_client_that_reads_slowly_but_fast_enough_gets_all_of_its_answer() {
        let limits =
            ServeLimits { write_timeout: 2 * TIMEOUT, write_bytes_per_second_min: 1_024, ..ServeLimits::default() };
        let (mut client, _stop) = connect_to(Done { bytes: 64 << 10, ..Done::default() }, limits);
        client.write_all(b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut taken = 0;
        loop {
            match client.read(&mut [0; 4_096]).await.unwrap() {
                0 => break,
                length => taken += length,
            }
            tokio::time::sleep(TIMEOUT / 2).await;
        }
        assert!(taken > 64 << 10, "{taken}");
    }
}
