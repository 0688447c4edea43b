//! A `foundationdb://` URL: it names a cluster, and a deployment in it.
//!
//! | URL | what it names |
//! |---|---|
//! | `foundationdb:///etc/foundationdb/fdb.cluster` | the cluster of that file; the file must be writable, because the client keeps it up to date |
//! | `foundationdb://description:id@10.0.0.1:4500,10.0.0.2:4500` | the cluster of a file with these contents |
//! | `…?prefix=NAME` | the deployment `NAME`; `mundi` if it is not given |

use crate::EngineError;
use mundi_model::limits;
use std::path::PathBuf;

/// How every such URL begins.
pub const SCHEME: &str = "foundationdb://";

const PREFIX_DEFAULT: &str = "mundi";

/// A cluster, and a deployment in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub cluster: Cluster,
    /// The deployment: every key begins with it. Letters, digits, `-`, `_` and `.`.
    pub prefix: String,
}

/// How to find a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cluster {
    /// The absolute path of its cluster file.
    File(PathBuf),
    /// The contents of its cluster file.
    Contents(String),
}

/// Reads a URL. The error does not repeat it.
pub fn parse(url: &str) -> Result<Target, EngineError> {
    let rest = url.strip_prefix(SCHEME).ok_or_else(|| invalid("its URL does not begin with `foundationdb://`"))?;
    let (cluster, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut prefix = PREFIX_DEFAULT;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("prefix", value)) => prefix = value,
            _ => return Err(invalid("its URL has a parameter that is not known; `prefix` is")),
        }
    }
    Ok(Target { cluster: parse_cluster(cluster)?, prefix: checked_prefix(prefix)? })
}

fn parse_cluster(text: &str) -> Result<Cluster, EngineError> {
    if text.contains('\0') {
        return Err(invalid("its URL has a zero byte"));
    }
    if text.starts_with('/') {
        return Ok(Cluster::File(PathBuf::from(text)));
    }
    let (name, coordinators) = text.split_once('@').ok_or_else(|| {
        invalid(
            "its URL has neither the absolute path of a cluster file nor its contents, `description:id@address:port`",
        )
    })?;
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_named = name.split_once(':').is_some_and(|(description, id)| is_word(description) && is_word(id));
    let is_address = |address: &str| address.contains(':') && !address.contains(char::is_whitespace);
    if !is_named || !coordinators.split(',').all(is_address) {
        return Err(invalid("the contents of a cluster file are `description:id@address:port,address:port,…`"));
    }
    Ok(Cluster::Contents(text.to_owned()))
}

fn checked_prefix(prefix: &str) -> Result<String, EngineError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if prefix.is_empty() || prefix.len() > limits::ENGINE_PREFIX_BYTES_MAX || !prefix.bytes().all(is_name) {
        let max = limits::ENGINE_PREFIX_BYTES_MAX;
        return Err(invalid(&format!("a prefix has 1 to {max} letters, digits, `-`, `_` and `.`")));
    }
    Ok(prefix.to_owned())
}

fn invalid(what: &str) -> EngineError {
    EngineError::DatabaseInvalid { what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::{Code, Coded};

    #[test]
    fn a_url_names_a_cluster_by_its_file_or_by_the_contents_of_its_file() {
        let file = parse("foundationdb:///etc/foundationdb/fdb.cluster").unwrap();
        assert_eq!(file.cluster, Cluster::File("/etc/foundationdb/fdb.cluster".into()));
        assert_eq!(file.prefix, "mundi");
        let contents = parse("foundationdb://prod:Ab3_x@10.0.0.1:4500,[::1]:4501:tls?prefix=blue-2").unwrap();
        assert_eq!(contents.cluster, Cluster::Contents("prod:Ab3_x@10.0.0.1:4500,[::1]:4501:tls".to_owned()));
        assert_eq!(contents.prefix, "blue-2");
    }

    #[test]
    fn what_names_no_cluster_is_refused_and_not_repeated() {
        let long = format!("foundationdb:///f?prefix={}", "n".repeat(limits::ENGINE_PREFIX_BYTES_MAX + 1));
        for url in [
            "",
            "postgres://h/db",
            "foundationdb://",
            "foundationdb://relative/hush.cluster",
            "foundationdb://hush@10.0.0.1:4500",
            "foundationdb://a:hush@nowhere",
            "foundationdb://a:b@",
            "foundationdb:///f?prefix=",
            "foundationdb:///f?prefix=a/b",
            "foundationdb:///f?prefix=hush%20",
            "foundationdb:///f?schema=a",
            &long,
        ] {
            let refused = parse(url).unwrap_err();
            assert_eq!(refused.code(), Code::DatabaseInvalid, "{url}");
            assert!(!refused.to_string().contains("hush"), "{refused}");
        }
    }
}
