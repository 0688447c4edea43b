//! Decoders of untrusted bytes, each as a function that must not panic. `fuzz/` feeds them to a fuzzer, tests feed them
//! a fixed corpus.

use crate::{Components, ComponentsConfig, inspect::inspect, offer::Offer};
use mundi_model::Hash;
use std::sync::OnceLock;

/// The whole way of an upload: looked at and, if it passes, compiled, linked and asked what it is.
pub fn component(bytes: &[u8]) {
    static COMPONENTS: OnceLock<Option<Components>> = OnceLock::new();
    let components = COMPONENTS.get_or_init(|| Components::open(ComponentsConfig::default()).ok());
    if inspect(bytes).is_ok()
        && let Some(components) = components
        && let Ok(manifest) = components.prepare_now(bytes)
    {
        assert_eq!(manifest.program, Hash::of(bytes), "a manifest of something else");
    }
}

/// The declaration of a component.
pub fn offer(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(manifest) = Offer::parse(text).and_then(|offer| offer.manifest(Hash::of(bytes))) {
        let again = mundi_kernel::manifest::Manifest::from_bytes(&manifest.to_bytes());
        assert_eq!(again.as_ref(), Ok(&manifest), "two forms of one manifest");
    }
}
