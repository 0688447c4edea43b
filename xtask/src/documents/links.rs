//! Every link of every page leads to a file and, where it names one, to a heading.

use super::{files, read, root};
use std::path::{Component, Path, PathBuf};

/// The text outside of blocks and of code in a line.
fn prose(page: &str) -> String {
    let mut text = String::new();
    for (index, block) in page.split("```").enumerate() {
        if index % 2 == 0 {
            text.extend(block.split('`').step_by(2));
        }
    }
    text
}

/// The targets of `[…](target)` and `![…](target)`. Code in the text of a link is gone by now, its brackets are not.
fn targets(page: &str) -> Vec<String> {
    let text = prose(page);
    let after = text.split("](").skip(1);
    after.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

fn is_outside(target: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

/// How forges name a heading: small letters, digits, `-` and `_`; blanks become `-`.
fn anchors(page: &str) -> Vec<String> {
    let mut inside = false;
    let headings = page.lines().filter(|line| {
        inside ^= line.starts_with("```");
        !inside && line.starts_with('#')
    });
    let name = |heading: &str| -> String {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || ['-', '_', ' '].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(name).collect()
}

fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if out.pop() => {}
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// The fault of a link, if it has one.
fn broken(from: &str, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let folder = Path::new(from).parent().unwrap_or(Path::new(""));
    let to = if path.is_empty() { PathBuf::from(from) } else { normal(&folder.join(path)) };
    if !root().join(&to).exists() {
        return Some(format!("{from}: there is no {}", to.display()));
    }
    let anchor = anchor?;
    let page = read(to.to_str()?).ok()?;
    (!anchors(&page).iter().any(|there| there == anchor)).then(|| format!("{from}: {} has no #{anchor}", to.display()))
}

#[test]
fn every_link_of_every_page_leads_somewhere() {
    let (mut links, mut wrong) = (0, Vec::new());
    for page in files(".md") {
        for target in targets(&read(&page).unwrap()) {
            if !is_outside(&target) {
                links += 1;
                wrong.extend(broken(&page, &target));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(links > 150, "only {links} links were found");
}

/// Also those that are not links: in comments, scripts and configuration.
#[test]
fn every_page_that_a_source_names_exists() {
    let (mut named, mut wrong) = (0, Vec::new());
    for source in [".rs", ".toml", ".md", ".sh", ".yml", ".service", ".txt"].iter().flat_map(|suffix| files(suffix)) {
        let text = read(&source).unwrap();
        for rest in text.split("docs/").skip(1) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-_./".contains(c)).unwrap_or(rest.len());
            let path = rest[..end].trim_end_matches(['.', '/']);
            let is_page = path.ends_with(".md") && !path.contains("..") && !text.contains("/docs/static");
            if is_page {
                named += 1;
                let there = root().join("docs").join(path).exists();
                let history = source == "CHANGELOG.md";
                if !there && !history && !source.starts_with("xtask/src/documents") {
                    wrong.push(format!("{source}: there is no docs/{path}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(named > 30, "only {named} pages are named");
}

#[test]
fn the_index_names_every_page_for_users_and_authors() {
    let index = read("docs/index.md").unwrap();
    let linked: Vec<_> = targets(&index).iter().map(|target| normal(&Path::new("docs").join(target))).collect();
    for page in files(".md").iter().filter(|page| page.starts_with("docs/") && *page != "docs/index.md") {
        let below_another = page.starts_with("docs/reference/errors/") || page.starts_with("docs/internals/adr/");
        let is_linked = linked.iter().any(|link| link == Path::new(page));
        assert!(is_linked || below_another && !page.ends_with("README.md"), "docs/index.md does not name {page}");
    }
}

#[test]
fn every_decision_has_a_date_and_a_status_and_is_listed() {
    let list = read("docs/internals/adr/README.md").unwrap();
    for page in files(".md").iter().filter(|page| page.starts_with("docs/internals/adr/0")) {
        let text = read(page).unwrap();
        let mut head = text.lines().skip(2).take(2);
        let (date, status) = (head.next().unwrap_or_default(), head.next().unwrap_or_default());
        assert!(date.starts_with("- Date: 20") && status.starts_with("- Status: "), "{page} lacks date and status");
        assert!(list.contains(page.rsplit('/').next().unwrap()), "the list lacks {page}");
    }
}
