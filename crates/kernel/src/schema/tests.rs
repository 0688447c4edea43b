use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn compile(schema: &Value) -> BoundedSchema {
    BoundedSchema::compile(schema).unwrap()
}

/// The result of the step-by-step check, and its work.
fn evaluate(schema: &Value, value: &Value, max: u64) -> (Result<bool, Exceeded>, u64) {
    let mut work = Work::new(max);
    let answer = evaluate::is_valid(&Arena::compile(schema).unwrap(), value, &mut work);
    (answer, work.spent())
}

/// `count` definitions, each made of two references to the next.
fn fanned_out(count: usize) -> Value {
    let last = format!("d{count}");
    let mut defs: serde_json::Map<String, Value> = (0..count)
        .map(|n| {
            let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
            (format!("d{n}"), json!({ "allOf": [next, next] }))
        })
        .collect();
    defs.insert(last, json!({ "type": ["integer", "array", "object"] }));
    json!({ "$defs": defs, "$ref": "#/$defs/d0" })
}

/// Arrays of arrays, in which each level is tried twice.
fn tried_twice() -> Value {
    let items = json!({ "type": "array", "items": { "$ref": "#" } });
    json!({ "anyOf": [items, items, { "const": "right" }] })
}

fn nested(depth: usize, inner: Value) -> Value {
    (0..depth).fold(inner, |value, _| json!([value]))
}

#[test]
fn references_that_fan_out_are_followed_once() {
    let schema = fanned_out(40);
    let (valid, steps) = evaluate(&schema, &json!(7), u64::MAX);
    assert_eq!((valid, steps < 1_000), (Ok(true), true), "{steps} steps");
    assert_eq!(evaluate(&schema, &json!("no"), u64::MAX).0, Ok(false));
    let (compiled, mut work) = (compile(&schema), Work::bounded());
    assert_eq!(compiled.check(&json!(7), &mut work), Ok(()));
    assert!(matches!(compiled.check(&json!("no"), &mut work), Err(Mismatch::Invalid(_))));
    assert!(Registration::default().add(&schema).unwrap_err().contains("references written out"));
}

#[test]
fn a_level_that_is_tried_twice_costs_no_more_than_one() {
    for (inner, valid) in [("right", true), ("wrong", false)] {
        let value = nested(22, json!(inner));
        let (answer, steps) = evaluate(&tried_twice(), &value, u64::MAX);
        assert_eq!((answer, steps < 10_000), (Ok(valid), true), "{steps} steps");
    }
    Registration::default().add(&tried_twice()).unwrap();
}

#[test]
fn the_same_value_takes_the_same_steps_and_one_fewer_is_not_enough() {
    let value = nested(22, json!("wrong"));
    let (_, steps) = evaluate(&tried_twice(), &value, u64::MAX);
    assert_eq!(evaluate(&tried_twice(), &value, steps), (Ok(false), steps));
    assert_eq!(evaluate(&tried_twice(), &value, steps - 1).0, Err(Exceeded));
}

#[test]
fn a_large_value_under_a_wide_schema_ends_at_the_bound() {
    let branches: Vec<Value> = (0..2_000).map(|n| json!({ "required": [format!("p{n}")] })).collect();
    let schema = json!({ "items": { "anyOf": branches } });
    Registration::default().add(&schema).unwrap();
    let schema = compile(&schema);
    let value = Value::Array((0..50_000).map(|_| json!({})).collect());
    // The first item fails, which ends the check: so all but the last one must hold to cost anything.
    let mut items = vec![json!({ "p1999": 1 }); 50_000];
    items.push(json!({}));
    assert!(matches!(schema.check(&value, &mut Work::bounded()), Err(Mismatch::Invalid(_))));
    assert_eq!(schema.check(&Value::Array(items), &mut Work::bounded()), Err(Mismatch::Exceeded));
}

#[test]
fn a_chain_of_references_is_bounded_and_not_walked_on_the_stack() {
    let count = 20_000;
    let mut defs: serde_json::Map<String, Value> = (0..count)
        .map(|n| (format!("d{n}"), json!({ "allOf": [{ "$ref": format!("#/$defs/d{}", n + 1) }] })))
        .collect();
    defs.insert(format!("d{count}"), json!({ "type": "integer" }));
    let schema = json!({ "$defs": defs, "$ref": "#/$defs/d0" });
    let arena = Arena::compile(&schema).unwrap();
    assert_eq!(evaluate::is_valid(&arena, &json!(1), &mut Work::new(u64::MAX)), Err(Exceeded));
    assert!(Shape::of(&arena).check_registration().is_err());
}

