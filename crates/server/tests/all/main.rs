//! The tests of this crate that need no program of their own: one binary instantiates and links the layers below once.

mod bundle;
mod checkup;
mod dashboard;
mod find;
mod forwarding;
mod functions;
mod node;
mod policies;
mod reference;
mod registered;
mod space;
mod transfer;
