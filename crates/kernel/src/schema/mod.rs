//! JSON Schemas with a bound on the work of a check.
//!
//! The `jsonschema` crate knows no step budget: a schema whose references fan out takes it exponential time. So a schema
//! is also compiled into an [`Arena`], whose shape gives an upper bound of what the crate would do with a value of a given
//! size. Below that bound the crate checks, and says where a value is wrong. Above it, [`evaluate`] checks the same thing
//! by itself: it visits each pair of a shared subschema and a part of the value once, and counts its steps. The count
//! depends on schema and value only, so an exhausted budget is the same outcome everywhere.

mod arena;
mod evaluate;
mod pattern;
mod shape;
mod unique;

use crate::loader::ChecksCrowded;
use arena::Arena;
use jsonschema::{PatternOptions, ValidationOptions, Validator};
use mundi_model::limits;
use shape::Shape;

/// Up to this bound the crate checks by itself. One unit takes it some ten nanoseconds.
const WHOLE_WORK_MAX: u64 = 1 << 20;

/// The bound is an upper one: this much of it is charged.
const WHOLE_WORK_SHARE: u64 = 16;

/// Expansions that the crate writes out while it compiles `unevaluatedItems` and `unevaluatedProperties`.
const WRITTEN_OUT_MAX: u64 = 100_000;

/// The steps that are left for checks against schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    max: u64,
    left: u64,
}

impl Work {
    pub(crate) fn new(max: u64) -> Self {
        Self { max, left: max }
    }

    /// The budget of a new item, and of the intents of its step.
    pub(crate) fn bounded() -> Self {
        Self::new(limits::SCHEMA_WORK_MAX)
    }

    pub(crate) fn spent(&self) -> u64 {
        self.max - self.left
    }

    fn left(&self) -> u64 {
        self.left
    }

    fn spend(&mut self, steps: u64) -> Result<(), Exceeded> {
        match self.left.checked_sub(steps) {
            Some(left) => self.left = left,
            None => {
                self.left = 0;
                return Err(Exceeded);
            }
        }
        Ok(())
    }
}

/// There were not enough steps to tell whether a value satisfies its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exceeded;

/// Why a value does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// With the place, as far as it is known.
    Invalid(String),
    Exceeded,
    /// It was not checked.
    Crowded,
}

impl From<ChecksCrowded> for Mismatch {
    fn from(_: ChecksCrowded) -> Self {
        Self::Crowded
    }
}

impl From<Exceeded> for Mismatch {
    fn from(_: Exceeded) -> Self {
        Self::Exceeded
    }
}

/// A schema, ready to check values.
pub(crate) struct BoundedSchema {
    /// The crate's validator of the whole schema.
    whole: Validator,
    arena: Arena,
    shape: Shape,
}

/// A place in a value, from its JSON pointer, which is empty for the whole value.
fn place(pointer: &str) -> String {
    match pointer {
        "" => "at the value itself".to_owned(),
        pointer => format!("at `{pointer}`"),
    }
}

/// Offline: a schema reaches for nothing. Plain regular expressions: none takes exponential time.
fn options() -> ValidationOptions<'static> {
    jsonschema::options().offline().with_pattern_options(PatternOptions::regex())
}

impl BoundedSchema {
    pub(crate) fn compile(schema: &serde_json::Value) -> Result<Self, String> {
        let arena = Arena::compile(schema)?;
        let shape = Shape::of(&arena);
        if shape.has_unevaluated && shape.paths > WRITTEN_OUT_MAX {
            return Err(format!(
                "`unevaluated…` over references that expand to more than {WRITTEN_OUT_MAX} subschemas"
            ));
        }
        let whole = options().build(schema).map_err(|error| error.to_string())?;
        Ok(Self { whole, arena, shape })
    }

    /// As [`Self::check`], with the same outcome and for the same work. A check that takes long is begun again where `apart` runs it, if it does.
    pub(crate) fn check_apart(
        &self,
        value: &serde_json::Value,
        work: &mut Work,
        apart: impl FnOnce(&mut dyn FnMut()) -> Result<(), ChecksCrowded>,
    ) -> Result<(), Mismatch> {
        let mut in_place = Work::new(work.left().min(limits::SCHEMA_WORK_IN_PLACE_MAX));
        match self.check(value, &mut in_place) {
            Err(Mismatch::Exceeded) if in_place.max < work.left() => {
                let mut checked = Err(Mismatch::Exceeded);
                apart(&mut || checked = self.check(value, work))?;
                checked
            }
            checked => {
                work.spend(in_place.spent())?;
                checked
            }
        }
    }

    pub(crate) fn check(&self, value: &serde_json::Value, work: &mut Work) -> Result<(), Mismatch> {
        let bound = self.shape.work_max(Size::of(value));
        if bound <= WHOLE_WORK_MAX {
            work.spend(bound / WHOLE_WORK_SHARE)?;
            let checked = self.whole.validate(value);
            return checked
                .map_err(|error| Mismatch::Invalid(format!("{}: {error}", place(error.instance_path().as_str()))));
        }
        match evaluate::is_valid(&self.arena, value, work)? {
            true => Ok(()),
            false => Err(Mismatch::Invalid("does not satisfy its schema".to_owned())),
        }
    }
}

/// The rules for the schemas of a manifest that is registered. Those of manifests that exist are only bounded when they are
/// used. Nothing is compiled: what is refused here must not cost anything first.
#[derive(Default)]
pub(crate) struct Registration {
    nodes: u64,
    pattern_weight: u64,
}

impl Registration {
    /// One more schema of the manifest.
    pub(crate) fn add(&mut self, schema: &serde_json::Value) -> Result<(), String> {
        let shape = Shape::of(&Arena::compile(schema)?);
        shape.check_registration()?;
        self.nodes = self.nodes.saturating_add(shape.nodes);
        self.pattern_weight = self.pattern_weight.saturating_add(shape.pattern_weight);
        let sums = [
            ("subschemas", self.nodes, limits::SCHEMA_NODES_MAX),
            ("states of regular expressions", self.pattern_weight, limits::SCHEMA_PATTERNS_WEIGHT_MAX),
        ];
        match sums.into_iter().find(|(_, found, max)| found > max) {
            Some((what, found, max)) => {
                Err(format!("with it the manifest has {found} {what}, at most {max} are allowed"))
            }
            None => Ok(()),
        }
    }
}

/// How much of a value there is to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Size {
    nodes: u64,
    text_bytes: u64,
}

impl Size {
    fn of(value: &serde_json::Value) -> Self {
        let mut size = Self::default();
        size.add(value);
        size
    }

    fn add(&mut self, value: &serde_json::Value) {
        self.nodes += 1;
        match value {
            serde_json::Value::String(text) => self.text_bytes += text.len() as u64,
            serde_json::Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            serde_json::Value::Object(entries) => entries.iter().for_each(|(key, value)| {
                self.text_bytes += key.len() as u64;
                self.add(value);
            }),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
