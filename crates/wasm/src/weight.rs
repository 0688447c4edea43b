//! The cost of a function for the compiler, beyond its length.
//!
//! A compiler carries each local through each place where ways meet, and each value of a block through its borders. So few
//! bytes can be much work: a thousand loops around a thousand locals are a million values, and a jump with a thousand ways
//! is looked through for each of them. What is reckoned here is an upper bound that real programs stay far below.

use std::collections::BTreeSet;
use wasmparser::{BinaryReaderError, BlockType, CompositeInnerType, FunctionBody, Operator, Payload, TypeRef};

/// The weight of a loop: the compiler walks through all loops of a function for each of them.
const LOOP_WEIGHT: u64 = 100;

/// The parts of one function, as far as it was read.
#[derive(Default)]
pub(crate) struct Weight {
    /// Values and steps.
    pub(crate) total: u64,
    /// Blocks, loops and conditions.
    pub(crate) blocks: u64,
    pub(crate) loops: u64,
}

/// The known parts of the module whose functions are weighed.
#[derive(Default)]
pub(crate) struct Module {
    /// Values that each type takes and gives.
    arities: Vec<u64>,
    /// The type of each function, those that are imported first.
    functions: Vec<u32>,
}

impl Module {
    /// Takes in a section that comes before the functions.
    pub(crate) fn read(&mut self, payload: &Payload<'_>) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::TypeSection(section) => {
                for group in section.clone() {
                    for subtype in group?.types() {
                        self.arities.push(match &subtype.composite_type.inner {
                            CompositeInnerType::Func(function) => {
                                (function.params().len() + function.results().len()) as u64
                            }
                            _ => 0,
                        });
                    }
                }
            }
            Payload::ImportSection(section) => {
                for import in section.clone().into_imports() {
                    if let TypeRef::Func(index) | TypeRef::FuncExact(index) = import?.ty {
                        self.functions.push(index);
                    }
                }
            }
            Payload::FunctionSection(section) => {
                for index in section.clone() {
                    self.functions.push(index?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn arity(&self, index: u32) -> u64 {
        // What is not there makes the module invalid, which is found later.
        self.arities.get(index as usize).copied().unwrap_or(0)
    }

    /// The work of the compiler for one function, in values and steps. It ends as soon as that is more than `max`.
    pub(crate) fn weigh(&self, body: &FunctionBody<'_>, max: u64) -> Result<Weight, BinaryReaderError> {
        let (mut weight, mut blocks, mut loops) = (0_u64, 0, 0);
        // The locals that are written in each block that is open; the first is the function itself.
        let mut open = vec![BTreeSet::new()];
        for operator in body.get_operators_reader()? {
            weight += 1;
            let operator = operator?;
            if matches!(operator, Operator::Loop { .. }) {
                loops += 1;
                weight += LOOP_WEIGHT;
            }
            match operator {
                Operator::Block { blockty } | Operator::Loop { blockty } | Operator::If { blockty } => {
                    blocks += 1;
                    open.push(BTreeSet::new());
                    if let BlockType::FuncType(index) = blockty {
                        weight += self.arity(index);
                    }
                }
                // Where a block ends or is begun again, what was written in it may have come on more ways than one.
                Operator::End => {
                    let mut inner = open.pop().unwrap_or_default();
                    weight += inner.len() as u64;
                    if let Some(outer) = open.last_mut() {
                        if inner.len() > outer.len() {
                            std::mem::swap(&mut inner, outer);
                        }
                        outer.extend(inner);
                    }
                }
                Operator::LocalSet { local_index } | Operator::LocalTee { local_index } => {
                    open.last_mut().map(|block| block.insert(local_index));
                }
                Operator::Call { function_index } | Operator::ReturnCall { function_index } => {
                    let index = self.functions.get(function_index as usize).copied();
                    weight += index.map_or(0, |index| self.arity(index));
                }
                Operator::CallIndirect { type_index, .. } | Operator::ReturnCallIndirect { type_index, .. } => {
                    weight += self.arity(type_index);
                }
                Operator::BrTable { targets } => {
                    let ways = targets.targets().collect::<Result<BTreeSet<_>, _>>()?.len() as u64;
                    // For each way all are looked through, which is far less work than to carry a value.
                    weight += u64::from(targets.len()) + ways * u64::from(targets.len()) / 64;
                }
                _ => {}
            }
            if weight > max {
                break;
            }
        }
        Ok(Weight { total: weight, blocks, loops })
    }
}
