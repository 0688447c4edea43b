//! `mundi world child` and `mundi world budget`: runs that a world dispatches, and what they may spend.

use super::{
    super::{
        client::{Paging, escape, json_of, value},
        exit::{Failed, Outcome},
        output::{Out, print},
    },
    World,
};
use clap::{Args, Subcommand};
use mundi_model::Code;
use reqwest::Method;
use serde_json::{Map, Value, json};

#[derive(Subcommand)]
pub(crate) enum ChildCommand {
    /// Cancels a child, or all of a world; one that has ended stays as it is.
    Cancel {
        #[command(flatten)]
        of: World,
        /// As `mundi world child list` prints it.
        #[arg(required_unless_present = "all")]
        child: Option<String>,
        /// Cancels all children of the world that have not ended.
        #[arg(long, conflicts_with = "child")]
        all: bool,
        /// Sent again under this name, the request is recognized; it becomes the `cancel_request_id` of the events.
        #[arg(long, value_name = "NAME")]
        client_request_id: Option<String>,
    },
    /// Shows a child: its phase, its dispatch and how it ended.
    Describe(Child),
    /// Prints the events of a child (`urm-events@1`), one line of canonical JSON each.
    Events {
        #[command(flatten)]
        of: Child,
        /// Only events from this number on.
        #[arg(long, value_name = "SEQ", default_value_t = 0)]
        from: u64,
    },
    /// Lists the children of a world in the order in which they were spawned.
    List {
        #[command(flatten)]
        of: World,
        #[command(flatten)]
        paging: Paging,
    },
    /// Spawns a child in place of the world's program; the world journals it.
    Spawn(Spawn),
}

/// A child of a world.
#[derive(Args)]
pub(crate) struct Child {
    #[command(flatten)]
    of: World,
    /// As `mundi world child list` prints it.
    child: String,
}

#[derive(Args)]
pub(crate) struct Spawn {
    #[command(flatten)]
    of: World,
    /// `process`, `world`, `agent`, `external`, or `external.` and a name of your own.
    kind: String,
    /// Parameters of the kind: JSON; anything else is sent as a string.
    #[arg(allow_negative_numbers = true)]
    params: Option<String>,
    /// A limit of the child, such as `tokens=1000`; once for each lane.
    #[arg(long = "budget", value_name = "LANE=NUMBER")]
    budget: Vec<String>,
    /// Sent again under this name, the request returns the same child.
    #[arg(long, value_name = "NAME")]
    client_request_id: Option<String>,
}

impl ChildCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Cancel { of, child, all: _, client_request_id } => {
                let child = child.map(|child| format!("/{}", escape(&child))).unwrap_or_default();
                let body = with_name(json!({}), client_request_id);
                out.object(&of.post(&format!("/children{child}/cancel"), &body).await?)
            }
            Self::Describe(of) => out.object(&of.of.get(&of.path("")).await?),
            Self::Events { of, from } => of.events(from, out).await,
            Self::List { of, paging } => {
                let columns = [
                    ("CHILD", "child_id"),
                    ("LABEL", "label"),
                    ("KIND", "kind"),
                    ("PHASE", "phase"),
                    ("QUEUE", "queue_seq"),
                    ("DISPATCH", "dispatch_seq"),
                    ("OUTCOME", "outcome"),
                    ("CODE", "code"),
                ];
                of.server.list(out, &of.path("/children"), &[], &paging, &columns).await
            }
            Self::Spawn(spawn) => spawn.run(out).await,
        }
    }
}

impl Child {
    fn path(&self, rest: &str) -> String {
        format!("/children/{}{rest}", escape(&self.child))
    }

    async fn events(&self, from: u64, out: Out) -> Outcome {
        let rest = self.path(&format!("/events?from={from}"));
        if out.is_json() {
            return out.value(&self.of.get(&rest).await?);
        }
        print(self.of.text(&rest, "application/x-ndjson").await?.trim_end())
    }
}

impl Spawn {
    async fn run(self, out: Out) -> Outcome {
        let budget = amounts(&self.budget)?;
        let body = json!({ "kind": self.kind, "params": value(self.params)?, "budget": budget });
        let child = self.of.post("/children", &with_name(body, self.client_request_id)).await?;
        out.made(&child, "child_id")
    }
}

#[derive(Subcommand)]
pub(crate) enum BudgetCommand {
    /// Sets limits; what was spent stays.
    Set {
        #[command(flatten)]
        of: World,
        /// `solver_calls`, `duration_secs` or `tokens`, and a number, or `none` for no limit.
        #[arg(value_name = "LANE=NUMBER", required = true)]
        limits: Vec<String>,
        /// Sent again under this name, the request changes nothing.
        #[arg(long, value_name = "NAME")]
        client_request_id: Option<String>,
    },
    /// Shows what the children of a world have spent, and may spend.
    Show(World),
}

impl BudgetCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Set { of, limits, client_request_id } => {
                let body = with_name(json!({ "limits": amounts(&limits)? }), client_request_id);
                let answer = of.server.ask(Method::PUT, &of.path("/budget"), Some(&body)).await;
                show(out, &json_of(answer.map_err(|failed| of.told(failed))?).await?)
            }
            Self::Show(of) => show(out, &of.get("/budget").await?),
        }
    }
}

fn show(out: Out, budget: &Value) -> Outcome {
    if out.is_json() {
        return out.value(budget);
    }
    let lanes = budget["lanes"].as_array().cloned().unwrap_or_default();
    out.rows(&[("LANE", "lane"), ("TOTAL", "total"), ("LIMIT", "limit")], &lanes, &Value::Null)
}

fn with_name(mut body: Value, client_request_id: Option<String>) -> Value {
    if let Some(name) = client_request_id {
        body["client_request_id"] = name.into();
    }
    body
}

/// `lane=number` as JSON; `none` is null.
fn amounts(given: &[String]) -> Outcome<Map<String, Value>> {
    let amount = |text: &String| {
        let invalid = || Failed::new(Code::RequestInvalid, format!("`{text}` is not a lane and a number: tokens=1000"));
        let (lane, number) = text.split_once('=').ok_or_else(invalid)?;
        let number = match number {
            "none" => Value::Null,
            number => number.parse::<u64>().map_err(|_| invalid())?.into(),
        };
        Ok((lane.to_owned(), number))
    };
    given.iter().map(amount).collect()
}
