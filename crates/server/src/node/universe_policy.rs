//! Which universes accept messages from which others, by the configuration; none by default.

use super::{Node, Shared, Universe, UniverseRules};
use mundi_adapters::reach::UniversePolicy;
use mundi_model::UniverseId;
use std::sync::{Arc, Weak};

/// A node's universes by name, for a role that the node itself keeps running: it does not keep the node.
pub(super) struct NodeUniverses(Weak<Shared>);

impl Node {
    pub(super) fn universe_policy(&self) -> NodeUniverses {
        NodeUniverses(Arc::downgrade(&self.0))
    }

    /// The configured rules of a universe, by its name or its id.
    pub fn rules_of(&self, universe: &Universe) -> Option<&UniverseRules> {
        self.rules(universe.name(), universe.id())
    }

    pub(super) fn rules(&self, name: &str, id: UniverseId) -> Option<&UniverseRules> {
        let rules = &self.config().universe_rules;
        rules.get(name).or_else(|| rules.get(&id.to_string()))
    }
}

impl UniversePolicy for NodeUniverses {
    fn accepts(&self, to: UniverseId, from: UniverseId) -> bool {
        let Some(node) = self.0.upgrade().map(Node) else { return false };
        let Some(to) = node.universe(&to.to_string()) else { return false };
        let name = node.universe(&from.to_string()).map(|from| from.name().to_owned());
        node.rules_of(&to).is_some_and(|rules| {
            rules.accepts_from.contains(&from.to_string())
                || name.is_some_and(|name| rules.accepts_from.contains(&name))
        })
    }
}
