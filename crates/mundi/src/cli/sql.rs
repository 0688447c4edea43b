//! `mundi sql`: read-only SQL over a universe.

use super::{
    client::Server,
    exit::{Failed, Outcome},
    output::{Out, print},
};
use clap::{Args, ValueEnum};
use futures_util::StreamExt;
use mundi_model::Code;
use reqwest::Method;
use serde_json::{Value, json};
use std::io::{Read, Write};

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rows {
    Table,
    Json,
    Ndjson,
    Csv,
}

#[derive(Args)]
pub(crate) struct Sql {
    #[command(flatten)]
    server: Server,
    /// One SELECT, WITH or EXPLAIN; `-` reads it from standard input. Tables: worlds, labels, journal, cells, effects, attempts, timers, dead_letters,
    /// workers, leases, snapshots, children, functions, lineage, pools, pool_leases, pool_resources.
    query: String,
    /// How rows are printed; `json` is the default with --format json. `ndjson` and `csv` are printed as they come, however many there are.
    #[arg(long, value_enum)]
    rows: Option<Rows>,
    /// How long the query may take.
    #[arg(long)]
    timeout_ms: Option<u64>,
}

impl Sql {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { server, query, rows, timeout_ms } = self;
        let query = match &*query {
            "-" => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text)?;
                text
            }
            _ => query,
        };
        let body = json!({ "query": query, "timeout_ms": timeout_ms });
        let rows = rows.unwrap_or(if out.is_json() { Rows::Json } else { Rows::Table });
        match rows {
            Rows::Table => {
                let answer = server.post(&server.of("sql"), &body).await?;
                print(&table(&answer))
            }
            Rows::Json => print(&format!("{:#}", server.post(&server.of("sql"), &body).await?)),
            Rows::Ndjson => stream(&server, &body, "application/x-ndjson").await,
            Rows::Csv => stream(&server, &body, "text/csv").await,
        }
    }
}

/// Columns under their names.
fn table(answer: &Value) -> String {
    let cell = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let line = |row: &Value| row.as_array().into_iter().flatten().map(cell).collect::<Vec<_>>();
    let heads = line(&answer["columns"]);
    let rows: Vec<Vec<String>> = answer["rows"].as_array().into_iter().flatten().map(line).collect();
    let width = |at: usize| {
        let cells = rows.iter().chain([&heads]).filter_map(|row| row.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let padded = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    [&heads].into_iter().chain(&rows).map(padded).collect::<Vec<_>>().join("\n")
}

/// Prints what comes, as it comes. A failure in the middle is the last line of the answer.
async fn stream(server: &Server, body: &Value, accept: &str) -> Outcome {
    let headers = [("accept", accept)];
    let answer = server.ask_with(Method::POST, &server.of("sql"), &headers, Some(body)).await?;
    let (mut pieces, mut last) = (answer.bytes_stream(), Vec::new());
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        let begins = piece[..piece.len().saturating_sub(1)].iter().rposition(|byte| *byte == b'\n');
        match begins {
            Some(at) => last = piece[at + 1..].to_vec(),
            None => last.extend_from_slice(&piece),
        }
        match std::io::stdout().lock().write_all(&piece) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
            written => written?,
        }
    }
    let ended: Value = serde_json::from_slice(&last).unwrap_or_default();
    match ended["error"]["code"].as_str().and_then(Code::from_name) {
        Some(code) if ended.as_object().is_some_and(|fields| fields.len() == 1) => {
            Err(Failed::new(code, ended["error"]["detail"].as_str().unwrap_or_default()))
        }
        _ => Ok(()),
    }
}
