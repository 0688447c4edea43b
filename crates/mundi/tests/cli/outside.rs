//! An HTTP service for programs to ask: what it was asked is there to be looked at, and it can be made to wait.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
};

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    /// The name of the effect: the same for each attempt.
    pub(crate) key: String,
    pub(crate) body: String,
}

#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    opened: Condvar,
}

pub(crate) struct Outside {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    gate: Arc<Gate>,
}

impl Outside {
    /// Answers each request with a content type and a body.
    pub(crate) fn start(answer: fn(&Asked) -> (&'static str, String)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, gate) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::<Gate>::default());
        let (notes, doorkeeper) = (asked.clone(), gate.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (notes, gate) = (notes.clone(), doorkeeper.clone());
                std::thread::spawn(move || serve(stream, answer, &notes, &gate));
            }
        });
        Self { url, asked, gate }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// While it is closed, requests are taken in and wait for their answers.
    pub(crate) fn close(&self) {
        *self.gate.is_closed.lock().unwrap() = true;
    }

    pub(crate) fn open(&self) {
        *self.gate.is_closed.lock().unwrap() = false;
        self.gate.opened.notify_all();
    }
}

/// A connection that breaks is the business of whoever broke it.
fn serve(
    stream: TcpStream,
    answer: fn(&Asked) -> (&'static str, String),
    notes: &Mutex<Vec<Asked>>,
    gate: &Gate,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let asked = read(&mut reader)?;
        notes.lock().unwrap().push(asked.clone());
        let mut is_closed = gate.is_closed.lock().unwrap();
        while *is_closed {
            is_closed = gate.opened.wait(is_closed).unwrap();
        }
        drop(is_closed);
        let (content_type, body) = answer(&asked);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).ok()?;
    }
}

fn read(reader: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|bytes| *bytes > 0)?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match &*name.to_ascii_lowercase() {
            "idempotency-key" => key = value.to_owned(),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { path, key, body: String::from_utf8(body).ok()? })
}
