//! An HTTP/1.1 client in which the task that waits for an answer also drives the connection.
//!
//! Clients commonly give each connection a task of its own, so that an exchange goes through two tasks and the channels
//! between them. Here a connection belongs to the exchange that uses it and has no task. In between it is idle and not polled, until it is
//! reused or has been idle too long; a connection that the peer has closed is detected when it is reused.

use super::address::Resolver;
use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header, response};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{Connection, SendRequest, handshake},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    error::Error,
    future::poll_fn,
    io,
    net::IpAddr,
    pin::{Pin, pin},
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    net::TcpStream,
    task::unconstrained,
    time::{Instant, timeout},
};
use tower_service::Service;
use url::{Position, Url};

/// Connections that lie idle, to all hosts together.
const IDLE_MAX: usize = 1_024;
/// A host that does not answer to this, three times, is gone, also in the middle of a long silence.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Of an answer that nobody wants: how long it is waited for, and how much of it is read.
const UNWANTED_WAIT: Duration = Duration::from_secs(1);
const UNWANTED_BYTES_MAX: usize = 16 << 10;

#[derive(Debug, Clone, Copy)]
pub struct ClientConfig {
    /// Until a connection stands, with its encryption.
    pub connect_timeout: Duration,
    /// How long the other side may say nothing, if there is a bound.
    pub read_timeout: Option<Duration>,
    /// How long a connection is kept that nobody uses.
    pub idle_timeout: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the address cannot be asked for: {0}")]
    Address(#[from] http::Error),
    /// Nothing was sent.
    #[error("no connection")]
    Connect(#[source] Box<dyn Error + Send + Sync>),
    #[error("no answer within {0:?}")]
    Silent(Duration),
    #[error("the connection broke")]
    Broken(#[from] hyper::Error),
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
}

impl ClientError {
    /// Whether the other side has surely not seen the request.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::Address(_) | Self::Connect(_))
    }
}

/// Clones share their connections.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

struct Shared {
    connector: HttpsConnector<HttpConnector<Resolver>>,
    config: ClientConfig,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// By what stands before the path; the last one was used last.
    lines: BTreeMap<String, Vec<(Box<Line>, Instant)>>,
    count: usize,
    is_swept: bool,
}

/// A connection.
struct Line {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once it has ended.
    connection: Option<Connection<MaybeHttpsStream<TokioIo<TcpStream>>, Full<Bytes>>>,
}

/// An answer, of which the body is still to come. Dropped before its end, it closes the connection.
pub struct Answer {
    pub head: response::Parts,
    body: Incoming,
    line: Box<Line>,
    origin: String,
    client: Client,
}

impl Client {
    /// A client that connects to those addresses of a name that may be reached. Fails if the machine gives no root certificates.
    pub fn new(
        config: ClientConfig,
        may_reach: impl Fn(&str, IpAddr) -> bool + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let mut connector = HttpConnector::new_with_resolver(Resolver::new(may_reach));
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(config.connect_timeout)); // shared by the addresses of a name
        connector.set_keepalive(Some(KEEPALIVE));
        connector.set_keepalive_interval(Some(KEEPALIVE));
        connector.set_keepalive_retries(Some(3));
        #[cfg(target_os = "linux")]
        connector.set_tcp_user_timeout(Some(2 * KEEPALIVE)); // nor does it take what is sent
        let encryption = HttpsConnectorBuilder::new()
            .with_provider_and_platform_verifier(rustls::crypto::ring::default_provider())?
            .https_or_http()
            .enable_http1();
        let connector = encryption.wrap_connector(connector);
        Ok(Self(Arc::new(Shared { connector, config, idle: Mutex::default() })))
    }

    /// Sends a request, whatever address it names, to this one; gives the answer before its body.
    pub async fn send(&self, url: &Url, mut request: Request<Full<Bytes>>) -> Result<Answer, ClientError> {
        let origin = format!("{}{}", &url[..Position::BeforeUsername], &url[Position::BeforeHost..Position::AfterPort]);
        *request.uri_mut() = url[Position::BeforePath..Position::AfterQuery].parse().map_err(http::Error::from)?;
        let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]).map_err(http::Error::from)?;
        request.headers_mut().entry(header::HOST).or_insert(host);
        loop {
            let idle = self.take(&origin);
            let was_idle = idle.is_some();
            let mut line = match idle {
                Some(line) => line,
                None => self.connect(&origin).await?,
            };
            if was_idle && !line.is_free().await {
                continue;
            }
            let sending = line.sender.try_send_request(request);
            match self.in_time(line.during(sending)).await? {
                Ok(answer) => {
                    let (head, body) = answer.into_parts();
                    return Ok(Answer { head, body, line, origin, client: self.clone() });
                }
                Err(mut refused) => match refused.take_message() {
                    Some(unsent) if was_idle => request = unsent, // closed at this moment
                    Some(_) => return Err(ClientError::Connect(refused.into_error().into())),
                    None => return Err(refused.into_error().into()),
                },
            }
        }
    }

    async fn connect(&self, origin: &str) -> Result<Box<Line>, ClientError> {
        let uri: Uri = origin.parse().map_err(http::Error::from)?;
        let mut connector = self.0.connector.clone();
        let connecting = async {
            poll_fn(|cx| connector.poll_ready(cx)).await?;
            Ok::<_, Box<dyn Error + Send + Sync>>(handshake(connector.call(uri).await?).await?)
        };
        let connected = timeout(self.0.config.connect_timeout, connecting).await;
        let connected = connected.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()));
        let (sender, connection) = connected.map_err(ClientError::Connect)?;
        Ok(Box::new(Line { sender, connection: Some(connection) }))
    }

    async fn in_time<O>(&self, answered: impl Future<Output = O>) -> Result<O, ClientError> {
        match self.0.config.read_timeout {
            Some(limit) => timeout(limit, answered).await.map_err(|_| ClientError::Silent(limit)),
            None => Ok(answered.await),
        }
    }

    fn take(&self, origin: &str) -> Option<Box<Line>> {
        let mut idle = self.0.idle.lock();
        let lines = idle.lines.get_mut(origin)?;
        let (line, since) = lines.pop()?;
        if lines.is_empty() {
            idle.lines.remove(origin);
        }
        idle.count -= 1;
        (since.elapsed() < self.0.config.idle_timeout).then_some(line) // those below it are older still: the sweep takes them
    }

    fn keep(&self, origin: String, line: Box<Line>) {
        let mut idle = self.0.idle.lock();
        if idle.count == IDLE_MAX {
            idle.drop_oldest();
        }
        idle.lines.entry(origin).or_default().push((line, Instant::now()));
        idle.count += 1;
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
    }
}

