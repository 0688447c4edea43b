//! The reference pages say what the code says: every effect with its fields, limits, settings and codes; everything that the SDKs export.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_model::{Code, limits};
use mundi_server::config::{Config, settings};
use mundi_store::keyspace::effect_pending::EffectTerms;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The code in the first cell of each row of a table, with the rest of the row.
fn rows(text: &str) -> Vec<(&str, &str)> {
    let first = |line| {
        let cells: &str = str::strip_prefix(line, "| `")?;
        cells.split_once('`')
    };
    text.lines().filter_map(first).collect()
}

/// The parts of a page, by their headings without backticks.
fn sections(page: &str) -> BTreeMap<String, &str> {
    let parts = page.split("\n## ").skip(1).filter_map(|part| part.split_once('\n'));
    parts.map(|(heading, text)| (heading.replace('`', ""), text)).collect()
}

/// All that stands in backticks.
fn quoted(page: &str) -> BTreeSet<&str> {
    page.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// The public fields of the structures in a Rust source.
fn fields(source: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let structures = source.split("pub struct ").skip(1);
    structures
        .map(|text| {
            let name = text.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            let body = text.split_once("\n}").map_or("", |(body, _)| body);
            let body = if text[name.len()..].starts_with(" {") { body } else { "" };
            let field = |line| str::strip_prefix(line, "    pub ")?.split_once(':').map(|(name, _)| name);
            (name, body.lines().filter_map(field).collect())
        })
        .collect()
}

/// Each kind with the fields of its params and of its receipt, as the SDK has them.
fn kinds(source: &str) -> BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> {
    let (fields, effects) = (fields(source), source.split("impl Effect for ").skip(1));
    let effect = |text| {
        let between = |from, to| str::split_once(text, from)?.1.split_once(to).map(|(found, _)| found);
        let params = str::split_once(text, " {")?.0;
        Some((between("KIND: &'static str = \"", "\"")?, (params, between("type Receipt = ", ";")?)))
    };
    let of = |name: &str| match name {
        "Value" => BTreeSet::new(), // anything
        name => fields.get(name).cloned().unwrap_or_else(|| panic!("no structure `{name}`")),
    };
    effects.filter_map(effect).map(|(kind, (params, receipt))| (kind, (of(params), of(receipt)))).collect()
}

/// Parameters that programs give by `send` and `spawn`, so that no structure of the SDK has them.
const SENT: [&str; 6] = ["dest_world", "mode", "headers", "correlation_id", "dest_universe", "message_id"];
const SPAWNED: [&str; 3] = ["dest_world", "manifest", "mode"];

/// The texts that stand between a beginning and the next quotation mark.
fn between<'s>(source: &'s str, begins: &[&str]) -> BTreeSet<&'s str> {
    let found =
        |begin: &&str| source.split(*begin).skip(1).filter_map(|rest| rest.split('"').next()).collect::<Vec<_>>();
    begins.iter().flat_map(found).collect()
}

/// The part of a source between two texts.
fn part<'s>(source: &'s str, from: &str, to: &str) -> &'s str {
    let (_, rest) = source.split_once(from).unwrap_or_else(|| panic!("no `{from}`"));
    rest.split_once(to).unwrap_or_else(|| panic!("no `{to}` after `{from}`")).0
}

/// The kinds of children, with the fields that the server reads and answers.
fn kinds_of_children(sources: &[String; 4]) -> BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> {
    let [spec, end, cancel, done] = sources;
    let read = &["params.text(\"", "params.text_or_none(\"", "params.get(\""][..];
    let answers = |source| between(part(source, "Ok(map([", "]))"), &["(\""]);
    BTreeMap::from([
        (
            "child.spawn",
            (
                between(part(spec, "pub fn read(", "\nfn read_budget("), &["fields.remove(\""]),
                between(part(end, "fn receipt(&self", "\nfn spend_value("), &["set(\"", "[(\"", "| (\""]),
            ),
        ),
        ("child.cancel", (between(cancel, read), answers(cancel))),
        ("child.done", (between(done, read), answers(done))),
    ])
}

