//! A query whose rows are streamed, and what the server has in memory meanwhile.

use super::Server;
use std::{
    error::Error,
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

pub(super) struct Streamed {
    pub(super) rows: u64,
    pub(super) seconds: f64,
    /// The most memory that the server had beyond what it had before the query.
    pub(super) more_mib: f64,
}

/// Every row is an object on a line of its own.
const ROW: &[u8] = b"{\"";

pub(super) fn streamed(server: &Server, query: &str) -> Result<Streamed, Box<dyn Error>> {
    let body = serde_json::json!({ "query": query, "timeout_ms": 300_000 }).to_string();
    let mut connection = TcpStream::connect(server.address)?;
    let (before_mib, begun) = (server.resident_mib(), Instant::now());
    write!(
        connection,
        "POST /v1/u/default/sql HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\naccept: application/x-ndjson\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let (mut rows, mut most_mib, mut kept, mut all) = (0, before_mib, Vec::new(), vec![0; 1 << 16]);
    loop {
        let read = connection.read(&mut all)?;
        if read == 0 {
            break;
        }
        kept.extend_from_slice(&all[..read]);
        // Whole lines only; the lengths of chunks stand on lines of their own.
        let whole = kept.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in kept[..whole].split(|byte| *byte == b'\n') {
            if line.starts_with(b"{\"error\"") || line.starts_with(b"HTTP/1.1 4") {
                return Err(format!("{query}: {}", String::from_utf8_lossy(&kept)).into());
            }
            rows += u64::from(line.starts_with(ROW));
        }
        kept.drain(..whole);
        most_mib = server.resident_mib().max(most_mib);
    }
    Ok(Streamed { rows, seconds: begun.elapsed().as_secs_f64(), more_mib: most_mib - before_mib })
}
