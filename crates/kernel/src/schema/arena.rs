//! A schema as a table of subschemas that name each other by number.
//!
//! References are resolved by the library that the crate uses, so that both mean the same. Keywords that look at one
//! value only are left to the crate, as a schema of their own; those that apply subschemas are taken apart here.

use super::{Exceeded, Work, options, pattern};
use jsonschema::Validator;
use referencing::{Draft, Registry, Resolver, SPECIFICATIONS};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

/// Subschemas of one schema: some 1 MiB of JSON has fewer.
const NODES_MAX: usize = 250_000;

/// The base of a schema that has no id of its own: the crate's.
const BASE_URI: &str = "json-schema:///";

/// The most that a check of `format: regex` costs: it compiles the value, and gives up where that grows too large.
const REGEX_FORMAT_WORK: u64 = 1 << 20;

pub(super) type NodeId = u32;

pub(super) struct Arena {
    pub(super) nodes: Vec<Node>,
    pub(super) root: NodeId,
}

/// One subschema. What is empty or absent asks for nothing.
#[derive(Default)]
pub(super) struct Node {
    /// The schema `false`.
    pub(super) refuses: bool,
    /// A reference leads here: what it says about a value is remembered.
    pub(super) is_shared: bool,
    pub(super) leaf: Option<Arc<Leaf>>,
    pub(super) unique_items: bool,
    pub(super) references: Vec<NodeId>,
    pub(super) all_of: Vec<NodeId>,
    pub(super) any_of: Vec<NodeId>,
    pub(super) one_of: Vec<NodeId>,
    pub(super) not: Option<NodeId>,
    pub(super) condition: Option<Condition>,
    /// Schemas that hold if a property is there.
    pub(super) dependent: Vec<(String, NodeId)>,
    pub(super) properties: BTreeMap<String, NodeId>,
    pub(super) patterns: Vec<(Arc<Leaf>, NodeId)>,
    pub(super) additional: Option<NodeId>,
    pub(super) names: Option<NodeId>,
    pub(super) prefix: Vec<NodeId>,
    /// For the items after the prefix.
    pub(super) items: Option<NodeId>,
    pub(super) contains: Option<Contains>,
    pub(super) unevaluated_properties: Option<NodeId>,
    pub(super) unevaluated_items: Option<NodeId>,
}

#[derive(Clone, Copy)]
pub(super) struct Condition {
    pub(super) holds: NodeId,
    pub(super) then: Option<NodeId>,
    pub(super) otherwise: Option<NodeId>,
}

#[derive(Clone, Copy)]
pub(super) struct Contains {
    pub(super) node: NodeId,
    pub(super) min: u64,
    pub(super) max: Option<u64>,
    /// The items that it finds count as evaluated.
    pub(super) marks: bool,
}

impl Node {
    /// The subschemas that are applied to the very value.
    pub(super) fn in_place(&self) -> impl Iterator<Item = NodeId> + '_ {
        let condition = self.condition.into_iter();
        let condition = condition.flat_map(|Condition { holds, then, otherwise }| [Some(holds), then, otherwise]);
        let listed = [&self.references, &self.all_of, &self.any_of, &self.one_of].into_iter().flatten().copied();
        listed.chain(self.not).chain(condition.flatten()).chain(self.dependent.iter().map(|(_, node)| *node))
    }

    /// The subschemas that are applied to parts of the value.
    pub(super) fn below(&self) -> impl Iterator<Item = NodeId> + '_ {
        let named = self.properties.values().copied().chain(self.patterns.iter().map(|(_, node)| *node));
        let contained = self.contains.map(|contains| contains.node);
        let single = [self.additional, self.names, self.items, contained];
        let unevaluated = [self.unevaluated_properties, self.unevaluated_items];
        named.chain(self.prefix.iter().copied()).chain(single.into_iter().chain(unevaluated).flatten())
    }
}

