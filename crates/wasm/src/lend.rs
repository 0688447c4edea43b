//! Lends a step's host to the store that runs an instance.
//!
//! A store's data must own what it holds, and a host is borrowed for one call. So the store gets a pointer, which is
//! taken back before the call returns: the store is made and dropped inside [`lend_host`] and [`lend_view`].

use mundi_kernel::program::{Host, View};

/// A host on loan. It is used only through the functions below, by the thread that lent it.
pub(crate) enum Lent {
    Step(*mut (dyn Host + 'static)),
    Query(*mut (dyn View + 'static)),
    /// While a component describes itself there is no world.
    Nobody,
}

/// Calls `run` with the host on loan. `run` must not keep what it is given: the store that holds it crashes with it.
#[expect(unsafe_code, reason = "a borrow cannot be told to a store, whose data must be 'static")]
pub(crate) fn lend_host<R>(host: &mut dyn Host, run: impl FnOnce(Lent) -> R) -> R {
    // SAFETY: only the lifetime changes. The pointer lives in a `Lent`, which `run` puts into a store that it drops
    // before it returns; until then `host` is borrowed mutably here, and nobody else can reach it.
    run(Lent::Step(unsafe { std::mem::transmute::<*mut dyn Host, *mut (dyn Host + 'static)>(host) }))
}

/// The same for a query.
#[expect(unsafe_code, reason = "a borrow cannot be told to a store, whose data must be 'static")]
pub(crate) fn lend_view<R>(view: &mut dyn View, run: impl FnOnce(Lent) -> R) -> R {
    // SAFETY: as in `lend_host`.
    run(Lent::Query(unsafe { std::mem::transmute::<*mut dyn View, *mut (dyn View + 'static)>(view) }))
}

impl Lent {
    /// The view that a step and a query share.
    #[expect(unsafe_code, reason = "see `lend_host`")]
    pub(crate) fn view(&mut self) -> Option<&mut dyn View> {
        match self {
            // SAFETY: the lender is still in `lend_host`, and `&mut self` keeps this the only reference.
            Self::Step(host) => Some(unsafe { &mut **host }),
            // SAFETY: as above, in `lend_view`.
            Self::Query(view) => Some(unsafe { &mut **view }),
            Self::Nobody => None,
        }
    }

    /// The host of a step.
    #[expect(unsafe_code, reason = "see `lend_host`")]
    pub(crate) fn host(&mut self) -> Option<&mut dyn Host> {
        match self {
            // SAFETY: the lender is still in `lend_host`, and `&mut self` keeps this the only reference.
            Self::Step(host) => Some(unsafe { &mut **host }),
            Self::Query(_) | Self::Nobody => None,
        }
    }
}
