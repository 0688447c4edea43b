//! The external service of effects: an HTTP server on loopback that answers every request alike, at a low scheduling priority, because
//! a real one would run on another machine.

use crate::machine::Polite;
use std::{io, thread};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// Serves until this process ends; says where.
pub(crate) fn start() -> io::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let url = format!("http://{}/", listener.local_addr()?);
    thread::spawn(move || {
        let _polite = Polite::begin();
        runtime.block_on(async {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(talk(stream));
            }
        });
    });
    Ok(url)
}

/// Requests have no body: each ends with an empty line.
async fn talk(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut heard, mut room) = (Vec::new(), [0; 4_096]);
    loop {
        let read = stream.read(&mut room).await?;
        if read == 0 {
            return Ok(());
        }
        heard.extend_from_slice(&room[..read]);
        while let Some(end) = heard.windows(4).position(|window| window == b"\r\n\r\n") {
            heard.drain(..end + 4);
            stream.write_all(ANSWER).await?;
        }
    }
}
