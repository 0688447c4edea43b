//! Inspection before compilation, in time linear in the number of bytes.
//!
//! A component may take long to compile, and a compiler cannot be stopped. So what makes compiling slow is bounded here:
//! the size of the whole and of each function, what each function carries from place to place, the number of parts, and
//! components that multiply by instantiating each other.

use crate::{contract::IMPORTS, engine::FEATURES, weight::Module};
use mundi_model::{Code, Coded, limits};
use wasmparser::{ComponentInstance, ComponentTypeRef, Encoding, Parser, Payload, Validator};

/// Components that a component may instantiate: those that wrap its exports.
const INSTANTIATIONS_MAX: u64 = 100;

/// Imports that are named in a refusal.
const NAMED_MAX: usize = 8;

/// Why bytes cannot be a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the component has {bytes} bytes, at most {} are allowed", limits::COMPONENT_BYTES_MAX)]
    TooLarge { bytes: usize },
    #[error("these bytes are no WebAssembly")]
    NotWasm,
    #[error("this is a core module, not a component: `mundi program build` makes a component of it")]
    CoreModule,
    #[error("the component is invalid: {0}")]
    Invalid(String),
    #[error(
        "the component asks for {0}, and a program has no clock, files, sockets or randomness of its own. Build it with \
         `mundi program build`, or without it: Rust for wasm32-unknown-unknown (not wasm32-wasip1 or -wasip2); \
         JavaScript with all features of componentize-js disabled; Python with `componentize-py componentize --stub-wasi`. \
         Time and random numbers come from `now-ns` and `random`"
    )]
    Wasi(String),
    #[error("the component imports {0}, which no host of programs offers; it offers mundi:program/host@1")]
    ImportUnknown(String),
    #[error("the component has {count} {what}, at most {max} are allowed")]
    TooMany { what: &'static str, count: u64, max: u64 },
    #[error("a component inside the component instantiates another: what such a pile grows to is not bounded")]
    Nested,
}

impl Coded for Refusal {
    fn code(&self) -> Code {
        Code::ProgramRefused
    }
}

/// The parts of a component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspected {
    /// The interfaces that it imports.
    pub imports: Vec<String>,
    pub functions: u64,
}

/// Looks whether bytes can be a program. They are validated as a whole, and nothing is compiled.
pub fn inspect(bytes: &[u8]) -> Result<Inspected, Refusal> {
    if bytes.len() > limits::COMPONENT_BYTES_MAX {
        return Err(Refusal::TooLarge { bytes: bytes.len() });
    }
    match bytes {
        _ if !is_wasm(bytes) => return Err(Refusal::NotWasm),
        _ if Parser::is_core_wasm(bytes) => return Err(core_module(bytes)),
        _ => {}
    }
    // The count comes first: it is what bounds the validation.
    let counted = count(bytes)?;
    Validator::new_with_features(FEATURES).validate_all(bytes).map_err(|error| invalid(&error))?;
    check_imports(&counted.inspected.imports)?;
    Ok(counted.inspected)
}

/// Whether bytes claim to be WebAssembly, of any kind.
pub fn is_wasm(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\0asm")
}

fn invalid(error: &wasmparser::BinaryReaderError) -> Refusal {
    Refusal::Invalid(error.to_string())
}

/// Someone's compiler ended a step too early; one that was told to use WASI learns of that first.
fn core_module(bytes: &[u8]) -> Refusal {
    let imports_wasi = Parser::new(0).parse_all(bytes).filter_map(Result::ok).any(|payload| match payload {
        Payload::ImportSection(section) => {
            section.into_imports().filter_map(Result::ok).any(|import| import.module.starts_with("wasi"))
        }
        _ => false,
    });
    if imports_wasi { Refusal::Wasi("wasi_snapshot_preview1".to_owned()) } else { Refusal::CoreModule }
}

#[derive(Default)]
struct Counted {
    inspected: Inspected,
    items: u64,
    instantiations: u64,
    weight: u64,
}

impl Counted {
    fn add(&mut self, items: u32) -> Result<(), Refusal> {
        self.items += u64::from(items);
        bound("parts", self.items, limits::COMPONENT_ITEMS_MAX)
    }
}

