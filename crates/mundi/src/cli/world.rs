//! `mundi world`: what people do with worlds first.

use super::{
    Outcome,
    client::{Answer, Server},
    print,
};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

#[derive(Args)]
pub(super) struct World {
    #[command(flatten)]
    server: Server,
    /// The id or the name of a world.
    world: String,
}

#[derive(Subcommand)]
pub(super) enum WorldCommand {
    /// Creates a world.
    Create {
        #[command(flatten)]
        server: Server,
        /// A name, or an id; drawn at random if it is not given.
        world: Option<String>,
        #[arg(long, default_value = "counter")]
        program: String,
    },
    /// Lists worlds.
    List {
        #[command(flatten)]
        server: Server,
    },
    /// All that is known about a world.
    Describe(World),
    /// Sends an event: durable when this returns.
    Send {
        #[command(flatten)]
        of: World,
        event: String,
        /// JSON; what is no JSON is taken as a text.
        value: Option<String>,
        /// Send it so much later: `10s`, `5m`.
        #[arg(long)]
        delay: Option<String>,
    },
    /// Sends an event and prints the reply.
    Call {
        #[command(flatten)]
        of: World,
        event: String,
        value: Option<String>,
        #[arg(long, default_value = "30s")]
        timeout: String,
    },
    /// Asks the program, now or at a height.
    Query {
        #[command(flatten)]
        of: World,
        query: String,
        params: Option<String>,
        #[arg(long)]
        at: Option<u64>,
    },
    /// Prints records, one per line.
    Journal {
        #[command(flatten)]
        of: World,
        #[arg(long, default_value_t = 0)]
        from: u64,
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Prints cells, one per line, now or at a height.
    Cells {
        #[command(flatten)]
        of: World,
        #[arg(long)]
        at: Option<u64>,
    },
    /// Forks a world at a height of its past.
    Fork {
        #[command(flatten)]
        of: World,
        /// The name or the id of the new one.
        child: Option<String>,
        #[arg(long)]
        at: Option<u64>,
    },
    /// Prints the cells that differ between two worlds, one per line.
    Diff {
        #[command(flatten)]
        of: World,
        with: String,
    },
    Pause(World),
    Resume(World),
    /// Deletes a world for good.
    Delete(World),
}

impl World {
    fn path(&self, rest: &str) -> String {
        self.server.of(&format!("worlds/{}{rest}", self.world))
    }

    async fn get(&self, rest: &str) -> Answer<Value> {
        self.server.json(Method::GET, &self.path(rest), None).await
    }

    async fn post(&self, rest: &str, body: &Value) -> Answer<Value> {
        self.server.json(Method::POST, &self.path(rest), Some(body)).await
    }
}

/// JSON where it is, else the text itself.
fn value(text: Option<String>) -> Value {
    text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn at(at: Option<u64>) -> String {
    at.map_or_else(String::new, |at| format!("?at={at}"))
}

fn print_lines(list: &Value) {
    list.as_array().into_iter().flatten().for_each(|item| print(&item.to_string()));
}

impl WorldCommand {
    pub(super) async fn run(self) -> Outcome {
        match self {
            Self::Create { server, world, program } => {
                let form = json!({ "world": world, "program": program });
                let created = server.json(Method::POST, &server.of("worlds"), Some(&form)).await?;
                print(created["world"].as_str().unwrap_or_default());
            }
            Self::List { server } => {
                let mut after = String::new();
                loop {
                    let path = format!("{}?limit=1000{after}", server.of("worlds"));
                    let page = server.json(Method::GET, &path, None).await?;
                    print_lines(&page["items"]);
                    let Some(next) = page["next"].as_str() else { break };
                    after = format!("&after={next}");
                }
            }
            Self::Describe(of) => print(&format!("{:#}", of.get("").await?)),
            Self::Send { of, event, value: given, delay } => {
                let delay = delay.map_or_else(String::new, |delay| format!("?delay={delay}"));
                print(&of.post(&format!("/send/{event}{delay}"), &value(given)).await?.to_string());
            }
            Self::Call { of, event, value: given, timeout } => {
                print(&of.post(&format!("/call/{event}?timeout={timeout}"), &value(given)).await?.to_string());
            }
            Self::Query { of, query, params, at: height } => {
                print(&of.post(&format!("/query/{query}{}", at(height)), &value(params)).await?.to_string());
            }
            Self::Journal { of, from, limit } => {
                print_lines(&of.get(&format!("/journal?from={from}&limit={limit}")).await?["items"]);
            }
            Self::Cells { of, at: height } => print_lines(&of.get(&format!("/cells{}", at(height))).await?["items"]),
            Self::Fork { of, child, at } => {
                let forked = of.post("/fork", &json!({ "world": child, "at": at })).await?;
                print(forked["world"].as_str().unwrap_or_default());
            }
            Self::Diff { of, with } => print_lines(&of.get(&format!("/diff?with={with}")).await?),
            Self::Pause(of) => drop(of.post("/pause", &Value::Null).await?),
            Self::Resume(of) => drop(of.post("/resume", &Value::Null).await?),
            Self::Delete(of) => drop(of.server.ask(Method::DELETE, &of.path(""), None).await?),
        }
        Ok(())
    }
}
