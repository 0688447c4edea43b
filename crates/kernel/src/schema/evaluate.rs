//! Checks a value against a schema, step by step, and remembers what shared subschemas said.
//!
//! A subschema that references lead to is asked once about each part of a value. So the work is at most the number of
//! subschemas times the size of the value, whatever paths lead from one to the other.

use super::{
    Exceeded, Work,
    arena::{Arena, Condition, Contains, Node, NodeId},
    unique::are_unique,
};
use mundi_model::limits;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The cost of remembering an answer: memory, beside the step.
const MEMO_STEPS: u64 = 4;

pub(super) fn is_valid(arena: &Arena, value: &Value, work: &mut Work) -> Result<bool, Exceeded> {
    let mut names = BTreeMap::new();
    if arena.nodes.iter().any(|node| node.names.is_some() || !node.patterns.is_empty()) {
        collect_names(value, &mut names, work)?;
    }
    Evaluation { arena, work, names: &names, answers: BTreeMap::new(), depth: 0 }.is_valid(arena.root, value)
}

fn collect_names<'v>(value: &'v Value, names: &mut BTreeMap<&'v str, Value>, work: &mut Work) -> Result<(), Exceeded> {
    work.spend(1)?;
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| collect_names(item, names, work)),
        Value::Object(entries) => entries.iter().try_for_each(|(name, part)| {
            names.entry(name).or_insert_with(|| Value::String(name.clone()));
            collect_names(part, names, work)
        }),
        _ => Ok(()),
    }
}

struct Evaluation<'e> {
    arena: &'e Arena,
    work: &'e mut Work,
    /// Names of properties as values. They stay where they are: answers are remembered by address.
    names: &'e BTreeMap<&'e str, Value>,
    /// By subschema and the address of a part of the value. An address only tells parts apart.
    answers: BTreeMap<(NodeId, usize), Answer>,
    depth: u32,
}

#[derive(Clone, Copy)]
enum Answer {
    /// It is being found out. A subschema that asks itself about the same value is satisfied, as far as that goes.
    Open,
    Known(bool),
}

