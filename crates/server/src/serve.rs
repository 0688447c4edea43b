//! Sockets: HTTP/1.1 with or without TLS, and the limits that keep slow and many clients from holding the server.

use crate::config::TlsConfig;
use axum::response::Response;
use hyper::{Request, body::Incoming, server::conn::http1, service::Service};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, io, net::SocketAddr, path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
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
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout).max_buf_size(limits.head_bytes_max);
    let connection = http.serve_connection(TokioIo::new(stream), app);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = told(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
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
