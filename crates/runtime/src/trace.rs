//! W3C trace context: one trace from an input to the receipts of all that followed from it.
//!
//! The text form travels in the origin of every inbox item, which is journaled, and with every effect and timer. Each hop
//! is a child of the one before; its id follows from what it is about, so a replay or a repeated attempt names it alike.

use mundi_model::{Hash, hex, parse_hex};
use std::{fmt, str::FromStr};

/// A `traceparent`, version 00.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    pub trace: [u8; 16],
    pub span: [u8; 8],
    pub flags: u8,
}

/// Someone records this trace.
const SAMPLED: u8 = 1;

impl TraceContext {
    /// The beginning of a trace, from random bytes.
    pub fn root(random: [u8; 24]) -> Self {
        let (mut trace, mut span) = ([0; 16], [0; 8]);
        trace.copy_from_slice(&random[..16]);
        span.copy_from_slice(&random[16..]);
        // The specification gives all-zero ids the meaning "none".
        trace[15] |= 1;
        span[7] |= 1;
        Self { trace, span, flags: SAMPLED }
    }

    /// The same, for a trace that nobody records.
    #[must_use]
    pub fn unsampled(self) -> Self {
        Self { flags: self.flags & !SAMPLED, ..self }
    }

    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// A child span about this.
    pub fn child(&self, about: &[u8]) -> Self {
        let hash = Hash::of(&[&self.trace[..], &self.span, about].concat());
        let mut span = [0; 8];
        span.copy_from_slice(&hash.as_bytes()[..8]);
        span[7] |= 1;
        Self { span, ..*self }
    }
}

/// The context of what follows from a text that came from outside; what is no context stays as it is.
pub(crate) fn child_of(trace: Option<&String>, about: &[u8]) -> Option<String> {
    trace.map(|trace| match trace.parse::<TraceContext>() {
        Ok(parent) => parent.child(about).to_string(),
        Err(_) => trace.clone(),
    })
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", hex(&self.trace), hex(&self.span), self.flags)
    }
}

/// A text is no trace context of a version that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTraceContext;

impl FromStr for TraceContext {
    type Err = NoTraceContext;

    fn from_str(text: &str) -> Result<Self, NoTraceContext> {
        let parts: Vec<&str> = text.split('-').collect();
        let ["00", trace, span, flags] = parts[..] else { return Err(NoTraceContext) };
        let (trace, span, flags) = (parse_hex(trace), parse_hex(span), parse_hex::<1>(flags));
        match (trace, span, flags) {
            (Some(trace), Some(span), Some([flags])) if trace != [0; 16] && span != [0; 8] => {
                Ok(Self { trace, span, flags })
            }
            _ => Err(NoTraceContext),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_survives_its_text_and_nothing_else_is_taken_for_one() {
        let example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context: TraceContext = example.parse().unwrap();
        assert_eq!(context.to_string(), example);
        let zero = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        for text in ["", "00", zero, &example.to_uppercase(), &format!("{example}-x"), &example.replacen("00", "01", 1)]
        {
            assert_eq!(text.parse::<TraceContext>(), Err(NoTraceContext), "{text}");
        }
    }

    #[test]
    fn a_child_stays_in_the_trace_and_is_named_alike_each_time() {
        let root = TraceContext::root([0; 24]);
        assert_eq!(root.to_string().parse(), Ok(root), "also from the worst of randomness");
        let (a, b) = (root.child(b"a"), root.child(b"b"));
        assert!(a.trace == root.trace && a.span != root.span && a.span != b.span && a == root.child(b"a"));
        assert_eq!(child_of(Some(&"mine".to_owned()), b"a").as_deref(), Some("mine"));
    }
}
