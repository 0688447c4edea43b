//! Whether the items of an array differ, in time that no choice of items can make quadratic.
//!
//! Each item is written out in one form per value and the forms are sorted. A hash would be quicker for honest items;
//! the crate's one gives arrays that differ only in their brackets the same hash.

use super::{Exceeded, Size, Work};
use serde_json::{Number, Value};
use std::collections::BTreeSet;

pub(super) fn are_unique(items: &[Value], work: &mut Work) -> Result<bool, Exceeded> {
    let sorting = u64::from(items.len().max(1).ilog2()) + 1;
    let mut forms = BTreeSet::new();
    for item in items {
        let Size { nodes, text_bytes } = Size::of(item);
        work.spend(nodes.saturating_add(text_bytes / 16).saturating_mul(sorting))?;
        let mut form = Vec::new();
        write(item, &mut form);
        if !forms.insert(form) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn write(value: &Value, form: &mut Vec<u8>) {
    match value {
        Value::Null => form.push(0),
        Value::Bool(value) => form.push(1 + u8::from(*value)),
        Value::Number(number) => write_number(number, form),
        Value::String(text) => write_text(text, form),
        Value::Array(items) => {
            form.push(6);
            form.extend((items.len() as u64).to_be_bytes());
            items.iter().for_each(|item| write(item, form));
        }
        Value::Object(entries) => {
            form.push(7);
            form.extend((entries.len() as u64).to_be_bytes());
            // The map is sorted by its keys, unless a feature of the library says otherwise.
            let sorted: std::collections::BTreeMap<_, _> = entries.iter().collect();
            sorted.into_iter().for_each(|(key, value)| {
                write_text(key, form);
                write(value, form);
            });
        }
    }
}

fn write_text(text: &str, form: &mut Vec<u8>) {
    form.push(5);
    form.extend((text.len() as u64).to_be_bytes());
    form.extend(text.as_bytes());
}

/// One form for a number, whether it was written as an integer or as a float.
fn write_number(number: &Number, form: &mut Vec<u8>) {
    let integer = number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from));
    let float = number.as_f64().unwrap_or(f64::NAN);
    #[expect(clippy::cast_possible_truncation, reason = "whole numbers below 2^100 fit")]
    let whole = || (float.fract() == 0.0 && float.abs() < 2_f64.powi(100)).then_some(float as i128);
    match integer.or_else(whole) {
        Some(integer) => {
            form.push(3);
            form.extend(integer.to_be_bytes());
        }
        None => {
            form.push(4);
            form.extend(float.to_bits().to_be_bytes());
        }
    }
}
