//! The console: the web page at `/` and `/console`.
//!
//! It is built by `cargo xtask console` and lies beside this crate as one archive (tar, each member compressed by gzip), so that a build of
//! the server needs nothing but Rust. Members are sent as they are: every browser takes gzip, and the process never unpacks them.
//!
//! The page itself tells nothing about this server; all that it shows it asks of the API, with the token that its user gave. It may load
//! and ask nothing from another host, and no page of another host may show it in a frame.

use super::{Api, Problem, access::check_origin, extract::text_header};
use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};
use mundi_model::Code;
use std::{collections::BTreeMap, sync::LazyLock};

static ARCHIVE: &[u8] = include_bytes!("../../console.tar");

static PAGES: LazyLock<BTreeMap<&'static str, &'static [u8]>> = LazyLock::new(|| members(ARCHIVE).collect());

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Adds the addresses of the page.
pub(super) fn serve(router: Router<Api>) -> Router<Api> {
    router
        .route("/", get(page))
        .route("/console", get(page))
        .route("/console/", get(page))
        .route("/console/{*file}", get(file))
}

async fn page(State(api): State<Api>, headers: HeaderMap) -> Result<Response, Problem> {
    answer(&api, &headers, "index.html")
}

async fn file(State(api): State<Api>, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    answer(&api, &headers, uri.path().trim_start_matches("/console/"))
}

fn answer(api: &Api, headers: &HeaderMap, name: &str) -> Result<Response, Problem> {
    if !api.access.tokens_required {
        check_origin(headers, &api.access.hosts_allowed)?;
    }
    let missing = || Problem::new(Code::RouteNotFound, format!("the console has no file `{name}`"));
    let (name, bytes) = PAGES.get_key_value(name).ok_or_else(missing)?;
    // The names of all but the page have a hash of their content in them.
    let cached = if *name == "index.html" { "no-cache" } else { "public, max-age=31536000, immutable" };
    let tag = format!("\"{}\"", mundi_model::Hash::of(bytes));
    let common = [
        (header::CACHE_CONTROL, cached),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_TYPE, content_type(name)),
        (header::VARY, "accept-encoding"),
    ];
    if text_header(headers, "if-none-match") == Some(&tag) {
        return Ok((StatusCode::NOT_MODIFIED, common, [(header::ETAG, tag)]).into_response());
    }
    let encoding = [(header::CONTENT_ENCODING, "gzip".to_owned()), (header::ETAG, tag)];
    Ok((common, encoding, *bytes).into_response())
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|it| it.1) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// The files of a tar archive, by name. Blocks of 512 bytes: a header that says name and size, then the content.
fn members(archive: &'static [u8]) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    const BLOCK: usize = 512;
    let mut rest = archive;
    std::iter::from_fn(move || {
        let header = rest.get(..BLOCK)?;
        let name = header[..100].split(|byte| *byte == 0).next()?;
        let size = std::str::from_utf8(&header[124..135]).ok()?;
        let size = usize::from_str_radix(size, 8).ok()?;
        let content = rest.get(BLOCK..BLOCK + size)?;
        rest = rest.get(BLOCK + size.next_multiple_of(BLOCK)..)?;
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
        Some((name.strip_suffix(".gz").unwrap_or(name), content))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_has_a_page_and_all_of_it_is_gzip_of_a_known_type() {
        assert!(PAGES.contains_key("index.html"));
        for (name, bytes) in &*PAGES {
            assert!(bytes.starts_with(&[0x1f, 0x8b]), "{name} is no gzip");
            assert_ne!(content_type(name), "application/octet-stream", "{name}");
        }
        let ends = PAGES.values().map(|bytes| 512 + bytes.len().next_multiple_of(512)).sum::<usize>() + 1024;
        assert_eq!(ends, ARCHIVE.len(), "a member was not read");
    }

    #[test]
    fn what_the_first_screen_loads_has_at_most_250_kilobytes() {
        let first: usize = PAGES.values().map(|bytes| bytes.len()).sum();
        assert!(first <= 250_000, "{first} bytes");
    }
}