fn bound(what: &'static str, count: u64, max: u64) -> Result<(), Refusal> {
    if count > max { Err(Refusal::TooMany { what, count, max }) } else { Ok(()) }
}

/// Walks through all sections, of the component and of what is inside it.
fn count(bytes: &[u8]) -> Result<Counted, Refusal> {
    let mut counted = Counted::default();
    // The encodings of what is open: the first is the component itself.
    let mut open = Vec::new();
    let mut module = Module::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| invalid(&error))?;
        module.read(&payload).map_err(|error| invalid(&error))?;
        let nested_components = open.iter().filter(|encoding| **encoding == Encoding::Component).count();
        match payload {
            Payload::Version { encoding, .. } => {
                counted.add(1)?;
                open.push(encoding);
                module = Module::default();
            }
            Payload::End(_) => {
                open.pop();
            }
            Payload::CodeSectionEntry(body) => {
                let size = body.range().len() as u64;
                bound("bytes in one function", size, limits::COMPONENT_FUNCTION_BYTES_MAX as u64)?;
                counted.inspected.functions += 1;
                bound("functions", counted.inspected.functions, limits::COMPONENT_FUNCTIONS_MAX)?;
                let weight =
                    module.weigh(&body, limits::COMPONENT_FUNCTION_WEIGHT_MAX).map_err(|error| invalid(&error))?;
                bound("loops in one function", weight.loops, limits::COMPONENT_FUNCTION_LOOPS_MAX)?;
                bound("blocks in one function", weight.blocks, limits::COMPONENT_FUNCTION_BLOCKS_MAX)?;
                bound("live values in one function", weight.total, limits::COMPONENT_FUNCTION_WEIGHT_MAX)?;
                counted.weight += weight.total;
                bound("live values in all functions", counted.weight, limits::COMPONENT_WEIGHT_MAX)?;
            }
            Payload::ComponentImportSection(section) => {
                counted.add(section.count())?;
                if nested_components == 1 {
                    for import in section {
                        let import = import.map_err(|error| invalid(&error))?;
                        // A type is only a name for what an interface brought in.
                        if !matches!(import.ty, ComponentTypeRef::Type(_)) {
                            counted.inspected.imports.push(import.name.name.to_owned());
                        }
                    }
                }
            }
            Payload::ComponentInstanceSection(section) => {
                counted.add(section.count())?;
                for instance in section {
                    let instance = instance.map_err(|error| invalid(&error))?;
                    let ComponentInstance::Instantiate { .. } = instance else { continue };
                    if nested_components > 1 {
                        return Err(Refusal::Nested);
                    }
                    counted.instantiations += 1;
                    bound("component instances", counted.instantiations, INSTANTIATIONS_MAX)?;
                }
            }
            Payload::ComponentTypeSection(section) => counted.add(section.count())?,
            Payload::ComponentExportSection(section) => counted.add(section.count())?,
            Payload::ComponentAliasSection(section) => counted.add(section.count())?,
            Payload::ComponentCanonicalSection(section) => counted.add(section.count())?,
            Payload::InstanceSection(section) => counted.add(section.count())?,
            Payload::CoreTypeSection(section) => counted.add(section.count())?,
            _ => {}
        }
    }
    Ok(counted)
}

fn check_imports(imports: &[String]) -> Result<(), Refusal> {
    let list = |chosen: &dyn Fn(&str) -> bool| {
        let named: Vec<_> = imports.iter().map(String::as_str).filter(|name| chosen(name)).take(NAMED_MAX).collect();
        (!named.is_empty()).then(|| named.join(", "))
    };
    if let Some(wasi) = list(&|name| name.starts_with("wasi:")) {
        return Err(Refusal::Wasi(wasi));
    }
    match list(&|name| !is_offered(name)) {
        Some(unknown) => Err(Refusal::ImportUnknown(unknown)),
        None => Ok(()),
    }
}

/// The major version is a part of the interface's name, the rest is for the engine to match.
fn is_offered(name: &str) -> bool {
    IMPORTS
        .iter()
        .any(|offered| name.strip_prefix(offered).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}