impl Evaluation<'_> {
    fn is_valid(&mut self, id: NodeId, value: &Value) -> Result<bool, Exceeded> {
        self.work.spend(1)?;
        let node = self.arena.node(id);
        if !node.is_shared {
            return self.descend(node, value);
        }
        let key = (id, std::ptr::from_ref(value) as usize);
        match self.answers.get(&key) {
            Some(Answer::Open) => return Ok(true),
            Some(Answer::Known(answer)) => return Ok(*answer),
            None => {}
        }
        self.work.spend(MEMO_STEPS)?;
        self.answers.insert(key, Answer::Open);
        let answer = self.descend(node, value)?;
        self.answers.insert(key, Answer::Known(answer));
        Ok(answer)
    }

    /// One level deeper on the stack, which has a bound of its own.
    fn descend(&mut self, node: &Node, value: &Value) -> Result<bool, Exceeded> {
        if node.refuses {
            return Ok(false);
        }
        if self.depth >= limits::SCHEMA_DEPTH_MAX {
            return Err(Exceeded);
        }
        self.depth += 1;
        let answer = self.holds(node, value);
        self.depth -= 1;
        answer
    }

    fn holds(&mut self, node: &Node, value: &Value) -> Result<bool, Exceeded> {
        if let Some(leaf) = &node.leaf
            && !leaf.is_valid(value, self.work)?
        {
            return Ok(false);
        }
        let below = match value {
            Value::Object(_) => self.object_holds(node, value)?,
            Value::Array(_) => self.array_holds(node, value)?,
            _ => true,
        };
        Ok(below && self.combined_hold(node, value)? && self.unevaluated_hold(node, value)?)
    }

    fn all(&mut self, nodes: &[NodeId], value: &Value) -> Result<bool, Exceeded> {
        for id in nodes {
            if !self.is_valid(*id, value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How many hold, counted no further than `enough`.
    fn count(&mut self, nodes: &[NodeId], value: &Value, enough: usize) -> Result<usize, Exceeded> {
        let mut count = 0;
        for id in nodes {
            count += usize::from(self.is_valid(*id, value)?);
            if count >= enough {
                break;
            }
        }
        Ok(count)
    }

    fn combined_hold(&mut self, node: &Node, value: &Value) -> Result<bool, Exceeded> {
        if !self.all(&node.all_of, value)? || !self.all(&node.references, value)? {
            return Ok(false);
        }
        if !node.any_of.is_empty() && self.count(&node.any_of, value, 1)? == 0 {
            return Ok(false);
        }
        if !node.one_of.is_empty() && self.count(&node.one_of, value, 2)? != 1 {
            return Ok(false);
        }
        if let Some(not) = node.not
            && self.is_valid(not, value)?
        {
            return Ok(false);
        }
        let Some(Condition { holds, then, otherwise }) = node.condition else { return Ok(true) };
        let branch = if self.is_valid(holds, value)? { then } else { otherwise };
        branch.map_or(Ok(true), |branch| self.is_valid(branch, value))
    }

    fn object_holds(&mut self, node: &Node, value: &Value) -> Result<bool, Exceeded> {
        let Value::Object(entries) = value else { return Ok(true) };
        for (name, id) in &node.dependent {
            self.work.spend(1)?;
            if entries.contains_key(name) && !self.is_valid(*id, value)? {
                return Ok(false);
            }
        }
        if node.properties.is_empty() && node.patterns.is_empty() && node.additional.is_none() && node.names.is_none() {
            return Ok(true);
        }
        for (name, part) in entries {
            self.work.spend(1)?;
            let named = self.subschemas_of(node, name)?;
            let applied = if named.is_empty() { node.additional.into_iter().collect() } else { named };
            if !self.all(&applied, part)? {
                return Ok(false);
            }
            if let (Some(names), Some(name)) = (node.names, self.names.get(name.as_str()))
                && !self.is_valid(names, name)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Those of `properties` and `patternProperties` that a name selects.
    fn subschemas_of(&mut self, node: &Node, name: &str) -> Result<Vec<NodeId>, Exceeded> {
        let mut selected: Vec<NodeId> = node.properties.get(name).copied().into_iter().collect();
        if let Some(name) = self.names.get(name) {
            for (pattern, id) in &node.patterns {
                if pattern.is_valid(name, self.work)? {
                    selected.push(*id);
                }
            }
        }
        Ok(selected)
    }

    fn array_holds(&mut self, node: &Node, value: &Value) -> Result<bool, Exceeded> {
        let Value::Array(items) = value else { return Ok(true) };
        if node.unique_items && !are_unique(items, self.work)? {
            return Ok(false);
        }
        for (index, item) in items.iter().enumerate() {
            let Some(id) = node.prefix.get(index).copied().or(node.items) else { break };
            if !self.is_valid(id, item)? {
                return Ok(false);
            }
        }
        let Some(Contains { node: id, min, max, .. }) = node.contains else { return Ok(true) };
        let mut found = 0_u64;
        for item in items {
            if max.is_none() && found >= min {
                break;
            }
            found += u64::from(self.is_valid(id, item)?);
        }
        Ok(found >= min && max.is_none_or(|max| found <= max))
    }

    fn unevaluated_hold(&mut self, node: &Node, value: &Value) -> Result<bool, Exceeded> {
        if let (Some(rest), Value::Object(entries)) = (node.unevaluated_properties, value) {
            let mut marks = Marks { properties: BTreeSet::new(), items: BTreeSet::new(), all: false };
            self.mark(node, value, &mut BTreeSet::new(), &mut marks)?;
            for (name, part) in entries {
                if !marks.all && !marks.properties.contains(name) && !self.is_valid(rest, part)? {
                    return Ok(false);
                }
            }
        }
        if let (Some(rest), Value::Array(items)) = (node.unevaluated_items, value) {
            let mut marks = Marks { properties: BTreeSet::new(), items: BTreeSet::new(), all: false };
            self.mark(node, value, &mut BTreeSet::new(), &mut marks)?;
            for (index, item) in items.iter().enumerate() {
                if !marks.all && !marks.items.contains(&index) && !self.is_valid(rest, item)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Marks the parts of a value that a subschema which holds for it has looked at. Each subschema is asked once: marks
    /// only add up.
    fn mark(
        &mut self,
        node: &Node,
        value: &Value,
        seen: &mut BTreeSet<NodeId>,
        marks: &mut Marks,
    ) -> Result<(), Exceeded> {
        self.work.spend(1)?;
        if self.depth >= limits::SCHEMA_DEPTH_MAX {
            return Err(Exceeded);
        }
        match value {
            Value::Object(entries) => {
                marks.all |= node.additional.is_some();
                for name in entries.keys() {
                    self.work.spend(1)?;
                    if !self.subschemas_of(node, name)?.is_empty() {
                        marks.properties.insert(name.clone());
                    }
                }
            }
            Value::Array(items) => {
                marks.all |= node.items.is_some();
                marks.items.extend(0..node.prefix.len().min(items.len()));
                if let Some(Contains { node: id, marks: true, .. }) = node.contains {
                    for (index, item) in items.iter().enumerate() {
                        if self.is_valid(id, item)? {
                            marks.items.insert(index);
                        }
                    }
                }
            }
            _ => {}
        }
        self.depth += 1;
        let marked = self.mark_in_place(node, value, seen, marks);
        self.depth -= 1;
        marked
    }

    fn mark_in_place(
        &mut self,
        node: &Node,
        value: &Value,
        seen: &mut BTreeSet<NodeId>,
        marks: &mut Marks,
    ) -> Result<(), Exceeded> {
        let mut holding: Vec<NodeId> = node.all_of.iter().chain(&node.references).copied().collect();
        for id in node.any_of.iter().chain(&node.one_of) {
            if self.is_valid(*id, value)? {
                holding.push(*id);
            }
        }
        if let Some(Condition { holds, then, otherwise }) = node.condition {
            match self.is_valid(holds, value)? {
                true => holding.extend([holds].into_iter().chain(then)),
                false => holding.extend(otherwise),
            }
        }
        if let Value::Object(entries) = value {
            holding.extend(node.dependent.iter().filter(|(name, _)| entries.contains_key(name)).map(|(_, id)| *id));
        }
        for id in holding {
            if !seen.insert(id) {
                continue;
            }
            let node = self.arena.node(id);
            let rest = match value {
                Value::Object(_) => node.unevaluated_properties,
                _ => node.unevaluated_items,
            };
            marks.all |= rest.is_some();
            self.mark(node, value, seen, marks)?;
        }
        Ok(())
    }
}

/// The parts of one value that were looked at.
struct Marks {
    properties: BTreeSet<String>,
    items: BTreeSet<usize>,
    all: bool,
}