#[test]
fn every_kind_has_its_fields_on_the_page_and_no_others() {
    let (page, source) = (read("docs/reference/effects.md"), read("sdk/rust/src/kinds.rs"));
    let children = [
        "crates/model/src/child/spec.rs",
        "crates/store/src/protocol/children/transition.rs",
        "crates/adapters/src/child_cancel.rs",
        "crates/adapters/src/child_done.rs",
    ]
    .map(read);
    let (sections, mut kinds) = (sections(&page), kinds(&source));
    assert!(kinds.len() >= 8, "{:?}", kinds.keys());
    kinds.extend(kinds_of_children(&children));
    assert!(kinds["child.spawn"].0.len() >= 4 && kinds["child.spawn"].1.len() >= 10, "{:?}", kinds["child.spawn"]);
    for (kind, (params, receipt)) in &kinds {
        let section = sections.get(*kind).unwrap_or_else(|| panic!("the page has no section on `{kind}`"));
        let (asked, answered) = section.split_once("| receipt |").expect("a table of the receipt");
        let named = |text| rows(text).into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>();
        let params = match *kind {
            "fabric.send" => BTreeSet::from(SENT),
            "world.spawn" => BTreeSet::from(SPAWNED),
            _ => params.clone(),
        };
        assert_eq!(named(asked), params, "the params of `{kind}`");
        assert_eq!(named(answered), *receipt, "the receipt of `{kind}`");
        assert!(section.contains("\nSettings: "), "`{kind}` does not say which settings it has");
    }
    let known = |heading: &str| kinds.contains_key(heading) || !heading.contains('.');
    assert!(sections.keys().all(|heading| known(heading)), "{:?}", sections.keys());
}

macro_rules! limits {
    ($($name:ident),* $(,)?) => { [$((stringify!($name), limits::$name.to_string())),*] };
}

#[test]
fn the_page_of_effects_has_limits_settings_defaults_and_codes_as_they_are() {
    let page = read("docs/reference/effects.md");
    // The first row of a name: params of some kinds have names that the rules at the head of the page have, too.
    let rows: BTreeMap<_, _> = rows(&page).into_iter().rev().collect();
    for (name, value) in limits![
        PAYLOAD_BYTES_MAX,
        NAME_BYTES_MAX,
        STEP_OUTPUTS_MAX,
        OPEN_INTENTS_MAX,
        TIMERS_MAX,
        EFFECT_ATTEMPTS_MAX,
        EFFECT_BACKOFF_MS_MIN,
        EFFECT_BACKOFF_MS_MAX,
        EFFECT_TIMEOUT_MS_MAX,
        HEADERS_MAX,
        HEADERS_BYTES_MAX,
    ] {
        let row = rows.get(name).unwrap_or_else(|| panic!("{name} is not on the page"));
        assert!(row.starts_with(&format!(" | {value} |")), "{name} is {value}, and the page says{row}");
    }
    let EffectTerms { timeout_ms, attempts_max, backoff_ms, backoff_ms_max, .. } = EffectTerms::default();
    assert!(rows["timeout_ms"].ends_with(&format!("| {timeout_ms} |")), "{}", rows["timeout_ms"]);
    let retry = format!("| {attempts_max}, {backoff_ms}, {backoff_ms_max} |");
    assert!(rows["retry"].ends_with(&retry), "{}", rows["retry"]);
    let quoted = quoted(&page);
    let keys: Vec<_> = settings(&Config::default()).unwrap().into_iter().map(|setting| setting.key).collect();
    let own = ["http.", "llm.", "process.", "effects."];
    for key in keys.iter().filter(|key| own.iter().any(|section| key.starts_with(section))) {
        assert!(quoted.contains(&**key), "the setting `{key}` is not on the page");
    }
    let codes: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let codes_said = quoted.iter().filter(|text| text.starts_with("EFFECT_") && !rows.contains_key(**text));
    assert_eq!(codes_said.collect::<Vec<_>>(), [""; 0].iter().collect::<Vec<_>>(), "a code without a row");
    let is_code = |text: &&str| text.contains('_') && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    for code in rows.keys().filter(|name| is_code(name) && !name.ends_with("_MAX") && !name.ends_with("_MIN")) {
        assert!(codes.contains(code), "`{code}` is no code");
    }
    let effect_codes = codes.iter().filter(|code| code.starts_with("EFFECT_") && !NOT_IN_RECEIPTS.contains(code));
    for code in effect_codes {
        assert!(rows.contains_key(code), "`{code}` is not on the page");
    }
}

