//! Every setting there is, from the types that the configuration is read into: so none can be missing.

use super::{Config, ConfigError};
use std::collections::BTreeMap;
use toml::{Table, Value};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{AdditionalProperties, Object, Schema},
    },
};

/// Something that can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Such as `api.bind`. A part in capitals stands for a name of one's choosing.
    pub key: String,
    /// The variable that sets it.
    pub environment: String,
    /// Its description.
    pub what: String,
    /// The value in force, as TOML; `None` if nothing was set. Secrets are masked.
    pub value: Option<String>,
    /// The value that would be in force if nobody had set it.
    pub default: Option<String>,
}

/// All settings, with what holds in a configuration.
pub fn settings(config: &Config) -> Result<Vec<Setting>, ConfigError> {
    let mut known = Vec::new();
    Config::schemas(&mut known);
    let mut reader = Reader {
        known: known.into_iter().collect(),
        holds: shown(config)?,
        defaults: shown(&Config::default())?,
        found: Vec::new(),
    };
    reader.section("", &Config::schema());
    Ok(reader.found)
}

/// The configuration as it is shown: with secrets masked.
fn shown(config: &Config) -> Result<Table, ConfigError> {
    config.show()?.parse().map_err(|error: toml::de::Error| ConfigError::new("configuration", error.to_string()))
}

struct Reader {
    known: BTreeMap<String, RefOr<Schema>>,
    holds: Table,
    defaults: Table,
    found: Vec<Setting>,
}

/// The kinds of parts of the configuration.
enum Part {
    Section(Object),
    /// Sections with names of one's choosing.
    Named(Object),
    Key,
}

impl Reader {
    fn section(&mut self, path: &str, schema: &RefOr<Schema>) {
        let Some(object) = self.object(schema) else { return };
        self.keys(path, &object);
    }

    fn keys(&mut self, path: &str, object: &Object) {
        for (name, schema) in &object.properties {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match self.part(schema) {
                Part::Section(inner) => self.keys(&path, &inner),
                Part::Named(inner) => self.keys(&format!("{path}.NAME"), &inner),
                Part::Key => self.found.push(self.setting(path, description(schema))),
            }
        }
    }

    fn part(&self, schema: &RefOr<Schema>) -> Part {
        let Some(object) = self.object(schema) else { return Part::Key };
        if !object.properties.is_empty() {
            return Part::Section(object);
        }
        let values = match object.additional_properties.as_deref() {
            Some(AdditionalProperties::RefOr(values)) => self.object(values),
            _ => None,
        };
        values.filter(|values| !values.properties.is_empty()).map_or(Part::Key, Part::Named)
    }

    fn object(&self, schema: &RefOr<Schema>) -> Option<Object> {
        match schema {
            RefOr::T(Schema::Object(object)) => Some(object.clone()),
            // A section with a description of its own is written so.
            RefOr::T(Schema::AllOf(all)) => all.items.first().and_then(|first| self.object(first)),
            RefOr::T(Schema::OneOf(one)) => one.items.first().and_then(|first| self.object(first)),
            RefOr::T(_) => None,
            RefOr::Ref(to) => self.object(self.known.get(to.ref_location.rsplit('/').next()?)?),
        }
    }

    fn setting(&self, key: String, what: String) -> Setting {
        let is_named = key.contains(".NAME.");
        let environment = match is_named {
            // Names such as `http.request` have no form in a variable.
            true => "in a file only".to_owned(),
            false => format!("MUNDI_{}", key.to_ascii_uppercase().replace('.', "__")),
        };
        let (value, default) = (at(&self.holds, &key), at(&self.defaults, &key));
        Setting { key, environment, what, value, default }
    }
}

