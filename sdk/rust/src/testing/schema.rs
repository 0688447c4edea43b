//! JSON Schema, as far as `mundi.json` uses it. A keyword that is not known here is an error, not a silent yes.

use crate::Value;
use serde_json::Map;

/// Say something for people, or name something: nothing is checked.
const NOTES: [&str; 14] = [
    "$schema",
    "$id",
    "$defs",
    "$comment",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
];

/// Deep enough for any schema that a person writes; a reference to itself ends here.
const DEPTH_MAX: u32 = 128;

/// Whether a value satisfies a schema, or why that cannot be told here.
pub(crate) fn is_valid(schema: &Value, value: &Value) -> Result<bool, String> {
    Check { root: schema }.holds(schema, value, DEPTH_MAX)
}

struct Check<'s> {
    root: &'s Value,
}

impl Check<'_> {
    fn holds(&self, schema: &Value, value: &Value, depth_left: u32) -> Result<bool, String> {
        let depth_left = depth_left.checked_sub(1).ok_or("the schema is nested too deeply")?;
        match schema {
            Value::Bool(answer) => Ok(*answer),
            Value::Object(keywords) => {
                for (keyword, says) in keywords {
                    if !self.keyword(keywords, keyword, says, value, depth_left)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Err("a schema is an object, `true` or `false`".to_owned()),
        }
    }

    fn keyword(
        &self,
        all: &Map<String, Value>,
        keyword: &str,
        says: &Value,
        value: &Value,
        depth: u32,
    ) -> Result<bool, String> {
        let each = |schemas: &Value| -> Result<Vec<bool>, String> {
            let schemas = schemas.as_array().into_iter().flatten();
            schemas.map(|schema| self.holds(schema, value, depth)).collect()
        };
        let bound = says.as_f64().unwrap_or(0.0);
        let number = |holds: &dyn Fn(f64) -> bool| value.as_f64().is_none_or(holds);
        let count = |len: Option<usize>, holds: &dyn Fn(f64) -> bool| len.is_none_or(|len| holds(len as f64));
        let (text, items, entries) = (value.as_str(), value.as_array(), value.as_object());
        let letters = text.map(|text| text.chars().count());
        Ok(match keyword {
            "type" => match says {
                Value::Array(types) => types.iter().any(|name| is_of(name, value)),
                name => is_of(name, value),
            },
            "enum" => says.as_array().is_some_and(|choices| choices.iter().any(|choice| equal(choice, value))),
            "const" => equal(says, value),
            "minimum" => number(&|n| n >= bound),
            "maximum" => number(&|n| n <= bound),
            "exclusiveMinimum" => number(&|n| n > bound),
            "exclusiveMaximum" => number(&|n| n < bound),
            "multipleOf" => number(&|n| (n / bound).fract() == 0.0),
            "minLength" => count(letters, &|n| n >= bound),
            "maxLength" => count(letters, &|n| n <= bound),
            "minItems" => count(items.map(Vec::len), &|n| n >= bound),
            "maxItems" => count(items.map(Vec::len), &|n| n <= bound),
            "minProperties" => count(entries.map(Map::len), &|n| n >= bound),
            "maxProperties" => count(entries.map(Map::len), &|n| n <= bound),
            "uniqueItems" => {
                let repeats = |items: &Vec<Value>| {
                    items.iter().enumerate().any(|(at, item)| items[..at].iter().any(|earlier| equal(earlier, item)))
                };
                says != true || !items.is_some_and(repeats)
            }
            "pattern" => match text {
                Some(text) => matches(says, text)?,
                None => true,
            },
            "allOf" => each(says)?.iter().all(|holds| *holds),
            "anyOf" => each(says)?.iter().any(|holds| *holds),
            "oneOf" => each(says)?.iter().filter(|holds| **holds).count() == 1,
            "not" => !self.holds(says, value, depth)?,
            "if" => {
                let branch = if self.holds(says, value, depth)? { "then" } else { "else" };
                all.get(branch).map_or(Ok(true), |schema| self.holds(schema, value, depth))?
            }
            "$ref" => {
                let place = says.as_str().and_then(|reference| reference.strip_prefix('#'));
                let found = place.and_then(|place| self.root.pointer(place));
                self.holds(found.ok_or_else(|| format!("the reference {says} leads nowhere"))?, value, depth)?
            }
            "required" => entries.is_none_or(|entries| names(says).all(|name| entries.contains_key(name))),
            "dependentRequired" => entries.is_none_or(|entries| {
                let rules = says.as_object().into_iter().flatten().filter(|(name, _)| entries.contains_key(*name));
                rules.flat_map(|(_, needs)| names(needs)).all(|name| entries.contains_key(name))
            }),
            "properties" | "patternProperties" | "additionalProperties" | "propertyNames" => match entries {
                Some(entries) => self.entries(all, keyword, says, entries, depth)?,
                None => true,
            },
            "prefixItems" | "items" | "contains" => match items {
                Some(items) => self.items(all, keyword, says, items, depth)?,
                None => true,
            },
            "then" | "else" => true,
            note if NOTES.contains(&note) => true,
            other => return Err(format!("the test world does not know the keyword `{other}` of JSON Schema")),
        })
    }

    fn entries(
        &self,
        all: &Map<String, Value>,
        keyword: &str,
        says: &Value,
        entries: &Map<String, Value>,
        depth: u32,
    ) -> Result<bool, String> {
        let patterns: Vec<&String> =
            all.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys).collect();
        for (name, part) in entries {
            let holds = match keyword {
                "properties" => says.get(name).map_or(Ok(true), |schema| self.holds(schema, part, depth))?,
                "patternProperties" => {
                    let mut holds = true;
                    for (pattern, schema) in says.as_object().into_iter().flatten() {
                        holds &= !matches(&pattern.as_str().into(), name)? || self.holds(schema, part, depth)?;
                    }
                    holds
                }
                "additionalProperties" => {
                    let mut is_known = all.get("properties").is_some_and(|known| known.get(name).is_some());
                    for pattern in &patterns {
                        is_known |= matches(&pattern.as_str().into(), name)?;
                    }
                    is_known || self.holds(says, part, depth)?
                }
                _ => self.holds(says, &name.as_str().into(), depth)?,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn items(
        &self,
        all: &Map<String, Value>,
        keyword: &str,
        says: &Value,
        items: &[Value],
        depth: u32,
    ) -> Result<bool, String> {
        let first = all.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
        match keyword {
            "prefixItems" => {
                for (schema, item) in says.as_array().into_iter().flatten().zip(items) {
                    if !self.holds(schema, item, depth)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            "contains" => {
                for item in items {
                    if self.holds(says, item, depth)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => {
                for item in items.iter().skip(first) {
                    if !self.holds(says, item, depth)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn is_of(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// 1 and 1.0 are the same number.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64()),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, part)| b.get(name).is_some_and(|other| equal(part, other)))
        }
        (left, right) => left == right,
    }
}

fn matches(pattern: &Value, text: &str) -> Result<bool, String> {
    let pattern = pattern.as_str().ok_or("a pattern is a text")?;
    let pattern = regex_lite::Regex::new(pattern).map_err(|error| format!("the pattern `{pattern}`: {error}"))?;
    Ok(pattern.is_match(text))
}