/// Codes of requests about effects, which no program gets.
const NOT_IN_RECEIPTS: [&str; 2] = ["EFFECT_CLAIM_LOST", "EFFECT_NOT_FOUND"];

/// The word at the beginning of a text.
fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// The exports of a Rust source: types, and methods as `Type::method`.
fn rust_exports(source: &str, found: &mut BTreeSet<String>) {
    let (mut of, mut is_trait) = (None, false);
    for line in source.lines().take_while(|line| *line != "#[cfg(test)]") {
        let declared = ["pub struct ", "pub enum ", "pub trait "].iter().find_map(|what| line.strip_prefix(what));
        if let Some(rest) = declared {
            found.insert(word(rest).to_owned());
            is_trait = line.starts_with("pub trait ");
            of = is_trait.then(|| word(rest).to_owned());
        }
        if let Some(rest) = line.strip_prefix("impl").filter(|rest| rest.starts_with([' ', '<'])) {
            let rest =
                if rest.starts_with('<') { rest.split_once("> ").map_or("", |(_, rest)| rest) } else { &rest[1..] };
            (of, is_trait) = ((!rest.contains(" for ")).then(|| word(rest).to_owned()), false);
        }
        let method = line.strip_prefix("    pub fn ").or_else(|| line.strip_prefix("    pub async fn "));
        let method = method.or_else(|| line.strip_prefix("    fn ").filter(|_| is_trait));
        if let (Some(of), Some(method)) = (&of, method) {
            found.insert(format!("{of}::{}", word(method)));
        }
    }
}

/// The exports of a TypeScript module: functions, types, and methods of classes as `Class.method`.
fn typescript_exports(source: &str, found: &mut BTreeSet<String>) {
    let mut of = None;
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("export ") {
            let (what, rest) = rest.split_once(' ').unwrap();
            of = None;
            match what {
                "function" | "class" | "interface" | "type" | "const" => {
                    found.insert(word(rest).to_owned());
                    of = (what == "class").then(|| word(rest).to_owned());
                }
                "*" if rest.starts_with("as ") => drop(found.insert(word(&rest[3..]).to_owned())),
                "{" => {
                    let names = rest.split('}').next().unwrap().split(',');
                    found.extend(names.map(|name| name.trim().trim_start_matches("type ").to_owned()));
                }
                _ => {}
            }
        } else if line.starts_with(|c: char| c.is_alphabetic()) {
            of = None;
        }
        let member = line.strip_prefix("  ").map(|member| member.strip_prefix("get ").unwrap_or(member));
        let member = member.map(|member| member.strip_prefix("async ").unwrap_or(member));
        let Some((of, member)) = of.as_ref().zip(member.filter(|member| member.starts_with(char::is_alphabetic)))
        else {
            continue;
        };
        let (name, rest) = (word(member), &member[word(member).len()..]);
        if (rest.starts_with('(') || rest.starts_with('<')) && name != "constructor" {
            found.insert(format!("{of}.{name}"));
        }
    }
}

/// The exports of a Python module: classes, and methods as `Class.method`.
fn python_exports(source: &str, found: &mut BTreeSet<String>) {
    let mut of: Option<String> = None;
    let all = source.split_once("__all__ = [").map_or("", |(_, rest)| rest.split(']').next().unwrap());
    found.extend(all.split('"').skip(1).step_by(2).map(str::to_owned));
    for line in source.lines() {
        if let Some(class) = line.strip_prefix("class ").map(word) {
            of = Some(class.to_owned()).filter(|class| !class.starts_with('_'));
            found.extend(of.clone());
        } else if line.starts_with("def ") {
            of = None;
        }
        let method = line.strip_prefix("    def ").or_else(|| line.strip_prefix("    async def "));
        let method = method.map(word).filter(|method| !method.starts_with('_'));
        if let (Some(of), Some(method)) = (&of, method) {
            found.insert(format!("{of}.{method}"));
        }
    }
}

