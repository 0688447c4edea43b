//! The URL of a database: what tokio-postgres reads, and the options of libpq about certificates that it does not.

use crate::EngineError;
use std::{path::PathBuf, time::Duration};
use tokio_postgres::config::{Config, SslMode, TargetSessionAttrs};

/// A server that does not answer for so long is treated as gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEPALIVES_LOST_MAX: u32 = 2;

/// How far the server's certificate is trusted. The names and the meaning are libpq's `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verify {
    /// `disable`, `prefer`, `require`: the server's certificate is not verified. With `sslrootcert` it is as `verify-ca`.
    Nothing,
    /// `verify-ca`: someone whom the roots vouch for.
    Chain,
    /// `verify-full`: the very host.
    Host,
}

/// The target that a URL names.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) config: Config,
    pub(super) verify: Verify,
    pub(super) root: Option<PathBuf>,
    /// Our own certificate and its key.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
}

pub(super) fn parse(url: &str) -> Result<Target, EngineError> {
    let invalid = |what: String| EngineError::DatabaseInvalid { what };
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(invalid("its URL begins with `postgres://`".to_owned()));
    }
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut verify, mut root, mut certificate, mut key, mut rest) = (Verify::Nothing, None, None, None, Vec::new());
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("sslmode", "verify-ca")) => verify = Verify::Chain,
            Some(("sslmode", "verify-full")) => verify = Verify::Host,
            Some(("sslrootcert", path)) => root = Some(PathBuf::from(decoded(path))),
            Some(("sslcert", path)) => certificate = Some(PathBuf::from(decoded(path))),
            Some(("sslkey", path)) => key = Some(PathBuf::from(decoded(path))),
            _ => rest.push(option),
        }
    }
    let plain = if rest.is_empty() { address.to_owned() } else { format!("{address}?{}", rest.join("&")) };
    // The cause is about the URL's form and never repeats the password.
    let mut config: Config = plain.parse().map_err(|error| invalid(format!("its URL cannot be read: {error}")))?;
    if verify != Verify::Nothing {
        config.ssl_mode(SslMode::Require);
    } else if root.is_some() {
        verify = Verify::Chain;
    }
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err(invalid("its URL has one of `sslcert` and `sslkey`, and needs both".to_owned())),
    };
    Ok(Target { config: with_defaults(config), verify, root, identity })
}

fn with_defaults(mut config: Config) -> Config {
    if config.get_application_name().is_none() {
        config.application_name("mundi");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(SILENCE_MAX);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE_MAX);
    }
    config.keepalives(true).keepalives_idle(KEEPALIVE_EVERY).keepalives_interval(KEEPALIVE_EVERY);
    // Of several hosts the one that takes writes: on a standby even a lock is refused.
    config.keepalives_retries(KEEPALIVES_LOST_MAX).target_session_attrs(TargetSessionAttrs::ReadWrite);
    config
}

/// Percent-encoded, as everything in a query.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let pair = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::{Code, Coded};

    #[test]
    fn the_usual_options_are_read() {
        let target = parse("postgres://u:p@h:1,g:2/db?connect_timeout=3&sslmode=require&application_name=a").unwrap();
        assert_eq!((target.verify, target.config.get_ssl_mode()), (Verify::Nothing, SslMode::Require));
        assert_eq!((target.config.get_hosts().len(), target.config.get_ports()), (2, &[1, 2][..]));
        assert_eq!(target.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert_eq!(target.config.get_application_name(), Some("a"));
    }

    #[test]
    fn certificates_are_checked_as_far_as_the_mode_says() {
        let full = parse("postgres://h/db?sslmode=verify-full&sslrootcert=%2Fa%20b.pem").unwrap();
        assert_eq!((full.verify, full.config.get_ssl_mode()), (Verify::Host, SslMode::Require));
        assert_eq!(full.root, Some(PathBuf::from("/a b.pem")));
        assert_eq!(parse("postgres://h/db?sslmode=verify-ca").unwrap().verify, Verify::Chain);
        assert_eq!(parse("postgres://h/db?sslmode=require&sslrootcert=a.pem").unwrap().verify, Verify::Chain);
    }

    #[test]
    fn what_is_no_url_of_a_database_is_refused_and_the_password_is_not_told() {
        for url in ["", "mysql://h", "postgres://u:hush@h/db?sslmode=perhaps", "postgres://h/db?sslcert=a.pem"] {
            let refused = parse(url).unwrap_err();
            assert_eq!(refused.code(), Code::DatabaseInvalid, "{refused}");
            assert!(!refused.to_string().contains("hush"), "{refused}");
        }
    }
}
