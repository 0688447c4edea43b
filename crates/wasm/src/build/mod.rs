//! From a folder with sources to a component.

mod component;

pub use component::componentize;
