//! A small outside world on this machine, which the examples share.

use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
};

/// A request to the outside world.
pub struct Request {
    /// Method and path, such as `POST /charge`.
    pub line: String,
    /// The same for each attempt at one effect: whoever has seen it does not act again.
    pub idempotency_key: String,
    /// As whom it was called.
    pub host: String,
    pub body: Value,
}

/// A status and a body.
pub type Answer = (u16, String);

/// The words of a model, as such endpoints stream it, and the tokens that they took.
pub fn streamed(delta: &Value, tokens: u64) -> String {
    let chunk = json!({ "model": "fake", "choices": [{ "index": 0, "delta": delta, "finish_reason": "stop" }] });
    let usage = json!({ "choices": [], "usage": { "total_tokens": tokens } });
    format!("data: {chunk}\n\ndata: {usage}\n\ndata: [DONE]\n\n")
}

/// Serves HTTP on a free port of this machine until the program ends.
pub fn outside(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || drop(serve(&stream, &*answer)));
        }
    });
    Ok(address)
}

fn serve(stream: &TcpStream, answer: &dyn Fn(&Request) -> Answer) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let (mut idempotency_key, mut host, mut length) = (String::new(), String::new(), 0);
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        match header.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap_or(0),
            Some((name, value)) if name.eq_ignore_ascii_case("idempotency-key") => idempotency_key = value.to_owned(),
            Some((name, value)) if name.eq_ignore_ascii_case("host") => host = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let line = line.rsplit_once(' ').map_or_else(String::new, |(line, _)| line.to_owned());
    let request = Request { line, idempotency_key, host, body: serde_json::from_slice(&body).unwrap_or(Value::Null) };
    let (status, text) = answer(&request);
    let head = format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", text.len());
    let mut stream = stream;
    stream.write_all(format!("{head}{text}").as_bytes())
}

/// The program on the page of the SDK in Rust is compiled and tested as it stands there.
#[cfg(doctest)]
#[doc = include_str!("../../docs/reference/sdk-rust.md")]
struct SdkPage;

/// The program in Rust on the page for those who come from other tools.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guides/from-other-tools.md")]
struct OtherTools;
