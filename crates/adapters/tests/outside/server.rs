//! A real HTTP server on 127.0.0.1, small enough to read: it answers by path, and remembers what it was asked.

use parking_lot::Mutex;
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// The response to a request: the status line and headers, and the body.
pub(crate) type Respond = fn(&Asked) -> (String, Vec<u8>);

impl Server {
    pub(crate) async fn start(respond: Respond) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let asked = server.asked.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, asked.clone(), respond));
            }
        });
        server
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }
}

async fn serve(stream: TcpStream, asked: Arc<Mutex<Vec<Asked>>>, respond: Respond) {
    let mut stream = BufReader::new(stream);
    let Some(request) = read(&mut stream).await else { return };
    asked.lock().push(request.clone());
    if request.line.contains("/hang") {
        std::future::pending::<()>().await;
    }
    let (head, body) = respond(&request);
    let length =
        if head.contains("content-length") { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    let head = format!("HTTP/1.1 {head}\r\n{length}connection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(&body).await;
    let _ = stream.flush().await;
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        match header.trim().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Asked { line: line.trim().to_owned(), headers, body: String::from_utf8(body).unwrap() })
}
