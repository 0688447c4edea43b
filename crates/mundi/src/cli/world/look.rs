//! What a world holds and what happened in it.

use super::{
    super::{
        client::{Paging, escape},
        exit::{Failed, Outcome},
        output::Out,
    },
    World,
};
use clap::Args;
use serde_json::{Value, json};

#[derive(Args)]
pub(crate) struct Journal {
    #[command(flatten)]
    of: World,
    /// The first height.
    #[arg(long, default_value_t = 0)]
    from: u64,
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

impl Journal {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, from, limit } = self;
        let (mut records, mut next) = (Vec::new(), json!(from));
        while !next.is_null() && records.len() < limit {
            let size = (limit - records.len()).min(1_000);
            let from = next.as_str().map_or_else(|| next.to_string(), str::to_owned);
            let page = of.get(&format!("/journal?from={from}&limit={size}")).await?;
            records.extend(page["items"].as_array().cloned().unwrap_or_default());
            next = page["next"].clone();
        }
        if out.is_json() {
            return out.rows(&[], &records, &next);
        }
        let row = |record: &Value| json!({ "height": record["height"], "type": record["type"], "what": what(record) });
        let rows: Vec<Value> = records.iter().map(row).collect();
        out.rows(&[("HEIGHT", "height"), ("TYPE", "type"), ("WHAT", "what")], &rows, &Value::Null)?;
        if let Some(next) = next.as_str() {
            eprintln!("{}", out.dim(&format!("more: --from {next}")));
        }
        Ok(())
    }
}

/// The gist of a record, in one line.
fn what(record: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let input = &record["input"];
    match record["type"].as_str().unwrap_or_default() {
        "ingress" if !input["event"].is_null() => format!("event {} {}", text(&input["event"]), input["value"]),
        "ingress" if !input["receipt"].is_null() => {
            format!("receipt {} {} {}", text(&input["status"]), text(&input["kind"]), input["payload"])
        }
        "ingress" if !input["timer"].is_null() => format!("timer {}", input["payload"]),
        "ingress" if !input["message"].is_null() => format!("message {} {}", text(&input["message"]), input["payload"]),
        "ingress" if !input["operator"].is_null() => {
            format!(
                "control {} {} by {}",
                text(&input["control"]),
                text(&input["input"]),
                text(&input["operator"]["name"])
            )
        }
        "ingress" => format!("control {}", text(&input["control"])),
        "intent" => format!("{} {}", text(&record["kind"]), record["params"]),
        "reply" => match &record["outcome"]["ok"] {
            Value::Null => format!("failed {}", text(&record["outcome"]["code"])),
            answer => answer.to_string(),
        },
        "fork_genesis" => format!("from {} at {}", text(&record["parent"]), record["forked_at"]),
        "manifest_change" => format!("to {}", text(&record["to"])),
        "outcome_digest" => text(&record["digest"]),
        "held" if !input.is_null() => {
            format!("at {}: {} {}", text(&input["what"]), text(&record["code"]), text(&record["reason"]))
        }
        "rejected" | "step_failed" | "held" => format!("{} {}", text(&record["code"]), text(&record["reason"])),
        "snapshot" | "baseline_snapshot" => format!("at {}", record["snapshot"]["height"]),
        "genesis" => format!("manifest {}", text(&record["manifest"])),
        _ => String::new(),
    }
}

#[derive(Args)]
pub(crate) struct Cells {
    #[command(flatten)]
    of: World,
    #[command(flatten)]
    paging: Paging,
    /// Only keys that begin so.
    #[arg(long)]
    prefix: Option<String>,
    /// As they were when this was the next height.
    #[arg(long)]
    at: Option<u64>,
}

impl Cells {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, paging, prefix, at } = self;
        let filters = [("prefix", prefix), ("at", at.map(|at| at.to_string()))];
        of.server.list(out, &of.path("/cells"), &filters, &paging, &[("KEY", "key"), ("VALUE", "value")]).await
    }
}

#[derive(Args)]
pub(crate) struct Diff {
    #[command(flatten)]
    of: World,
    /// The other world; the same one if it is not given.
    with: Option<String>,
    /// The height of the first.
    #[arg(long)]
    at: Option<u64>,
    /// The height of the other.
    #[arg(long)]
    with_at: Option<u64>,
    /// End with 9 if anything differs.
    #[arg(long)]
    exit_code: bool,
}

impl Diff {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, with, at, with_at, exit_code } = self;
        let given = [
            ("with", with.map(|with| escape(&with))),
            ("at", at.map(|at| at.to_string())),
            ("with_at", with_at.map(|at| at.to_string())),
        ];
        let given = given.into_iter().filter_map(|(name, value)| Some(format!("&{name}={}", value?)));
        let found = of.get(&format!("/diff?limit=1000{}", given.collect::<String>())).await?;
        let found = found.as_array().cloned().unwrap_or_default();
        out.rows(&[("KEY", "key"), ("LEFT", "left"), ("RIGHT", "right")], &found, &Value::Null)?;
        if exit_code && !found.is_empty() {
            return Err(Failed::differs(format!("cells that differ: {}", found.len())));
        }
        Ok(())
    }
}

/// Where a world comes from and what was forked from it: the nearest first.
pub(super) async fn lineage(of: &World, out: Out) -> Outcome {
    let family = of.get("/lineage").await?;
    if out.is_json() {
        return out.object(&family);
    }
    let related = |members: &Value, first: &str, others: &str| -> Vec<Value> {
        let members = members.as_array().into_iter().flatten().enumerate();
        let row = |(at, member): (usize, &Value)| {
            let relation = if at == 0 { first } else { others };
            json!({ "relation": relation, "world": member["world"], "forked_at": member["forked_at"] })
        };
        members.map(row).collect()
    };
    let rows = [related(&family["ancestors"], "parent", "ancestor"), related(&family["children"], "child", "child")];
    let columns = [("RELATION", "relation"), ("WORLD", "world"), ("FORKED AT", "forked_at")];
    out.rows(&columns, &rows.concat(), &Value::Null)?;
    if family["more_children"] == true {
        eprintln!("{}", out.dim(&format!("more: mundi world list --parent {}", of.world)));
    }
    Ok(())
}
