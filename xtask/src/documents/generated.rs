//! Reference pages that repeat what the sources say: limits, metrics and the list of error codes.
//!
//! The sources are read as text. They are lists in one form each, and a page with fewer rows than its source is an error.

use super::{read, root};
use std::{fmt::Write, fs, io};

const LIMITS: &str = "crates/model/src/limits.rs";
const METRICS: &str = "crates/runtime/src/metrics.rs";
const ERRORS: &str = "docs/reference/errors";
const MADE: &str = "<!-- Made by `cargo xtask docs`; a test compares. -->";

/// Path and text of each generated page.
pub(super) fn pages() -> io::Result<Vec<(String, String)>> {
    Ok(vec![
        ("docs/reference/limits.md".to_owned(), limits(&read(LIMITS)?)),
        between("docs/reference/metrics.md", &metrics(&read(METRICS)?))?,
        between(&format!("{ERRORS}/README.md"), &errors()?)?,
    ])
}

/// A page that people write, with one part that is made.
fn between(path: &str, made: &str) -> io::Result<(String, String)> {
    let page = read(path)?;
    let before = page.split(MADE).next().unwrap_or_default();
    Ok((path.to_owned(), format!("{before}{MADE}\n\n{made}")))
}

fn limits(source: &str) -> String {
    let mut page = format!(
        "# Limits\n\n{MADE}\n\nEvery fixed bound, from [`{LIMITS}`](../../{LIMITS}). A value beyond one is refused with an \
         [error code](errors/README.md). Bounds that can be configured are listed in [security](../operating/security.md#limits-and-their-defaults).\n\n\
         | limit | value | reason |\n|---|---|---|\n"
    );
    let mut reason = String::new();
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            let space = if reason.is_empty() { "" } else { " " };
            let _ = write!(reason, "{space}{}", text.trim());
        } else if let Some((name, value)) = constant(line) {
            let _ = writeln!(page, "| `{name}` | {} | {} |", cell(value), cell(&reason));
            reason.clear();
        } else {
            reason.clear();
        }
    }
    page
}

/// `pub const NAME: type = value;`
fn constant(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("pub const ")?.split_once(':')?;
    let (_, value) = rest.split_once(" = ")?;
    Some((name, value.trim_end_matches(';')))
}

/// A line of the list, `Variant = "name", "unit", "meaning";`, or a family with its fields.
fn metrics(source: &str) -> String {
    let mut page = "| metric | unit | meaning |\n|---|---|---|\n".to_owned();
    for line in source.lines() {
        if let [_, name, _, unit, _, meaning, ..] = line.split('"').collect::<Vec<_>>()[..]
            && name.starts_with("mundi_")
        {
            let _ = writeln!(page, "| `{name}` | {unit} | {} |", cell(meaning));
        }
    }
    page.push_str("\nWith labels:\n\n| metric | labels | unit | meaning |\n|---|---|---|---|\n");
    for family in source.split("Self = Self {").skip(1) {
        let field = |name: &str| {
            let value = family.split_once(&format!("{name}: "))?.1;
            value.split_once('"')?.1.split_once('"').map(|(text, _)| text)
        };
        let labels = family.split_once("labels: &[").and_then(|(_, rest)| rest.split_once(']')).map(|(list, _)| list);
        if let (Some(name), Some(unit), Some(meaning), Some(labels)) =
            (field("name"), field("unit"), field("meaning"), labels)
        {
            let labels = labels.replace('"', "`");
            let _ = writeln!(page, "| `{name}` | {labels} | {unit} | {} |", cell(meaning));
        }
    }
    page.push_str("\nHistograms of times, in seconds:\n\n| metric | meaning |\n|---|---|\n");
    let timings = source.split_once("impl Timing {").map_or("", |(_, rest)| rest);
    let arm = |arm: &str| {
        let (variant, rest) = arm.split_once(" => ")?;
        let text = rest.split('"').nth(1)?;
        Some((variant.to_owned(), text.split_whitespace().filter(|word| *word != "\\").collect::<Vec<_>>().join(" ")))
    };
    let arms: Vec<_> = timings.split("Self::").filter_map(arm).collect();
    for (variant, name) in arms.iter().filter(|(_, text)| text.starts_with("mundi_")) {
        let meaning = arms.iter().find(|(other, text)| other == variant && text != name).map_or("", |(_, text)| text);
        let _ = writeln!(page, "| `{name}` | {} |", cell(meaning));
    }
    page
}

/// Each page begins with its code, its kind and its meaning.
fn errors() -> io::Result<String> {
    let mut names: Vec<_> = fs::read_dir(root().join(ERRORS))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.strip_suffix(".md").map(str::to_owned))
        .filter(|name| name != "README")
        .collect();
    names.sort();
    let mut list = "| code | kind | meaning |\n|---|---|---|\n".to_owned();
    for name in names {
        let page = read(&format!("{ERRORS}/{name}.md"))?;
        let said =
            page.lines().nth(2).and_then(|line| line.strip_prefix("Kind: ")).and_then(|line| line.split_once(". "));
        let (kind, meaning) = said.unwrap_or_default();
        let _ = writeln!(list, "| [`{name}`]({name}.md) | {kind} | {} |", cell(meaning));
    }
    Ok(list)
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn generated_pages_say_what_the_sources_say() {
        for (path, text) in pages().unwrap() {
            assert!(read(&path).unwrap() == text, "{path} is old: run `cargo xtask docs`");
        }
    }

    #[test]
    fn every_limit_metric_and_code_has_a_row() {
        let rows = |text: &str, begins: &str| text.lines().filter(|line| line.starts_with(begins)).count();
        let source = read(LIMITS).unwrap();
        assert_eq!(
            rows(&limits(&source), "| `"),
            source.lines().filter(|l| l.trim().starts_with("pub const ")).count()
        );
        assert!(!limits(&source).contains("|  |"), "a limit has no reason");
        let source = read(METRICS).unwrap();
        let names: BTreeSet<_> = source.split('"').filter(|text| text.starts_with("mundi_")).collect();
        assert_eq!(rows(&metrics(&source), "| `mundi_"), names.len());
        assert!(!metrics(&source).contains("|  |"), "a metric has no meaning");
        assert_eq!(rows(&errors().unwrap(), "| [`"), fs::read_dir(root().join(ERRORS)).unwrap().count() - 1);
        assert!(!errors().unwrap().contains("|  |"), "a page does not begin with kind and meaning");
    }
}
