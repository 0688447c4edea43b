//! The contract of `wit/program.wit`, as Rust types.

wasmtime::component::bindgen!({
    path: "wit",
    world: "program",
    imports: { default: trappable },
});

/// The contract in words, for who builds components.
pub(crate) const WIT: &str = include_str!("../wit/program.wit");

/// The interfaces that a component may import. Versions of the same major number are one contract.
pub(crate) const IMPORTS: [&str; 2] = ["mundi:program/host@1", "mundi:program/types@1"];
