//! One client on standard input and output: a message in each line.

use super::{
    Session,
    protocol::{Message, answer},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{self, BufRead, Read, Write},
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::{AbortHandle, JoinSet},
    time::timeout,
};

/// The longest message of a client.
const MESSAGE_BYTES_MAX: u64 = 4 << 20;

/// Requests that are answered at a time. While there are as many, nothing more is read.
const REQUESTS_MAX: usize = 64;

/// Messages that wait for a slow reader, or to be read.
const MESSAGES_AHEAD: usize = 64;

/// How long a client that ended its input may still wait for answers.
const GRACE: Duration = Duration::from_secs(1);

/// Serves one client until it hangs up. What takes longer than a moment then is dropped.
pub async fn serve_stdio(session: Session) -> io::Result<()> {
    let (mut lines, (answers, is_written)) = (lines(), written());
    let (mut running, free) = (JoinSet::new(), Arc::new(Semaphore::new(REQUESTS_MAX)));
    let mut cancel: BTreeMap<String, AbortHandle> = BTreeMap::new();
    while let Some(line) = lines.recv().await {
        match Message::read(&line?) {
            Ok(Message::Request { id, method, params }) => {
                let (session, answers, name) = (session.clone(), answers.clone(), id.to_string());
                let place = free.clone().acquire_owned().await;
                let task = running.spawn(async move {
                    let _place = place;
                    // A client that does not read any more has hung up.
                    let _gone = answers.send(answer(&session, id, &method, params).await).await;
                });
                cancel.retain(|_, task| !task.is_finished());
                cancel.insert(name, task);
            }
            Ok(Message::Notification { method, params }) => {
                if method == "notifications/cancelled"
                    && let Some(task) = cancel.remove(&params["requestId"].to_string())
                {
                    task.abort();
                }
            }
            Err(refusal) => {
                let _gone = answers.send(refusal).await;
            }
        }
        while running.try_join_next().is_some() {}
        if answers.is_closed() {
            break;
        }
    }
    let ended = async {
        while running.join_next().await.is_some() {}
        drop(answers);
        is_written.await
    };
    let _late = timeout(GRACE, ended).await;
    Ok(())
}

/// The lines of standard input, read by a thread: a runtime could not stop waiting for them.
fn lines() -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(MESSAGES_AHEAD);
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = (&mut input).take(MESSAGE_BYTES_MAX).read_until(b'\n', &mut line);
            let line = match read {
                Ok(0) => return,
                Ok(_) if !line.ends_with(b"\n") && line.len() as u64 == MESSAGE_BYTES_MAX => {
                    Err(io::Error::other(format!("a message has at most {MESSAGE_BYTES_MAX} bytes")))
                }
                Ok(_) if line.trim_ascii().is_empty() => continue,
                Ok(_) => Ok(line),
                Err(error) => Err(error),
            };
            let is_over = line.is_err();
            if sender.blocking_send(line).is_err() || is_over {
                return;
            }
        }
    });
    receiver
}

/// Writes answers to standard output, by a thread: a client that does not read blocks nobody else. The receiver ends when all are written.
fn written() -> (mpsc::Sender<Value>, oneshot::Receiver<()>) {
    let (sender, mut receiver) = mpsc::channel::<Value>(MESSAGES_AHEAD);
    let (writing, is_written) = oneshot::channel();
    thread::spawn(move || {
        let _writing: oneshot::Sender<()> = writing;
        let mut output = io::stdout().lock();
        while let Some(answer) = receiver.blocking_recv() {
            let line = format!("{answer}\n");
            if output.write_all(line.as_bytes()).and_then(|()| output.flush()).is_err() {
                return;
            }
        }
    });
    (sender, is_written)
}