fn description(schema: &RefOr<Schema>) -> String {
    let text = match schema {
        RefOr::T(Schema::Object(object)) => object.description.as_deref(),
        RefOr::T(Schema::Array(array)) => array.description.as_deref(),
        RefOr::T(Schema::AllOf(all)) => all.description.as_deref(),
        RefOr::T(Schema::OneOf(one)) => one.description.as_deref(),
        RefOr::T(_) => None,
        RefOr::Ref(to) => Some(&*to.description),
    };
    text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The value at a key, as it would be written.
fn at(table: &Table, key: &str) -> Option<String> {
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    match (table.get(first)?, rest) {
        (Value::Table(inner), Some(rest)) => at(inner, rest),
        (value, None) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_listed_says_what_it_does_and_can_be_set_by_its_variable() {
        let all = settings(&Config::default()).unwrap();
        let mut leaves = Vec::new();
        keys("", &shown(&Config::default()).unwrap(), &mut leaves);
        for key in leaves {
            assert!(all.iter().any(|setting| setting.key == key), "{key} is not listed");
        }
        let unset = Config::load(None, [], &[]).unwrap();
        for Setting { key, environment, what, default, .. } in &all {
            assert!(what.len() > 10, "{key} does not say what it does");
            let Some(default) = default.as_ref().filter(|_| environment.starts_with("MUNDI_")) else { continue };
            let loaded = Config::load(None, [(environment.clone(), default.clone())], &[]);
            assert_eq!(loaded.unwrap(), unset, "{environment}={default}");
        }
        assert!(all.len() > 60, "only {} keys", all.len());
        assert!(all.iter().any(|it| it.key == "http.private_hosts_allowed" && it.what.contains("EFFECT_DENIED")));
        assert!(all.iter().any(|it| it.key == "universes.NAME.accepts_from"));
    }

    fn keys(path: &str, table: &Table, found: &mut Vec<String>) {
        for (name, value) in table {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match value {
                Value::Table(inner) if !inner.is_empty() => keys(&path, inner, found),
                Value::Table(_) => {}
                _ => found.push(path),
            }
        }
    }

    /// The subject of each section.
    const SECTIONS: [(&str, &str); 16] = [
        ("api", "The HTTP API: where it is served, to whom, and what one client may take."),
        ("data", "Where everything is kept that no database and no object store keeps."),
        (
            "effects",
            "How many effects are carried out at a time, and how they are tried again. NAME is a kind, such as `[effects.kinds.\"http.request\"]`.",
        ),
        ("engine", "The transactional engine: a folder, or PostgreSQL or FoundationDB for fleets."),
        ("http", "The adapter of `http.request`."),
        ("llm", "The adapter of `llm.chat`, which is there once it has a base URL."),
        ("node", "What this process does, and how much of it."),
        ("objects", "The object store for large bodies."),
        (
            "process",
            "The adapter of `process.run`, which is there once a command is listed: `[process.commands.NAME]`.",
        ),
        ("programs", "Components: how they are compiled, and who gets the processors."),
        ("quotas", "What each token and each universe may take unless it has quotas of its own."),
        (
            "shell",
            "How the shell of commands to workers works on its mailbox. Of these keys only `batch_max`, `idle_ms_max` and `requeue_attempts_max` apply to the shell of delayed sends, which tries as long as timers do.",
        ),
        ("sweep", "How objects without a reference are removed."),
        ("universes", "What holds for one universe: `[universes.NAME]`."),
        ("watcher", "How the role `watcher` looks at the holders of pools' leases."),
        ("worlds", "How worlds take their turns, are snapshotted and archived."),
    ];

    const HEAD: &str = "\
# Configuration

Every key there is, with its default. This page is made from the code that `mundi config show --all` prints; a test compares them.

```sh
mundi config show                        # what holds here, as a file would have it; secrets are masked
mundi config show --all                  # every key: what holds, its default, its variable, what it does
mundi dev --config mundi.toml            # with a file
MUNDI_API__BIND=127.0.0.1:7700 mundi dev # with a variable
```

Defaults < the TOML file (`--config`, or `MUNDI_CONFIG`) < variables < flags. The variable of a key is `MUNDI_` and the key in capitals with `__` for each dot:
`http.private_hosts_allowed` is `MUNDI_HTTP__PRIVATE_HOSTS_ALLOWED`. Its value is TOML (`'[\"127.0.0.1\"]'`, `30000`, `true`), or a plain text. Keys with NAME, which stands for a name of
your choosing, are set in a file only. An unknown key and a value out of its range are refused with `CONFIG_INVALID`, which names the key. A process reads its configuration when it starts.

Other variables are no keys: `MUNDI_LOG` ([logs](../guides/logs.md)), the `OTEL_…` ones ([metrics](metrics.md)), and those of the [command line](cli.md), such as `MUNDI_URL`.

```toml
[http]
private_hosts_allowed = [\"127.0.0.1\"]

[effects.kinds.\"http.request\"]
calls_max = 64
```
";

    fn page() -> String {
        let mut page = HEAD.to_owned();
        let mut section = String::new();
        for Setting { key, what, default, .. } in settings(&Config::default()).unwrap() {
            let of = key.split('.').next().unwrap();
            if of != section {
                section = of.to_owned();
                let about = SECTIONS.iter().find(|(name, _)| *name == of);
                let about = about.unwrap_or_else(|| panic!("say what the section `{of}` is about")).1;
                page += &format!("\n## `{of}`\n\n{about}\n\n| key | default | what it does |\n|---|---|---|\n");
            }
            let default = default.map_or_else(|| "not set".to_owned(), |default| format!("`{default}`"));
            page += &format!("| `{key}` | {default} | {} |\n", what.replace('|', "\\|"));
        }
        page
    }

    #[test]
    fn the_page_lists_every_setting_as_it_is() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
        let page = page();
        if std::env::var_os("MUNDI_BLESS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == page, "docs/reference/configuration.md is no longer so; MUNDI_BLESS=1 writes it anew\n{page}");
    }

    #[test]
    fn what_holds_is_shown_beside_the_default_and_secrets_are_masked() {
        let set = [("MUNDI_LLM__API_KEY", "hush"), ("MUNDI_NODE__RUNNERS", "3")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let all = settings(&Config::load(None, set, &[]).unwrap()).unwrap();
        let of = |key: &str| all.iter().find(|setting| setting.key == key).unwrap().clone();
        assert_eq!(of("node.runners").value.as_deref(), Some("3"));
        assert_ne!(of("node.runners").default, of("node.runners").value);
        assert!(of("llm.api_key").value.is_some_and(|value| !value.contains("hush")));
        assert_eq!(of("llm.api_key").default, None);
    }
}