/// Keywords that look at one value, without subschemas.
pub(super) struct Leaf {
    schema: Value,
    draft: Draft,
    validator: OnceLock<Option<Validator>>,
    /// Steps for any value.
    pub(super) steps: u64,
    /// Steps for 16 bytes of a text.
    pub(super) text_weight: u64,
    /// The most steps for a text of any length.
    pub(super) text_steps: u64,
}

impl Leaf {
    fn new(schema: Map<String, Value>, draft: Draft) -> Self {
        let pattern = schema.get("pattern").and_then(Value::as_str).map_or(0, pattern::weight);
        let is_regex = schema.get("format").and_then(Value::as_str) == Some("regex");
        let schema = Value::Object(schema);
        let super::Size { nodes, text_bytes } = super::Size::of(&schema);
        Self {
            steps: nodes + text_bytes / 16,
            text_weight: pattern.saturating_add(1),
            text_steps: if is_regex { REGEX_FORMAT_WORK } else { 0 },
            schema,
            draft,
            validator: OnceLock::new(),
        }
    }

    /// As a schema whose patterns were accepted before, it compiles; one that does not refuses everything.
    pub(super) fn is_valid(&self, value: &Value, work: &mut Work) -> Result<bool, Exceeded> {
        work.spend(self.steps)?;
        if let Value::String(text) = value {
            work.spend((text.len() as u64 / 16 + 1).saturating_mul(self.text_weight))?;
            work.spend(pattern::weight(text).min(self.text_steps))?;
        }
        let draft = if self.draft == Draft::Unknown { Draft::Draft202012 } else { self.draft };
        let compiled = self.validator.get_or_init(|| options().with_draft(draft).build(&self.schema).ok());
        Ok(compiled.as_ref().is_some_and(|validator| validator.is_valid(value)))
    }
}

impl Arena {
    pub(super) fn compile(schema: &Value) -> Result<Self, String> {
        let draft = Draft::default().detect(schema);
        let resource = draft.create_resource_ref(schema);
        let base = referencing::uri::from_str(resource.id().unwrap_or(BASE_URI)).map_err(|error| error.to_string())?;
        let registry = SPECIFICATIONS.add(base.as_str(), resource).and_then(|registry| registry.prepare());
        let registry: Registry<'_> = registry.map_err(|error| error.to_string())?;
        let mut compiler =
            Compiler { nodes: Vec::new(), known: BTreeMap::new(), waiting: Vec::new(), is_dynamic: is_dynamic(schema) };
        let root = compiler.place(schema, &registry.resolver(base), draft)?;
        while let Some((id, contents, resolver, draft)) = compiler.waiting.pop() {
            let node = compiler.node(contents, &resolver, draft)?;
            let is_shared = compiler.nodes[id as usize].is_shared;
            compiler.nodes[id as usize] = Node { is_shared, ..node };
        }
        Ok(Self { nodes: compiler.nodes, root })
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }
}

/// Whether a reference in it may depend on the way that led there.
fn is_dynamic(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(is_dynamic),
        Value::Object(entries) => entries.iter().any(|(key, value)| {
            let to_specification = || value.as_str().is_some_and(|uri| uri.contains("json-schema.org/"));
            matches!(key.as_str(), "$dynamicRef" | "$recursiveRef")
                || key == "$ref" && to_specification()
                || is_dynamic(value)
        }),
        _ => false,
    }
}

/// The identity of a subschema: its place, and the way that led to it if that matters.
type SchemaAddress = (usize, Vec<String>);

struct Compiler<'r> {
    nodes: Vec<Node>,
    known: BTreeMap<SchemaAddress, NodeId>,
    waiting: Vec<(NodeId, &'r Value, Resolver<'r>, Draft)>,
    is_dynamic: bool,
}

