//! From a core module, which compilers make, to a component, which worlds run.

use crate::contract::WIT;
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

/// Makes a component of a core module that has the contract's functions by the names of the canonical ABI.
///
/// A module that was built with bindings of the contract says so itself; one that was written by hand is taken as if.
pub fn componentize(core: &[u8]) -> Result<Vec<u8>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut module = core.to_vec();
    if !has_bindings(core)? {
        let mut resolve = Resolve::default();
        let package = resolve.push_str("program.wit", WIT).map_err(|error| text(&error))?;
        let world = resolve.select_world(&[package], Some("program")).map_err(|error| text(&error))?;
        wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
            .map_err(|error| format!("{error:#}"))?;
    }
    let encoder = ComponentEncoder::default().validate(true).module(&module);
    encoder.and_then(|mut encoder| encoder.encode()).map_err(|error| format!("{error:#}"))
}

/// Bindings leave a section that names the world they were made for.
fn has_bindings(core: &[u8]) -> Result<bool, String> {
    for payload in wasmparser::Parser::new(0).parse_all(core) {
        match payload.map_err(|error| error.to_string())? {
            wasmparser::Payload::CustomSection(section) if section.name().starts_with("component-type") => {
                return Ok(true);
            }
            _ => {}
        }
    }
    Ok(false)
}