impl Idle {
    fn drop_oldest(&mut self) {
        let oldest = self.lines.iter().min_by_key(|(_, lines)| lines.first().map(|(_, since)| *since));
        let Some(origin) = oldest.map(|(origin, _)| origin.clone()) else { return };
        if let Some(lines) = self.lines.get_mut(&origin) {
            lines.remove(0);
            self.count -= 1;
            if lines.is_empty() {
                self.lines.remove(&origin);
            }
        }
    }
}

/// Closes what lies too long, until nothing lies there.
async fn sweep(shared: Weak<Shared>) {
    loop {
        let Some(idle_timeout) = shared.upgrade().map(|shared| shared.config.idle_timeout) else { return };
        tokio::time::sleep(idle_timeout / 2).await;
        let Some(shared) = shared.upgrade() else { return };
        let mut idle = shared.idle.lock();
        idle.lines.retain(|_, lines| {
            lines.retain(|(_, since)| since.elapsed() < idle_timeout);
            !lines.is_empty()
        });
        idle.count = idle.lines.values().map(Vec::len).sum();
        if idle.count == 0 {
            idle.is_swept = false;
            return;
        }
    }
}

impl Line {
    /// Polls the connection. One that has ended is dropped, which wakes the waiting task with an error.
    fn drive(&mut self, cx: &mut Context<'_>) {
        if self.connection.as_mut().is_some_and(|connection| Pin::new(connection).poll(cx).is_ready()) {
            self.connection = None;
        }
    }

    /// Waits for what comes over the connection.
    async fn during<O>(&mut self, awaited: impl Future<Output = O>) -> O {
        let mut awaited = pin!(awaited);
        poll_fn(|cx| {
            if let Poll::Ready(done) = awaited.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            self.drive(cx);
            awaited.as_mut().poll(cx)
        })
        .await
    }

    /// Whether another request may be sent. Looked at also by a task that has read enough for now.
    async fn is_free(&mut self) -> bool {
        unconstrained(poll_fn(|cx| {
            self.drive(cx);
            Poll::Ready(self.connection.is_some() && self.sender.is_ready())
        }))
        .await
    }
}

impl Answer {
    /// The whole body, up to the bound.
    pub async fn body(mut self, bytes_max: usize) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        while let Some(frame) = self.client.in_time(self.line.during(self.body.frame())).await? {
            let Ok(chunk) = frame?.into_data() else { continue };
            if body.len() + chunk.len() > bytes_max {
                return Err(ClientError::TooLarge(bytes_max));
            }
            body.extend_from_slice(&chunk);
        }
        if self.line.is_free().await {
            self.client.keep(self.origin, self.line);
        }
        Ok(body)
    }

    /// Nobody wants the body. A short one is read, so that the connection can be used again.
    pub async fn let_go(self) {
        let _closed = timeout(UNWANTED_WAIT, self.body(UNWANTED_BYTES_MAX)).await;
    }
}
