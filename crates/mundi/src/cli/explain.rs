//! `mundi explain`: what an error code means, and what to do. The pages of `docs/reference/errors` are built in.

use super::{
    exit::{Failed, Outcome},
    output::{Out, print},
};
use clap::Args;
use mundi_model::Code;
use serde_json::{Value, json};

/// Each page, by its code.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/error_pages.rs"));

/// Letters that a mistyped code must have in common with the code that it is taken for.
const ALIKE_MIN: usize = 5;

#[derive(Args)]
pub(super) struct Explain {
    /// Such as `EFFECT_DENIED`; without it, all codes with their meaning.
    code: Option<String>,
}

impl Explain {
    pub(super) fn run(&self, out: Out) -> Outcome {
        let Some(given) = &self.code else { return list(out) };
        let name = given.to_ascii_uppercase().replace('-', "_");
        let unknown = || {
            let known = match nearest(&name) {
                Some(code) => format!("is it {code}? `mundi explain` lists the codes"),
                None => "`mundi explain` lists the codes".to_owned(),
            };
            Failed::new(Code::RequestInvalid, format!("no error has the code `{given}`; {known}"))
        };
        let code = Code::from_name(&name).ok_or_else(unknown)?;
        let page = page(code).ok_or_else(unknown)?;
        if out.is_json() {
            let kind = code.kind().as_str();
            return out
                .object(&json!({ "code": code.as_str(), "kind": kind, "meaning": code.meaning(), "page": page }));
        }
        print(page)
    }
}

fn page(code: Code) -> Option<&'static str> {
    PAGES.iter().find(|(name, _)| *name == code.as_str()).map(|(_, page)| *page)
}

/// The code that begins like a mistyped one.
fn nearest(name: &str) -> Option<Code> {
    let alike = |code: &Code| code.as_str().bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    Code::ALL.iter().copied().max_by_key(alike).filter(|code| alike(code) >= ALIKE_MIN)
}

fn list(out: Out) -> Outcome {
    let row = |code: &Code| json!({ "code": code.as_str(), "kind": code.kind().as_str(), "meaning": code.meaning() });
    let rows: Vec<Value> = Code::ALL.iter().map(row).collect();
    out.rows(&[("CODE", "code"), ("KIND", "kind"), ("MEANING", "meaning")], &rows, &Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_code_is_taken_for_the_one_that_begins_like_it() {
        assert_eq!(nearest("EVENT_INVALD"), Some(Code::EventInvalid));
        assert_eq!(nearest("NONSENSE"), None);
    }

    #[test]
    fn every_code_has_its_page_in_the_program() {
        for &code in Code::ALL {
            assert!(page(code).is_some_and(|page| page.contains("## What to do")), "{code}");
        }
    }
}
