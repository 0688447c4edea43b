//! Estimates the cost of a schema before there is a value.

use super::{
    Size,
    arena::{Arena, NodeId},
};
use mundi_model::limits;

/// The crate nests its calls as deep as the schema; beyond this, [`super::evaluate`] checks.
const WHOLE_DEPTH_MAX: u64 = 128;

/// The cost of a schema, from its references and its nesting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) nodes: u64,
    /// How many subschemas the crate may apply to one part of a value: all paths through references are counted, and what
    /// it does twice to say why a value is wrong. A reference that leads back counts once.
    expansion: u64,
    /// The same, with each path counted once.
    pub(super) paths: u64,
    /// Steps for 16 bytes of text, counted the same way.
    text_expansion: u64,
    depth: u64,
    is_recursive: bool,
    /// References lead back to a subschema without going into the value.
    is_endless: bool,
    pub(super) has_unevaluated: bool,
    has_unique: bool,
    pattern_weight_max: u64,
    pub(super) pattern_weight: u64,
}

impl Shape {
    pub(super) fn of(arena: &Arena) -> Self {
        let patterns = || {
            let own = arena.nodes.iter().filter_map(|node| node.leaf.as_ref());
            own.chain(arena.nodes.iter().flat_map(|node| node.patterns.iter().map(|(leaf, _)| leaf)))
        };
        let mut walk = Walk { arena, seen: vec![Seen::No; arena.nodes.len()], is_recursive: false };
        let Cost { steps, paths, text, depth } = walk.cost(arena.root);
        Self {
            nodes: arena.nodes.len() as u64,
            expansion: steps,
            paths,
            text_expansion: text,
            depth,
            is_recursive: walk.is_recursive,
            is_endless: is_endless(arena),
            has_unevaluated: arena
                .nodes
                .iter()
                .any(|node| node.unevaluated_items.is_some() || node.unevaluated_properties.is_some()),
            has_unique: arena.nodes.iter().any(|node| node.unique_items),
            pattern_weight_max: patterns().map(|leaf| leaf.text_weight).max().unwrap_or(0),
            pattern_weight: patterns().fold(0, |sum, leaf| leaf.text_weight.saturating_add(sum)),
        }
    }

    /// An upper bound of the crate's steps for a value of this size.
    pub(super) fn work_max(&self, size: Size) -> u64 {
        if self.is_recursive || self.depth > WHOLE_DEPTH_MAX {
            return u64::MAX;
        }
        let times = if self.has_unique { size.nodes } else { 1 };
        let nodes = self.expansion.saturating_mul(size.nodes).saturating_mul(times);
        nodes.saturating_add(self.text_expansion.saturating_mul(size.text_bytes / 16 + size.nodes))
    }

    pub(super) fn check_registration(&self) -> Result<(), String> {
        let bounds = [
            ("subschemas with its references written out", self.paths, limits::SCHEMA_EXPANSION_MAX),
            ("levels of references and nesting", self.depth, limits::SCHEMA_DEPTH_MAX.into()),
            ("states in one regular expression", self.pattern_weight_max, limits::SCHEMA_PATTERN_WEIGHT_MAX),
        ];
        if let Some((what, found, max)) = bounds.into_iter().find(|(_, found, max)| found > max) {
            let found = if found == u64::MAX { "without end".to_owned() } else { found.to_string() };
            return Err(format!("it has too many {what}: {found}, at most {max} are allowed"));
        }
        if self.is_endless {
            return Err("its references lead back to where they begin without going into the value".to_owned());
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Default)]
struct Cost {
    steps: u64,
    paths: u64,
    text: u64,
    depth: u64,
}

#[derive(Clone, Copy)]
enum Seen {
    No,
    /// Further up on the way that is being walked.
    Open,
    Known(Cost),
}

struct Walk<'a> {
    arena: &'a Arena,
    seen: Vec<Seen>,
    is_recursive: bool,
}

