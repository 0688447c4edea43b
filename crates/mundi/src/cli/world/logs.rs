//! `mundi world logs`: log lines of a world's program.

use super::{
    super::{
        exit::Outcome,
        output::{Out, print},
    },
    World,
};
use clap::Args;
use mundi_model::Code;
use reqwest::Method;
use serde_json::Value;
use std::time::Duration;

#[derive(Args)]
pub(crate) struct Logs {
    #[command(flatten)]
    of: World,
    /// Also print new lines, until interrupted.
    #[arg(long, short)]
    follow: bool,
    /// Only lines after the one with this number.
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// How many lines; without --after, the last ones.
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

/// The pause between two streams, so that a server which ends each at once is not polled in a loop.
const PAUSE: Duration = Duration::from_millis(200);

impl Logs {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, follow, after, limit } = self;
        let from = after.map_or_else(String::new, |after| format!("&after={after}"));
        let page = of.get(&format!("/logs?limit={limit}{from}")).await?;
        let lines = page["items"].as_array().cloned().unwrap_or_default();
        if !follow {
            let columns = [("HEIGHT", "height"), ("TIME", "at_ns"), ("LEVEL", "level"), ("TEXT", "text")];
            return out.rows(&columns, &lines, &page["next"]);
        }
        lines.iter().try_for_each(|line| tell(out, line))?;
        let mut seen = lines.last().map(|line| line["number"].clone()).and_then(|number| number.as_u64()).or(after);
        loop {
            match follow_on(&of, out, &mut seen).await {
                // Nobody answers, but somebody did: it may come back.
                Err(failed) if failed.is_silent() || failed.code == Some(Code::NodeDraining) => {}
                ended => ended?,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Prints lines until the stream ends, as each does after a while.
async fn follow_on(of: &World, out: Out, seen: &mut Option<u64>) -> Outcome {
    let from = seen.map_or_else(String::new, |seen| format!("?after={seen}"));
    let request = of.server.request(Method::GET, &of.path(&format!("/logs{from}")));
    let response = of.server.send(request.header("accept", "text/event-stream")).await;
    let mut response = response.map_err(|failed| of.told(failed))?;
    let mut unread = Vec::new();
    // A connection that breaks is made again, from the last line.
    while let Ok(Some(chunk)) = response.chunk().await {
        unread.extend_from_slice(&chunk);
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let text: Vec<u8> = unread.drain(..=end).collect();
            let Some(data) = text.strip_prefix(b"data:") else { continue };
            let line: Value = serde_json::from_slice(data)?;
            tell(out, &line)?;
            *seen = line["number"].as_u64().or(*seen);
        }
    }
    Ok(())
}

/// Prints one line at once.
fn tell(out: Out, line: &Value) -> Outcome {
    if out.is_json() {
        return print(&line.to_string());
    }
    let text = line["text"].as_str().unwrap_or_default();
    print(&format!("{} {:<5} {text}", line["height"], line["level"].as_str().unwrap_or_default()))
}