impl<'r> Compiler<'r> {
    /// The number of a subschema, which is compiled later: no chain of references becomes a chain of calls.
    fn place(&mut self, contents: &'r Value, resolver: &Resolver<'r>, draft: Draft) -> Result<NodeId, String> {
        let mut way: Vec<String> = Vec::new();
        if self.is_dynamic {
            let base = resolver.base_uri();
            for uri in resolver.dynamic_scope().iter().map(|uri| uri.as_str()).chain([base.as_str()]) {
                if !way.iter().any(|earlier| earlier == uri) {
                    way.push(uri.to_owned());
                }
            }
        }
        let place = (std::ptr::from_ref(contents) as usize, way);
        if let Some(id) = self.known.get(&place) {
            return Ok(*id);
        }
        if self.nodes.len() >= NODES_MAX {
            return Err(format!("it has more than {NODES_MAX} subschemas"));
        }
        let id = NodeId::try_from(self.nodes.len()).map_err(|error| error.to_string())?;
        self.known.insert(place, id);
        self.nodes.push(Node::default());
        self.waiting.push((id, contents, resolver.clone(), draft));
        Ok(id)
    }

    fn node(&mut self, contents: &'r Value, resolver: &Resolver<'r>, draft: Draft) -> Result<Node, String> {
        let Value::Object(schema) = contents else {
            return Ok(Node { refuses: *contents == Value::Bool(false), ..Node::default() });
        };
        let draft = draft.detect(contents);
        let resolver =
            &resolver.in_subresource(draft.create_resource_ref(contents)).map_err(|error| error.to_string())?;
        let is_old = matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7);
        if is_old && schema.contains_key("$ref") {
            // Everything beside the reference is ignored.
            return Ok(Node { references: self.references(schema, resolver, draft)?, ..Node::default() });
        }
        let mut parts = Parts { compiler: self, schema, resolver, draft };
        let mut node = Node {
            leaf: leaf(schema, draft),
            unique_items: schema.get("uniqueItems") == Some(&Value::Bool(true)),
            all_of: parts.list("allOf")?,
            any_of: parts.list("anyOf")?,
            one_of: parts.list("oneOf")?,
            not: parts.one("not")?,
            properties: parts.map("properties")?.into_iter().collect(),
            additional: parts.one("additionalProperties")?,
            ..Node::default()
        };
        for (source, id) in parts.map("patternProperties")? {
            let schema = Map::from_iter([("pattern".to_owned(), Value::String(source))]);
            node.patterns.push((Arc::new(Leaf::new(schema, draft)), id));
        }
        node.dependent = parts.dependencies()?;
        parts.arrays(&mut node)?;
        if draft != Draft::Draft4 {
            node.names = parts.one("propertyNames")?;
        }
        if !matches!(draft, Draft::Draft4 | Draft::Draft6)
            && let Some(holds) = parts.one("if")?
        {
            node.condition = Some(Condition { holds, then: parts.one("then")?, otherwise: parts.one("else")? });
        }
        if !is_old {
            node.dependent.extend(parts.map("dependentSchemas")?);
            node.unevaluated_properties = parts.one("unevaluatedProperties")?;
            node.unevaluated_items = parts.one("unevaluatedItems")?;
        }
        node.references = self.references(schema, resolver, draft)?;
        Ok(node)
    }

    fn references(
        &mut self,
        schema: &'r Map<String, Value>,
        resolver: &Resolver<'r>,
        draft: Draft,
    ) -> Result<Vec<NodeId>, String> {
        let text = |keyword| schema.get(keyword).and_then(Value::as_str);
        let mut targets = Vec::new();
        if let Some(reference) = text("$ref") {
            targets.push(resolver.lookup(reference));
        }
        if let Some(reference) = text("$dynamicRef").filter(|_| matches!(draft, Draft::Draft202012 | Draft::Unknown)) {
            targets.push(resolver.lookup(reference));
        }
        if draft == Draft::Draft201909 && schema.contains_key("$recursiveRef") {
            targets.push(resolver.lookup_recursive_ref());
        }
        let place = |target: Result<referencing::Resolved<'r>, referencing::Error>| {
            let (contents, resolver, draft) = target.map_err(|error| error.to_string())?.into_inner();
            let id = self.place(contents, &resolver, draft)?;
            self.nodes[id as usize].is_shared = true;
            Ok(id)
        };
        targets.into_iter().map(place).collect()
    }
}

