//! Makes values small enough for an assistant: long texts and lists are cut, and say so.

use serde_json::{Map, Value, json};

/// The largest result, as JSON.
const RESULT_BYTES_MAX: usize = 24_000;

/// Bounds of a value that is shortened, from generous to strict. A page of a list has at most 100 items, and loses none: its `next` is after the last.
const LEVELS: [Bounds; 5] = [
    Bounds { text: 4_000, items: 200, depth: 12 },
    Bounds { text: 1_000, items: 100, depth: 8 },
    Bounds { text: 200, items: 100, depth: 6 },
    Bounds { text: 80, items: 100, depth: 4 },
    Bounds { text: 40, items: 100, depth: 3 },
];

#[derive(Debug, Clone, Copy)]
struct Bounds {
    text: usize,
    items: usize,
    depth: usize,
}

/// The value, cut as much as needed. Marked with `$cut` where something is missing.
pub(super) fn shortened(value: &Value) -> Value {
    let mut short = Value::Null;
    for bounds in LEVELS {
        short = cut(value, bounds, bounds.depth);
        if short.to_string().len() <= RESULT_BYTES_MAX {
            return short;
        }
    }
    match short.to_string().len() {
        size if size <= 4 * RESULT_BYTES_MAX => short,
        size => json!({ "$cut": format!("a value of {size} bytes: ask for less of it") }),
    }
}

fn cut(value: &Value, bounds: Bounds, depth: usize) -> Value {
    match value {
        Value::String(text) => cut_text(text, bounds.text).into(),
        Value::Array(items) if depth == 0 => json!({ "$cut": format!("a list of {}", items.len()) }),
        Value::Object(members) if depth == 0 => json!({ "$cut": format!("an object of {} members", members.len()) }),
        Value::Array(items) => {
            let mut short: Vec<_> = items.iter().take(bounds.items).map(|item| cut(item, bounds, depth - 1)).collect();
            if items.len() > bounds.items {
                short.push(json!({ "$cut": format!("{} more", items.len() - bounds.items) }));
            }
            short.into()
        }
        Value::Object(members) => {
            let each = members.iter().take(bounds.items).map(|(key, item)| (key.clone(), cut(item, bounds, depth - 1)));
            let mut short: Map<_, _> = each.collect();
            if members.len() > bounds.items {
                short.insert("$cut".to_owned(), format!("{} more", members.len() - bounds.items).into());
            }
            short.into()
        }
        plain => plain.clone(),
    }
}

pub(super) fn cut_text(text: &str, characters_max: usize) -> String {
    match text.char_indices().nth(characters_max) {
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_value_is_itself() {
        let value = json!({ "a": [1, 2, { "b": "text" }], "c": null });
        assert_eq!(shortened(&value), value);
    }

    #[test]
    fn a_page_keeps_every_item() {
        let page = |value: &Value| {
            let items: Vec<_> = (0..100).map(|at| json!({ "key": format!("k{at}"), "value": value })).collect();
            json!({ "items": items, "next": "k99" })
        };
        let nested = json!([vec!["a".repeat(100); 50]]);
        for value in [json!("x".repeat(100)), json!("x".repeat(2_000)), nested] {
            let short = shortened(&page(&value));
            let keys: Vec<_> = short["items"].as_array().unwrap().iter().map(|it| it["key"].as_str()).collect();
            assert_eq!((keys.len(), keys[99], &short["next"]), (100, Some("k99"), &json!("k99")));
        }
    }

    #[test]
    fn whatever_is_large_becomes_small_and_says_so() {
        let deep = (0..100).fold(json!("x"), |inner, _| json!([inner]));
        let wide: Vec<_> = (0..100_000).collect();
        let rows: Vec<_> = (0..100).map(|at| json!({ "height": at, "text": "long ".repeat(5_000) })).collect();
        for value in [json!("y".repeat(1_000_000)), json!(wide), deep, json!({ "items": rows })] {
            let short = shortened(&value).to_string();
            assert!(short.len() <= 4 * RESULT_BYTES_MAX, "{}", short.len());
            assert!(short.contains("$cut") || short.contains('…'), "{short}");
        }
    }
}
