//! `mundi universe quotas`, and quotas as they are written on the command line.

use super::{client::Server, exit::Outcome, output::Out};
use clap::Subcommand;
use mundi_server::quotas::Quota;
use reqwest::Method;
use serde_json::{Map, Value};
use std::str::FromStr;

#[derive(Subcommand)]
pub(super) enum QuotasCommand {
    /// All quotas of the universe, with what counts against them.
    Show {
        #[command(flatten)]
        server: Server,
    },
    /// Sets quotas of the universe. Those that are not named stay as they are.
    Set {
        #[command(flatten)]
        server: Server,
        /// Such as `worlds_max=100`, or `worlds_max=default` for what the server's configuration says; once for each quota.
        #[arg(required = true, value_name = "NAME=NUMBER|default")]
        quotas: Vec<QuotaSetting>,
    },
}

impl QuotasCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Show { server } => {
                let found = server.get(&server.of("quotas")).await?;
                let row = |(name, used): (&String, &Value)| {
                    let set = &found["set"][name];
                    serde_json::json!({ "quota": name, "limit": used["limit"], "current": used["current"], "set": set })
                };
                let rows: Vec<Value> = found["quotas"].as_object().into_iter().flatten().map(row).collect();
                let columns = [("QUOTA", "quota"), ("LIMIT", "limit"), ("CURRENT", "current"), ("SET", "set")];
                out.rows(&columns, &rows, &Value::Null)
            }
            Self::Set { server, quotas } => {
                let before = server.get(&server.of("quotas")).await?["set"].clone();
                let path = format!("/v1/universes/{}/quotas", server.universe());
                server.json(Method::PUT, &path, Some(&changed(before, &quotas))).await.map(drop)
            }
        }
    }
}

/// One quota: `NAME=NUMBER`, or `NAME=default`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuotaSetting {
    name: &'static str,
    value: Option<u64>,
}

impl FromStr for QuotaSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Quota::ALL.iter().map(|quota| quota.as_str());
        let (name, value) = text.split_once('=').ok_or("expected NAME=NUMBER")?;
        let name = names().find(|known| *known == name);
        let name = name.ok_or_else(|| format!("expected one of {}", names().collect::<Vec<_>>().join(", ")))?;
        match value {
            "default" => Ok(Self { name, value: None }),
            number => match number.parse() {
                Ok(number) => Ok(Self { name, value: Some(number) }),
                Err(_) => Err(format!("`{number}` is no number that is not negative, and not `default`")),
            },
        }
    }
}

/// The quotas as they are sent.
pub(super) fn object_of(settings: &[QuotaSetting]) -> Value {
    changed(Value::Null, settings)
}

/// The settings of before, with the new ones.
pub(super) fn changed(before: Value, settings: &[QuotaSetting]) -> Value {
    let mut quotas = match before {
        Value::Object(quotas) => quotas,
        _ => Map::new(),
    };
    for QuotaSetting { name, value } in settings {
        match value {
            Some(value) => quotas.insert((*name).to_owned(), (*value).into()),
            None => quotas.remove(*name),
        };
    }
    Value::Object(quotas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_names_a_quota_and_a_number() {
        let parse = |text: &str| text.parse::<QuotaSetting>();
        let settings = [parse("worlds_max=3").unwrap(), parse("calls_max=default").unwrap()];
        let before = serde_json::json!({ "calls_max": 1, "blobs_max": 2 });
        assert_eq!(changed(before, &settings), serde_json::json!({ "blobs_max": 2, "worlds_max": 3 }));
        assert_eq!(object_of(&settings), serde_json::json!({ "worlds_max": 3 }));
        for wrong in ["worlds_max", "worlds=3", "worlds_max=-1", "worlds_max=", "worlds_max=many"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
