//! `mundi function`: instances of durable functions.

use super::{
    client::{Paging, Server, escape, json_of, value},
    exit::{Failed, Outcome},
    output::{Out, time},
    world::brief,
};
use clap::{Args, Subcommand};
use mundi_model::{Code, Moment};
use reqwest::Method;
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(super) enum FunctionCommand {
    /// Cancels an instance; its cleanup runs.
    Cancel {
        #[command(flatten)]
        of: Instance,
        /// The reason that the function gets.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Prints an instance, and every await on record.
    Describe {
        #[command(flatten)]
        of: Instance,
    },
    /// Lists instances with their state and what they wait for.
    List {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        paging: Paging,
        /// The id or the name of a world.
        world: String,
        /// Only instances of this function.
        #[arg(long)]
        function: Option<String>,
        /// Only those in this state.
        #[arg(long, value_parser = ["running", "done", "failed", "cancelled", "diverged"])]
        state: Option<String>,
    },
    /// Pauses an instance: it keeps what comes in, and does not go on.
    Pause {
        #[command(flatten)]
        of: Instance,
    },
    /// Lets a paused instance go on.
    Resume {
        #[command(flatten)]
        of: Instance,
    },
    /// Runs a function under a key and prints its result. The same key finds the instance again.
    Run(Run),
}

/// An instance in a world.
#[derive(Args)]
pub(super) struct Instance {
    #[command(flatten)]
    server: Server,
    /// The id or the name of a world.
    world: String,
    /// The instance: FUNCTION/KEY.
    instance: String,
}

#[derive(Args)]
pub(super) struct Run {
    #[command(flatten)]
    server: Server,
    /// The name of the function.
    function: String,
    /// The input: JSON; anything else is sent as a string.
    #[arg(allow_negative_numbers = true)]
    value: Option<String>,
    /// The key of the instance.
    #[arg(long, allow_negative_numbers = true)]
    key: String,
    /// The id or the name of the world; by default FUNCTION-KEY, a world for this instance alone.
    #[arg(long)]
    world: Option<String>,
    /// The program of the world, if there is none yet: `shop`, the newest version, or `shop@2`.
    #[arg(long)]
    program: Option<String>,
    /// How long to wait for the result: `250ms`, `30s`, `5m`.
    #[arg(long, default_value = "30s")]
    timeout: String,
}

fn path(server: &Server, world: &str, instance: &str) -> String {
    let (function, key) = instance.split_once('/').unwrap_or((instance, ""));
    server.of(&format!("worlds/{}/functions/{}/{}", escape(world), escape(function), escape(key)))
}

impl Instance {
    fn path(&self) -> String {
        path(&self.server, &self.world, &self.instance)
    }

    async fn command(&self, out: Out, method: Method, query: &str) -> Outcome {
        out.object(&self.server.json(method, &format!("{}{query}", self.path()), None).await?)
    }
}

impl FunctionCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Cancel { of, reason } => {
                let query = reason.map_or_else(String::new, |reason| format!("?reason={}", escape(&reason)));
                of.command(out, Method::DELETE, &query).await
            }
            Self::Describe { of } => describe(&of, out).await,
            Self::List { server, paging, world, function, state } => {
                let filters = [("function", function), ("state", state)];
                let list = server.of(&format!("worlds/{}/functions", escape(&world)));
                let (mut rows, next) = server.pages(&list, &filters, &paging).await?;
                if !out.is_json() {
                    rows.iter_mut().for_each(shorten);
                }
                let columns = [
                    ("INSTANCE", "instance"),
                    ("STATE", "state"),
                    ("AWAITS", "awaits"),
                    ("WAITS FOR", "waits"),
                    ("BEGAN", "began"),
                    ("ENDED", "ended"),
                    ("STATUS", "status"),
                ];
                out.rows(&columns, &rows, &next)
            }
            Self::Pause { of } => {
                let mut paused = of.server.json(Method::PUT, &format!("{}?paused=true", of.path()), None).await?;
                if !out.is_json() {
                    paused["state"] = format!("{}, paused", paused["state"].as_str().unwrap_or_default()).into();
                }
                out.object(&paused)
            }
            Self::Resume { of } => of.command(out, Method::PUT, "?paused=false").await,
            Self::Run(run) => run.run(out).await,
        }
    }
}

/// Shortens the fields of a table.
fn shorten(row: &mut Value) {
    let wait = |wait: &Value| {
        let (kind, name) = (wait["kind"].as_str().unwrap_or_default(), wait["name"].as_str().unwrap_or_default());
        format!("{} {kind} {name}, for {} s", wait["number"], wait["waited_ms"].as_u64().unwrap_or(0) / 1_000)
    };
    let waits = row["waits"].as_array().map(|waits| waits.iter().map(wait).collect::<Vec<_>>().join(", "));
    row["waits"] = waits.unwrap_or_default().into();
    for moment in ["began", "ended"] {
        if let Some(exact) = row[moment].as_str() {
            // Milliseconds, as in all tables.
            row[moment] = exact.parse().map_or_else(|_| exact.into(), |Moment(ns)| time(ns).into());
        }
    }
    row["status"] = if row["status"].is_null() { "".into() } else { brief(&row["status"]).into() };
    if row["paused"] == true {
        row["state"] = format!("{}, paused", row["state"].as_str().unwrap_or_default()).into();
    }
}

async fn describe(of: &Instance, out: Out) -> Outcome {
    let mut found = of.server.get(&of.path()).await?;
    if out.is_json() {
        return out.object(&found);
    }
    let mut log = found["log"].take();
    shorten(&mut found);
    if let Some(found) = found.as_object_mut() {
        found.remove("log");
        found.retain(|_, part| !part.is_null() && part != "");
    }
    out.object(&found)?;
    let rows = log.as_array_mut().map(std::mem::take).unwrap_or_default();
    let columns = [
        ("AWAIT", "number"),
        ("KIND", "kind"),
        ("NAME", "name"),
        ("STATE", "state"),
        ("ATTEMPTS", "attempts"),
        ("AT HEIGHT", "ended_at"),
        ("VALUE", "value"),
    ];
    let brief_row = |mut row: Value| {
        row["value"] = if row["value"].is_null() { "".into() } else { brief(&row["value"]).into() };
        row
    };
    out.rows(&columns, &rows.into_iter().map(brief_row).collect::<Vec<_>>(), &Value::Null)
}

/// A function whose result did not come in time is no failure of it.
fn goes_on(failed: Failed) -> Failed {
    if failed.code != Some(Code::CallTimeout) {
        return failed;
    }
    Failed::new(
        Code::CallTimeout,
        format!("{}; the function goes on, and the same command waits for it again", failed.detail()),
    )
}

impl Run {
    async fn run(self, out: Out) -> Outcome {
        let Self { server, function, value: given, key, world, program, timeout } = self;
        let world = world.unwrap_or_else(|| format!("{function}-{key}"));
        let address = format!("{}?timeout={}", path(&server, &world, &format!("{function}/{key}")), escape(&timeout));
        let input = value(given)?;
        let first = server.ask(Method::POST, &address, Some(&input)).await;
        let answer = match (first, program) {
            (Err(Failed { code: Some(Code::WorldNotFound), .. }), Some(program)) => {
                // Whoever creates it at the same moment creates the same.
                server.post(&server.of("worlds"), &json!({ "world": world, "program": program })).await?;
                server.ask(Method::POST, &address, Some(&input)).await
            }
            (first, _) => first,
        };
        out.value(&json_of(answer.map_err(goes_on)?).await?)
    }
}