#[test]
fn the_pages_of_the_sdks_list_everything_that_they_export_and_nothing_else() {
    type Exports = fn(&str, &mut BTreeSet<String>);
    let rust = ["lib", "world", "event", "failure", "bytes", "kinds", "children", "pools", "testing/mod"]
        .map(|it| format!("rust/src/{it}.rs"))
        .into_iter()
        .chain(["cells", "error", "mod", "program", "waits"].map(|it| format!("rust/src/functions/{it}.rs")))
        .chain(["children", "functions"].map(|it| format!("rust/src/testing/{it}.rs")))
        .collect::<Vec<_>>();
    let typescript = [
        "index",
        "kinds",
        "children",
        "pools",
        "functions",
        "function-errors",
        "testing",
        "test-world",
        "test-functions",
    ]
    .map(|it| format!("typescript/src/{it}.ts"));
    let python =
        ["__init__", "kinds", "children", "pools", "functions", "function_errors", "testing", "testing_functions"]
            .map(|it| format!("python/mundi/{it}.py"));
    let sdks: [(&str, &[String], Exports); 3] = [
        ("rust", &rust, rust_exports),
        ("typescript", &typescript, typescript_exports),
        ("python", &python, python_exports),
    ];
    for (language, sources, exports) in sdks {
        let mut exported = BTreeSet::new();
        sources.iter().for_each(|source| exports(&read(&format!("sdk/{source}")), &mut exported));
        let page = read(&format!("docs/reference/sdk-{language}.md"));
        let listed: BTreeSet<_> =
            rows(&page).into_iter().map(|(name, _)| name.trim_end_matches('!').to_owned()).collect();
        // Macros, which have no declaration that would be found.
        exported.extend(["export", "durable"].iter().filter(|_| language == "rust").map(ToString::to_string));
        let missing: Vec<_> = exported.difference(&listed).collect();
        let unknown: Vec<_> = listed.difference(&exported).collect();
        assert!(missing.is_empty() && unknown.is_empty(), "{language}: not listed {missing:?}, not there {unknown:?}");
        assert!(exported.len() > 60, "{language}: only {} were found", exported.len());
        for (name, row) in rows(&page) {
            assert!(row.split('|').nth(1).is_some_and(|what| what.trim().len() > 5), "{language}: what is `{name}`?");
        }
    }
}

#[test]
fn the_program_on_the_page_of_the_sdk_in_python_passes_its_test() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("python3 is not installed: the program was not run");
        return;
    }
    let (page, folder) = (read("docs/reference/sdk-python.md"), tempfile::tempdir().unwrap());
    let blocks: Vec<_> = page.split("```python\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    fs::write(folder.path().join("test_page.py"), blocks.join("\n")).unwrap();
    let mut python = Command::new("python3");
    python.args(["-m", "unittest", "test_page"]).current_dir(folder.path());
    let output = python.env("PYTHONPATH", root().join("sdk/python").canonicalize().unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("Ran 1 test"), "{said}");
}

/// Asks the resource under the tokens of two leases, one of them late.
const ASK: &str = r#"
import http.client
import threading

server = serve(0)
threading.Thread(target=server.serve_forever, daemon=True).start()


def ask(lease, epoch):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    headers = {} if lease is None else {"Mundi-Lease": f"gpus/l_{lease:026}", "Mundi-Lease-Epoch": str(epoch)}
    connection.request("POST", "/", headers=headers)
    return connection.getresponse().status


print([ask(*token) for token in [(7, 1), (7, 1), (8, 1), (7, 2), (8, 0), (8, 2), (None, None)]])
"#;

#[test]
fn the_resource_on_the_page_about_fencing_refuses_an_older_lease() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("python3 is not installed: the resource was not run");
        return;
    }
    let page = read("docs/guides/fence-a-resource.md");
    let resource = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(resource.lines().filter(|line| !line.trim().is_empty()).count() <= 20, "the page promises 20 lines");
    let output = Command::new("python3").arg("-c").arg(format!("{resource}\n{ASK}")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.trim(), "[200, 200, 200, 409, 409, 200, 409]", "{error}");
}
