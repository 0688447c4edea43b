//! `mundi universe events`: what changes in a universe, as it happens.

use super::{
    client::Server,
    exit::Outcome,
    output::{Out, print},
};
use clap::Args;
use mundi_model::Code;
use reqwest::Method;
use serde_json::Value;
use std::time::Duration;

/// Between two streams.
const PAUSE: Duration = Duration::from_millis(300);

#[derive(Args)]
pub(super) struct Events {
    #[command(flatten)]
    server: Server,
    /// Also after the server was restarted, until it is interrupted; otherwise it ends with the stream.
    #[arg(long)]
    follow: bool,
    /// Ends after so many events. The first one names everything.
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
}

impl Events {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let (mut left, mut has_begun) = (self.count.unwrap_or(u64::MAX), false);
        loop {
            match self.stream(out, &mut left, &mut has_begun).await {
                // Nobody answers: it may come back, if it was there.
                Err(failed) if has_begun && self.follow && failed.is_silent() => {}
                Err(failed) if has_begun && self.follow && failed.code == Some(Code::NodeDraining) => {}
                ended => ended?,
            }
            if left == 0 || !self.follow {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn stream(&self, out: Out, left: &mut u64, has_begun: &mut bool) -> Outcome {
        let accept = [("accept", "text/event-stream")];
        let mut answer = self.server.ask_with(Method::GET, &self.server.of("events"), &accept, None).await?;
        *has_begun = true;
        let mut waiting = Vec::new();
        while *left > 0
            && let Ok(Some(piece)) = answer.chunk().await
        {
            waiting.extend_from_slice(&piece);
            while let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = waiting.drain(..=end).collect();
                let Some(data) = line.strip_prefix(b"data:").filter(|_| *left > 0) else { continue };
                let event: Value = serde_json::from_slice(data)?;
                print(&if out.is_json() { event.to_string() } else { for_people(&event) })?;
                *left -= 1;
            }
        }
        Ok(())
    }
}

/// `worlds (alice, w_…, and others) timers`.
fn for_people(event: &Value) -> String {
    let items = |field: &str| event[field].as_array().map_or(&[][..], Vec::as_slice);
    let worlds = items("worlds").iter().filter_map(|world| world["name"].as_str().or(world["world"].as_str()));
    let more = (event["more_worlds"] == true).then_some("others");
    let worlds = worlds.chain(more).collect::<Vec<_>>().join(", ");
    let told = items("changed").iter().filter_map(Value::as_str).map(|changed| match changed {
        "worlds" if !items("worlds").is_empty() => format!("worlds ({worlds})"),
        changed => changed.to_owned(),
    });
    told.collect::<Vec<_>>().join(" ")
}
