//! The effective configuration as TOML, with secrets masked.

use super::{
    Config, ConfigError,
    layers::{merge, nested},
};
use toml::{Table, Value};

/// Section and key of each secret. The password in `engine.url` and all of `objects.settings` are masked as well.
const SECRETS: [(&str, &str); 1] = [("llm", "api_key")];
const MASK: &str = "********";

impl Config {
    pub fn show(&self) -> Result<String, ConfigError> {
        let failed = |error: &dyn ToString| ConfigError::new("configuration", error.to_string());
        let mut table = Table::try_from(self).map_err(|error| failed(&error))?;
        for (section, key) in SECRETS {
            if let Some(secret) = table.get_mut(section).and_then(|section| section.get_mut(key)) {
                *secret = Value::String(MASK.to_owned());
            }
        }
        if let Some(url) = &self.engine.url {
            merge(&mut table, nested("engine.url", Value::String(without_password(url))));
        }
        for name in self.objects.settings.keys() {
            merge(&mut table, nested(&format!("objects.settings.{name}"), Value::String(MASK.to_owned())));
        }
        toml::to_string_pretty(&table).map_err(|error| failed(&error))
    }
}

pub(super) fn without_password(url: &str) -> String {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let end = url[authority..].find(['/', '?']).map_or(url.len(), |at| authority + at);
    let Some(at) = url[authority..end].rfind('@').map(|at| authority + at) else { return url.to_owned() };
    match url[authority..at].find(':') {
        Some(colon) => format!("{}:{MASK}{}", &url[..authority + colon], &url[at..]),
        None => url.to_owned(),
    }
}