impl Walk<'_> {
    /// Depth first, without recursion: a chain of references may be as long as a schema.
    fn cost(&mut self, root: NodeId) -> Cost {
        let mut stack = vec![(root, false)];
        while let Some((id, is_done)) = stack.pop() {
            let node = self.arena.node(id);
            match (self.seen[id as usize], is_done) {
                (Seen::No, _) => {
                    self.seen[id as usize] = Seen::Open;
                    stack.push((id, true));
                    for child in node.in_place().chain(node.below()) {
                        if matches!(self.seen[child as usize], Seen::No) {
                            stack.push((child, false));
                        }
                    }
                }
                (Seen::Open, true) => {
                    let cost = self.sum(id);
                    self.seen[id as usize] = Seen::Known(cost);
                }
                _ => {}
            }
        }
        self.known(root)
    }

    fn known(&self, id: NodeId) -> Cost {
        match self.seen[id as usize] {
            Seen::Known(cost) => cost,
            Seen::Open | Seen::No => Cost { steps: 1, paths: 1, text: 0, depth: 1 },
        }
    }

    fn sum(&mut self, id: NodeId) -> Cost {
        let node = self.arena.node(id);
        let leaf = node.leaf.as_deref();
        let mut cost = Cost {
            steps: leaf.map_or(0, |leaf| leaf.steps) + node.dependent.len() as u64 + 1,
            text: leaf.map_or(0, |leaf| leaf.text_weight.saturating_add(leaf.text_steps)),
            paths: 1,
            depth: 0,
        };
        for (pattern, _) in &node.patterns {
            cost.steps = cost.steps.saturating_add(1);
            cost.text = cost.text.saturating_add(pattern.text_weight);
        }
        let marks = node.unevaluated_items.is_some() || node.unevaluated_properties.is_some();
        let certain = node.references.iter().chain(&node.all_of).count();
        let in_place = node.in_place().enumerate().map(|(index, child)| {
            // Tried, and tried again to say why it failed; and once more to see what it looked at.
            let tries = if index < certain { 1 } else { 2 };
            (child, if marks { tries + 2 } else { tries })
        });
        let mut is_recursive = false;
        let mut add = |child: NodeId, times: u64| {
            is_recursive |= matches!(self.seen[child as usize], Seen::Open);
            let Cost { steps, paths, text, depth } = self.known(child);
            cost.paths = cost.paths.saturating_add(paths);
            cost.steps = cost.steps.saturating_add(steps.saturating_mul(times));
            cost.text = cost.text.saturating_add(text.saturating_mul(times));
            cost.depth = cost.depth.max(depth);
        };
        in_place.for_each(|(child, times)| add(child, times));
        // Twice for the two bounds of `contains`, or to see which items it finds.
        let looks = if marks || node.contains.is_some() { 2 } else { 1 };
        node.below().for_each(|child| add(child, looks));
        self.is_recursive |= is_recursive;
        Cost { depth: cost.depth.saturating_add(1), ..cost }
    }
}

/// Whether references and combinations lead back to a subschema for the very same value. Removes what leads nowhere until
/// nothing is left but circles.
fn is_endless(arena: &Arena) -> bool {
    let mut leads_to = vec![0_usize; arena.nodes.len()];
    let mut comes_from = vec![Vec::new(); arena.nodes.len()];
    for (id, node) in arena.nodes.iter().enumerate() {
        for child in node.in_place() {
            leads_to[id] += 1;
            comes_from[child as usize].push(id);
        }
    }
    let mut free: Vec<usize> = (0..arena.nodes.len()).filter(|id| leads_to[*id] == 0).collect();
    let mut removed = 0;
    while let Some(id) = free.pop() {
        removed += 1;
        for parent in &comes_from[id] {
            leads_to[*parent] -= 1;
            if leads_to[*parent] == 0 {
                free.push(*parent);
            }
        }
    }
    removed < arena.nodes.len()
}