#[test]
fn a_mismatch_says_where_it_is() {
    let schema = compile(&json!({ "type": "object", "properties": { "a": { "type": "integer" } } }));
    let why = |value: &Value| match schema.check(value, &mut Work::bounded()) {
        Err(Mismatch::Invalid(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(&json!({ "a": "x" })), "at `/a`: \"x\" is not of type \"integer\"");
    assert_eq!(why(&json!(1)), "at the value itself: 1 is not of type \"object\"");
}

#[test]
fn references_that_lead_to_themselves_are_refused_when_registered() {
    for schema in [
        json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "anyOf": [{ "$ref": "#/$defs/a" }] } }, "$ref": "#/$defs/a" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
    ] {
        let arena = Arena::compile(&schema).unwrap();
        assert!(Shape::of(&arena).check_registration().unwrap_err().contains("lead back"));
        assert!(evaluate::is_valid(&arena, &json!(1), &mut Work::new(10_000)).is_ok(), "it ends");
    }
    Registration::default().add(&tried_twice()).unwrap();
}

#[test]
fn unevaluated_parts_over_references_that_fan_out_do_not_compile_for_ever() {
    let mut schema = fanned_out(40);
    schema["unevaluatedProperties"] = json!(false);
    assert!(BoundedSchema::compile(&schema).is_err());
    assert_eq!(evaluate(&schema, &json!({}), 100_000).0, Ok(true));
    assert_eq!(evaluate(&schema, &json!({ "a": 1 }), 100_000).0, Ok(false));
}

#[test]
fn expressions_that_are_large_when_written_out_are_refused_when_registered() {
    let heavy = json!({ "pattern": "^([abcdefgh]{0,100}){0,100}$" });
    assert!(Registration::default().add(&heavy).unwrap_err().contains("regular expression"));
    let heavy = compile(&heavy);
    let text = json!("a".repeat(1 << 20));
    assert_eq!(heavy.check(&text, &mut Work::bounded()), Err(Mismatch::Exceeded));
    let light = json!({ "pattern": "^[a-z0-9_-]{1,64}$", "patternProperties": { "^x-": {} } });
    let mut registration = Registration::default();
    registration.add(&light).unwrap();
    let many = (0..2_000).find_map(|_| registration.add(&light).err()).expect("together they are too many");
    assert!(many.contains("regular expressions"), "{many}");
    let light = compile(&light);
    assert_eq!(light.check(&json!("name-1"), &mut Work::bounded()), Ok(()));
}

#[test]
fn items_that_differ_only_in_their_brackets_cost_no_more_than_others() {
    // All of these hash alike in the crate.
    let mut items = Vec::new();
    for split in 0..900 {
        let (left, right): (Vec<u32>, Vec<u32>) =
            (0..300).map(|n| n % 7).enumerate().fold(Default::default(), |mut sides, (at, n)| {
                if at < split % 300 {
                    sides.0.push(n);
                } else {
                    sides.1.push(n);
                }
                sides
            });
        items.push(json!([left, nested(split / 300, json!(right))]));
    }
    let schema = compile(&json!({ "uniqueItems": true }));
    assert_eq!(schema.check(&Value::Array(items.clone()), &mut Work::bounded()), Ok(()));
    items.push(items[17].clone());
    assert!(matches!(schema.check(&Value::Array(items), &mut Work::bounded()), Err(Mismatch::Invalid(_))));
}

#[test]
fn a_value_that_must_be_an_expression_is_compiled_within_the_bound() {
    let schema = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "items": { "format": "regex" } });
    let bombs: Vec<Value> = (0..200).map(|n| json!(format!("(((a{{{n}00}}){{100}}){{100}})"))).collect();
    assert_eq!(compile(&schema).check(&Value::Array(bombs), &mut Work::bounded()), Err(Mismatch::Exceeded));
}

#[test]
fn the_schema_of_schemas_is_understood() {
    for (uri, good, bad) in [
        (
            "https://json-schema.org/draft/2020-12/schema",
            json!({ "properties": { "a": { "type": "string" } } }),
            json!({ "properties": { "a": { "type": 7 } } }),
        ),
        (
            "http://json-schema.org/draft-07/schema#",
            json!({ "items": [{ "minimum": 1 }] }),
            json!({ "items": [{ "minimum": "1" }] }),
        ),
    ] {
        let schema = json!({ "$ref": uri });
        assert_eq!(evaluate(&schema, &good, 1_000_000).0, Ok(true), "{uri}");
        assert_eq!(evaluate(&schema, &bad, 1_000_000).0, Ok(false), "{uri}");
    }
}

const DRAFTS: [&str; 4] = [
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
];

fn values() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        prop_oneof![Just(json!(1.0)), Just(json!(0.5)), Just(json!(-0.0))],
        "[ab]{0,3}".prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// Subschemas without and with further ones; references lead to three definitions and to the root.
