//! The documents of Mundi, built in: search and read.

use super::{Outcome, Refusal, shorten::cut_text};
use mundi_model::Code;
use serde_json::json;

/// Name and text of each page, in the order of their names.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/documents.rs"));

const FOUND_MAX: usize = 8;
const WORDS_MAX: usize = 12;
const READ_BYTES: usize = 8_000;
const EXCERPT_CHARACTERS: usize = 300;

/// A part of a page under one heading.
struct Section {
    page: &'static str,
    heading: &'static str,
    text: &'static str,
    /// Where it begins in its page.
    from: usize,
}

fn sections() -> impl Iterator<Item = Section> {
    PAGES.iter().flat_map(|(page, text)| {
        let starts = text.match_indices("\n#").map(|(at, _)| at + 1);
        let mut starts: Vec<usize> = std::iter::once(0).chain(starts).collect();
        starts.dedup();
        let ends: Vec<usize> = starts.iter().skip(1).copied().chain([text.len()]).collect();
        starts.into_iter().zip(ends).map(move |(from, to)| {
            let part = &text[from..to];
            let heading = part.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']);
            Section { page, heading, text: part, from }
        })
    })
}

/// The sections that fit best. A word in a heading counts more than in the text, and a rare word more than a common one.
pub(super) fn search(query: &str) -> Outcome {
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect();
    let words: Vec<&str> = words.into_iter().filter(|word| word.len() > 1).take(WORDS_MAX).collect();
    if words.is_empty() {
        return Err(Refusal::new(Code::RequestInvalid, "the query has no word").hinting("Search for a word or two."));
    }
    let sections: Vec<(Section, String)> =
        sections().map(|it| (it.text.to_lowercase(), it)).map(|(a, b)| (b, a)).collect();
    let weights: Vec<usize> = words
        .iter()
        .map(|word| sections.len() / (1 + sections.iter().filter(|(_, text)| text.contains(word)).count()))
        .collect();
    let score = |(section, text): &(Section, String)| -> usize {
        let of_word = |(word, weight): (&&str, &usize)| {
            let in_text = text.matches(word).take(5).count();
            let in_heading = section.heading.to_lowercase().matches(word).count();
            let in_name = section.page.to_lowercase().matches(word).count();
            (1 + weight) * (in_text + 5 * in_heading + 5 * in_name)
        };
        words.iter().zip(&weights).map(of_word).sum()
    };
    let mut found: Vec<(usize, &Section)> =
        sections.iter().map(|it| (score(it), &it.0)).filter(|(score, _)| *score > 0).collect();
    found.sort_by_key(|(score, section)| (std::cmp::Reverse(*score), section.page, section.from));
    let items: Vec<_> = found
        .iter()
        .take(FOUND_MAX)
        .map(|(_, section)| {
            let text = section.text.trim();
            json!({ "page": section.page, "heading": section.heading, "from": section.from, "excerpt": cut_text(text, EXCERPT_CHARACTERS) })
        })
        .collect();
    Ok(json!({ "found": items, "hint": "docs_read with `page` and `from` reads on." }))
}

pub(super) fn read(page: &str, from: usize) -> Outcome {
    let name = page.trim_start_matches("docs/").trim_end_matches(".md");
    let Some((name, text)) = PAGES.iter().find(|(known, _)| *known == name) else {
        return Err(Refusal::new(Code::RequestInvalid, format!("there is no page `{page}`"))
            .hinting("docs_search finds pages."));
    };
    let from = boundary(text, from);
    let to = boundary(text, from.saturating_add(READ_BYTES));
    let next = (to < text.len()).then_some(to);
    Ok(json!({ "page": name, "text": &text[from..to], "next": next }))
}

/// The nearest place at or before this one where a character begins.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_the_page_that_is_about_it() {
        for (query, page) in
            [("WORLD_NOT_FOUND", "reference/errors/WORLD_NOT_FOUND"), ("fork policy sandbox", "concepts/fork")]
        {
            let found = search(query).unwrap();
            let pages: Vec<_> =
                found["found"].as_array().unwrap().iter().map(|it| it["page"].as_str().unwrap()).collect();
            assert!(pages.contains(&page), "{query}: {pages:?}");
        }
        assert!(search("  ").is_err());
    }

    #[test]
    fn a_page_is_read_to_its_end_in_parts() {
        let (name, text) = PAGES.iter().max_by_key(|(_, text)| text.len()).unwrap();
        let (mut read_so_far, mut from) = (String::new(), Some(0));
        while let Some(at) = from {
            let part = read(name, at).unwrap();
            read_so_far += part["text"].as_str().unwrap();
            from = part["next"].as_u64().map(|next| usize::try_from(next).unwrap());
        }
        assert_eq!(&read_so_far, text);
        assert!(read("nonsense", 0).is_err());
    }
}
