//! The floor: what calls over HTTP with a synced log cost at least.
//!
//! A counter behind a bare HTTP server: each call is appended to the [raw log](crate::raw) and answered once its group is
//! synced. No worlds, no history, no checks: what a durable service pays for besides is seen against it.

use super::node::NodeSettings;
use crate::raw::{RawLog, Room};
use std::{
    error::Error,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// As large as the records of a small event.
const RECORD_BYTES: usize = 300;

/// Serves until it is killed.
pub(crate) fn floor(settings: &NodeSettings) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(&settings.data)?;
    let (log, _writer) = RawLog::open(&settings.data.join("log"), Room::Preallocated)?;
    let count = Arc::new(AtomicU64::new(0));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        eprintln!("API at http://{}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(talk(stream, log.clone(), count.clone()));
        }
    })
}

async fn talk(mut stream: TcpStream, log: RawLog, count: Arc<AtomicU64>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut heard = Vec::with_capacity(4_096);
    while stream.read_buf(&mut heard).await? > 0 {
        while let Some(end) = request_end(&heard)? {
            heard.drain(..end);
            log.append(vec![7; RECORD_BYTES]).await;
            let body = (count.fetch_add(1, Ordering::Relaxed) + 1).to_string();
            let length = body.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await?;
        }
    }
    Ok(())
}

/// Where the first request ends, if all of it is there.
fn request_end(heard: &[u8]) -> io::Result<Option<usize>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = request.parse(heard).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let httparse::Status::Complete(body) = parsed else { return Ok(None) };
    let length = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| str::from_utf8(header.value).ok()?.parse::<usize>().ok()).unwrap_or(0);
    Ok(Some(body + length).filter(|end| *end <= heard.len()))
}