fn subschemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!({})),
        Just(json!(false)),
        prop_oneof![Just("null"), Just("integer"), Just("number"), Just("string"), Just("array"), Just("object")]
            .prop_map(|name| json!({ "type": name })),
        values().prop_map(|value| json!({ "const": value })),
        prop::collection::vec(values(), 1..3).prop_map(|values| json!({ "enum": values })),
        (0..3_u8).prop_map(|n| json!({ "minimum": n, "maxLength": n, "minItems": n, "maxProperties": n + 1 })),
        "[ab]".prop_map(|name| json!({ "required": [name] })),
        Just(json!({ "pattern": "^a" })),
        Just(json!({ "uniqueItems": true })),
        (0..3_u8).prop_map(|n| json!({ "$ref": format!("#/$defs/d{n}") })),
        Just(json!({ "$ref": "#" })),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let one = inner.clone();
        let list = prop::collection::vec(inner.clone(), 1..4);
        let map = prop::collection::btree_map("[abc]", inner.clone(), 0..3);
        prop_oneof![
            ("(allOf|anyOf|oneOf)", list.clone()).prop_map(|(name, list)| json!({ name: list })),
            one.clone().prop_map(|one| json!({ "not": one })),
            (one.clone(), one.clone(), one.clone()).prop_map(|(a, b, c)| json!({ "if": a, "then": b, "else": c })),
            (map.clone(), one.clone())
                .prop_map(|(map, rest)| json!({ "properties": map, "additionalProperties": rest })),
            (map.clone(), one.clone())
                .prop_map(|(map, rest)| json!({ "properties": map, "patternProperties": { "^[ab]$": rest } })),
            one.clone().prop_map(|one| json!({ "propertyNames": one })),
            one.clone().prop_map(|one| json!({ "items": one })),
            (list.clone(), one.clone()).prop_map(|(list, rest)| json!({ "prefixItems": list, "items": rest })),
            one.clone().prop_map(|one| json!({ "contains": one })),
            (one.clone(), 0..3_u8, 0..3_u8)
                .prop_map(|(one, min, max)| json!({ "contains": one, "minContains": min, "maxContains": max })),
            ("[ab]", one.clone()).prop_map(|(name, one)| json!({ "dependentSchemas": { name: one } })),
            (list.clone(), one.clone())
                .prop_map(|(list, rest)| json!({ "anyOf": list, "unevaluatedProperties": rest })),
            (map, list.clone(), any::<bool>()).prop_map(
                |(map, list, rest)| json!({ "properties": map, "allOf": list, "unevaluatedProperties": rest })
            ),
            (list.clone(), list, one).prop_map(
                |(prefix, list, rest)| json!({ "prefixItems": prefix, "oneOf": list, "unevaluatedItems": rest })
            ),
        ]
    })
}

/// In the words of an older draft, where it has others.
fn translate(schema: &mut Value, draft: usize) {
    if draft == 3 {
        return;
    }
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| translate(item, draft)),
        Value::Object(entries) => {
            if let Some(prefix) = entries.remove("prefixItems")
                && let Some(rest) = entries.insert("items".to_owned(), prefix)
            {
                entries.insert("additionalItems".to_owned(), rest);
            }
            if draft < 2
                && let Some(dependent) = entries.remove("dependentSchemas")
            {
                entries.insert("dependencies".to_owned(), dependent);
            }
            entries.values_mut().for_each(|value| translate(value, draft));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 500 } else { 20_000 }))]

    /// The crate and the step-by-step check say the same about every value.
    #[test]
    fn both_ways_agree(
        root in subschemas(),
        defs in prop::collection::vec(subschemas(), 3),
        values in prop::collection::vec(values(), 1..8),
        draft in 0..DRAFTS.len(),
    ) {
        let mut schema = match root {
            Value::Object(entries) => Value::Object(entries),
            other => json!({ "allOf": [other] }),
        };
        for (n, def) in defs.into_iter().enumerate() {
            schema["$defs"][format!("d{n}")] = def;
        }
        schema["$schema"] = json!(DRAFTS[draft]);
        translate(&mut schema, draft);
        let arena = Arena::compile(&schema).unwrap();
        let shape = Shape::of(&arena);
        // Endless references have no meaning that could be agreed on.
        prop_assume!(shape.check_registration().is_ok());
        let Ok(whole) = options().build(&schema) else { return Err(TestCaseError::reject("no schema")) };
        for value in values {
            let mut work = Work::new(u64::MAX);
            let answer = evaluate::is_valid(&arena, &value, &mut work).unwrap();
            prop_assert_eq!(answer, whole.is_valid(&value), "{} against {}", value, schema);
            let bounded = compile(&schema).check(&value, &mut Work::bounded());
            prop_assert_eq!(bounded.is_ok(), answer, "{} against {}: {:?}", value, schema, bounded);
        }
    }

    #[test]
    fn no_value_takes_more_steps_than_the_bound_says(schema in subschemas(), value in values()) {
        let schema = json!({ "$defs": { "d0": {}, "d1": { "type": "array" }, "d2": { "required": ["a"] } }, "allOf": [schema] });
        let arena = Arena::compile(&schema).unwrap();
        let shape = Shape::of(&arena);
        prop_assume!(shape.check_registration().is_ok());
        let bound = shape.work_max(Size::of(&value));
        let mut work = Work::new(u64::MAX);
        evaluate::is_valid(&arena, &value, &mut work).unwrap();
        prop_assert!(work.spent() <= bound.saturating_mul(8).saturating_add(64), "{} > {}", work.spent(), bound);
    }
}