/// The subschemas of one schema object.
struct Parts<'c, 'r> {
    compiler: &'c mut Compiler<'r>,
    schema: &'r Map<String, Value>,
    resolver: &'c Resolver<'r>,
    draft: Draft,
}

impl<'r> Parts<'_, 'r> {
    fn place(&mut self, contents: &'r Value) -> Result<NodeId, String> {
        self.compiler.place(contents, self.resolver, self.draft)
    }

    fn one(&mut self, keyword: &str) -> Result<Option<NodeId>, String> {
        self.schema.get(keyword).map(|contents| self.place(contents)).transpose()
    }

    fn list(&mut self, keyword: &str) -> Result<Vec<NodeId>, String> {
        let listed = self.schema.get(keyword).and_then(Value::as_array);
        listed.into_iter().flatten().map(|contents| self.place(contents)).collect()
    }

    fn map(&mut self, keyword: &str) -> Result<Vec<(String, NodeId)>, String> {
        let entries = self.schema.get(keyword).and_then(Value::as_object);
        entries.into_iter().flatten().map(|(name, contents)| Ok((name.clone(), self.place(contents)?))).collect()
    }

    /// Of `dependencies` those that are schemas; lists of names are left to the crate.
    fn dependencies(&mut self) -> Result<Vec<(String, NodeId)>, String> {
        let entries = self.schema.get("dependencies").and_then(Value::as_object);
        let schemas = entries.into_iter().flatten().filter(|(_, contents)| !contents.is_array());
        schemas.map(|(name, contents)| Ok((name.clone(), self.place(contents)?))).collect()
    }

    fn arrays(&mut self, node: &mut Node) -> Result<(), String> {
        let is_new = matches!(self.draft, Draft::Draft202012 | Draft::Unknown);
        if is_new {
            node.prefix = self.list("prefixItems")?;
            node.items = self.one("items")?;
        } else if self.schema.get("items").is_some_and(Value::is_array) {
            node.prefix = self.list("items")?;
            node.items = self.one("additionalItems")?;
        } else {
            node.items = self.one("items")?;
        }
        if self.draft != Draft::Draft4
            && let Some(found) = self.one("contains")?
        {
            let has_bounds = !matches!(self.draft, Draft::Draft6 | Draft::Draft7);
            let bound = |keyword: &str| self.schema.get(keyword).filter(|_| has_bounds).and_then(whole);
            let (min, max) = (bound("minContains").unwrap_or(1), bound("maxContains"));
            node.contains = Some(Contains { node: found, min, max, marks: is_new });
        }
        Ok(())
    }
}

/// A count that a schema names; `2.0` is one, too.
fn whole(value: &Value) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and not negative")]
    let float = || value.as_f64().filter(|float| *float >= 0.0 && float.fract() == 0.0).map(|float| float as u64);
    value.as_u64().or_else(float)
}

/// Keywords that are taken apart, and those that assert nothing.
const TAKEN_APART: &[&str] = &[
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "$schema",
    "$id",
    "id",
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$defs",
    "definitions",
    "$comment",
    "$vocabulary",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "dependentSchemas",
    "prefixItems",
    "items",
    "additionalItems",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "contentSchema",
];

fn leaf(schema: &Map<String, Value>, draft: Draft) -> Option<Arc<Leaf>> {
    let kept = |(keyword, value): (&String, &Value)| match (keyword.as_str(), value) {
        (keyword, _) if TAKEN_APART.contains(&keyword) => None,
        ("dependencies", Value::Object(entries)) => {
            let lists: Map<_, _> =
                entries.iter().filter(|(_, value)| value.is_array()).map(|(k, v)| (k.clone(), v.clone())).collect();
            (!lists.is_empty()).then(|| (keyword.clone(), Value::Object(lists)))
        }
        (_, value) => Some((keyword.clone(), value.clone())),
    };
    let kept: Map<String, Value> = schema.iter().filter_map(kept).collect();
    (!kept.is_empty()).then(|| Arc::new(Leaf::new(kept, draft)))
}
