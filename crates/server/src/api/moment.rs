//! Timestamps in answers. `…_ns` is a number that is too large for JavaScript, so the same timestamp is also returned as text, under
//! the same name without `_ns`.

use serde::{Serialize, Serializer};
use std::borrow::Cow;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type},
    },
};

/// A moment as RFC 3339 text (UTC), with nine digits of a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment(mundi_model::Moment);

impl Moment {
    pub(crate) fn of(ns: u64) -> Self {
        Self(mundi_model::Moment(ns))
    }

    /// Where 0 says that there is no such moment.
    pub(crate) fn unless_zero(ns: u64) -> Option<Self> {
        (ns > 0).then(|| Self::of(ns))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        let text = ObjectBuilder::new().schema_type(Type::String).format(Some(format));
        text.description(Some(
            "The moment of the same name with `_ns`, as text (RFC 3339, UTC, nine digits of a second)",
        ))
        .into()
    }
}

impl ToSchema for Moment {
    fn name() -> Cow<'static, str> {
        "Moment".into()
    }
}
