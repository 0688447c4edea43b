//! `mundi config`: the effective configuration and all keys.

use super::{
    ServerArgs,
    exit::{Failed, Outcome},
    output::{Out, print},
};
use clap::{Args, Subcommand};
use mundi_server::config::{Setting, settings};
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(super) enum ConfigCommand {
    /// Prints the effective configuration, with secrets masked.
    Show(Show),
}

#[derive(Args)]
pub(super) struct Show {
    #[command(flatten)]
    args: ServerArgs,
    /// Every key with its value, its default, its environment variable, and what it does.
    #[arg(long)]
    all: bool,
}

impl Show {
    pub(super) fn run(&self, out: Out) -> Outcome {
        let config = self.args.load()?;
        let failed = |error| Failed::coded(&error);
        if !self.all {
            return print(&config.show().map_err(failed)?);
        }
        let settings = settings(&config).map_err(failed)?;
        if out.is_json() {
            let rows: Vec<Value> = settings.iter().map(document).collect();
            return out.rows(&[], &rows, &Value::Null);
        }
        print(&settings.iter().map(|setting| lines(out, setting)).collect::<Vec<_>>().join("\n\n"))
    }
}

fn document(setting: &Setting) -> Value {
    let Setting { key, environment, what, value, default } = setting;
    json!({ "key": key, "value": value, "default": default, "environment": environment, "what": what })
}

fn lines(out: Out, setting: &Setting) -> String {
    let Setting { key, environment, what, value, default } = setting;
    let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "(not set)".to_owned());
    let default = if value == default { String::new() } else { format!("\n    default: {}", shown(default)) };
    format!("{} = {}{default}\n    {}\n    {what}", out.bold(key), shown(value), out.dim(environment))
}
