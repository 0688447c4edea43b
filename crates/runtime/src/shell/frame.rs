//! The wire frame of worker mailboxes (`LMSG`): a header of 60 bytes, little-endian, then message id,
//! trace id and payload.
//!
//! A frame has one encoding: what is reserved is zero, what is absent has its one mark, and nothing follows the
//! payload. So a decoded frame encodes to the bytes that it came from.

use mundi_model::{Code, Coded, Hash, WorkerId, limits};
use mundi_store::protocol::NewMail;

const MAGIC: &[u8; 4] = b"LMSG";
const MAJOR: u16 = 0;
const MINOR: u16 = 1;
const HEADER_BYTES: usize = 60;
/// The length of a trace id that is not there.
const ABSENT: u32 = u32::MAX;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    Command = 0,
    Event = 1,
    Timer = 2,
}

/// Flags that the sender chooses; `has from` and `has trace` follow from the frame. A mailbox puts what has high priority
/// before what has not, and takes a message id that asks for it once. All that is in a mailbox is durable, and acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameFlags {
    pub durable: bool,
    pub high_priority: bool,
    pub dedupe: bool,
    pub needs_ack: bool,
}

const DURABLE: u8 = 1;
const HIGH_PRIORITY: u8 = 2;
const DEDUPE: u8 = 4;
const NEEDS_ACK: u8 = 8;
const HAS_FROM: u8 = 16;
const HAS_TRACE: u8 = 32;

/// A message between workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    pub flags: FrameFlags,
    pub to: WorkerId,
    /// The worker that routed it, and when; both 0 if it was not routed.
    pub route_worker: i64,
    pub route_timestamp: i64,
    pub from: Option<WorkerId>,
    /// Never empty.
    pub message_id: Vec<u8>,
    pub trace_id: Option<Vec<u8>>,
    pub payload: Vec<u8>,
}

/// Why bytes are not a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {len} bytes is cut short, or followed by something")]
    Length { len: usize },
    #[error("a frame has at most {max} bytes; this one has {len}")]
    TooLarge { len: usize, max: usize },
    #[error("it does not begin with LMSG")]
    Magic,
    #[error("it is of version {major}.{minor}")]
    Version { major: u16, minor: u16 },
    #[error("{0}")]
    Field(&'static str),
    #[error("it is for {to}, and came to {here}")]
    WrongWorker { to: WorkerId, here: WorkerId },
}

impl Coded for FrameError {
    fn code(&self) -> Code {
        Code::FrameInvalid
    }
}

impl Frame {
    /// A command, due at once and worth keeping.
    pub fn command(to: WorkerId, message_id: Vec<u8>, payload: Vec<u8>) -> Self {
        let flags = FrameFlags { durable: true, needs_ack: true, ..FrameFlags::default() };
        Self {
            kind: FrameKind::Command,
            flags,
            to,
            route_worker: 0,
            route_timestamp: 0,
            from: None,
            message_id,
            trace_id: None,
            payload,
        }
    }

    /// The frame as it is sent, with what its flags ask of the mailbox.
    pub fn to_mail(&self, due_ns: u64) -> Result<NewMail, FrameError> {
        let name = self.flags.dedupe.then(|| Hash::of(&self.message_id));
        Ok(NewMail { due_ns, urgent: self.flags.high_priority, name, frame: self.encode()?.into() })
    }

    pub fn encode(&self) -> Result<Vec<u8>, FrameError> {
        let trace = self.trace_id.as_deref();
        let len = HEADER_BYTES + self.message_id.len() + trace.map_or(0, <[u8]>::len) + self.payload.len();
        if len > limits::VALUE_BYTES_MAX {
            return Err(FrameError::TooLarge { len, max: limits::VALUE_BYTES_MAX });
        }
        if self.message_id.is_empty() {
            return Err(FrameError::Field("the message id is empty"));
        }
        let u32_of = |len: usize| u32::try_from(len).unwrap_or(ABSENT); // bounded above
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&MAJOR.to_le_bytes());
        bytes.extend_from_slice(&MINOR.to_le_bytes());
        bytes.extend_from_slice(&u32_of(len).to_le_bytes());
        bytes.extend_from_slice(&[self.kind as u8, self.flag_bits(), 0, 0]);
        bytes.extend_from_slice(&signed(self.to).to_le_bytes());
        bytes.extend_from_slice(&self.route_worker.to_le_bytes());
        bytes.extend_from_slice(&self.route_timestamp.to_le_bytes());
        bytes.extend_from_slice(&self.from.map_or(0, signed).to_le_bytes());
        bytes.extend_from_slice(&u32_of(self.message_id.len()).to_le_bytes());
        bytes.extend_from_slice(&trace.map_or(ABSENT, |trace| u32_of(trace.len())).to_le_bytes());
        bytes.extend_from_slice(&u32_of(self.payload.len()).to_le_bytes());
        for part in [&self.message_id[..], trace.unwrap_or_default(), &self.payload] {
            bytes.extend_from_slice(part);
        }
        Ok(bytes)
    }

    /// A frame that came to this worker.
    pub fn decode_for(here: WorkerId, bytes: &[u8]) -> Result<Self, FrameError> {
        let frame = Self::decode(bytes)?;
        if frame.to != here {
            return Err(FrameError::WrongWorker { to: frame.to, here });
        }
        Ok(frame)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let len = bytes.len();
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or(FrameError::Length { len })?;
        let mut header = Reader(header);
        if header.take::<4>() != *MAGIC {
            return Err(FrameError::Magic);
        }
        let (major, minor) = (u16::from_le_bytes(header.take()), u16::from_le_bytes(header.take()));
        if (major, minor) != (MAJOR, MINOR) {
            return Err(FrameError::Version { major, minor });
        }
        if header.len() != len {
            return Err(FrameError::Length { len });
        }
        let [kind, flags, reserved @ ..] = header.take::<4>();
        let (to, route_worker, route_timestamp, from) = (header.i64(), header.i64(), header.i64(), header.i64());
        let (message_len, trace_len, payload_len) = (header.len(), header.trace_len(), header.len());
        if reserved != [0, 0] {
            return Err(FrameError::Field("the reserved bytes are not zero"));
        }
        if message_len == 0 {
            return Err(FrameError::Field("the message id is empty"));
        }
        let mut parts = Parts { rest, len };
        let message_id = parts.take(message_len)?;
        let trace_id = trace_len.map(|trace_len| parts.take(trace_len)).transpose()?;
        let payload = parts.take(payload_len)?;
        if !parts.rest.is_empty() {
            return Err(FrameError::Length { len });
        }
        let frame = Self {
            kind: kind_of(kind)?,
            flags: FrameFlags {
                durable: flags & DURABLE != 0,
                high_priority: flags & HIGH_PRIORITY != 0,
                dedupe: flags & DEDUPE != 0,
                needs_ack: flags & NEEDS_ACK != 0,
            },
            to: worker(to).ok_or(FrameError::Field("it is for no worker"))?,
            route_worker,
            route_timestamp,
            from: match from {
                0 => None,
                from => Some(worker(from).ok_or(FrameError::Field("it is from no worker"))?),
            },
            message_id,
            trace_id,
            payload,
        };
        if frame.flag_bits() != flags {
            return Err(FrameError::Field("its flags do not say what it carries"));
        }
        Ok(frame)
    }

    fn flag_bits(&self) -> u8 {
        let FrameFlags { durable, high_priority, dedupe, needs_ack } = self.flags;
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        bit(durable, DURABLE)
            | bit(high_priority, HIGH_PRIORITY)
            | bit(dedupe, DEDUPE)
            | bit(needs_ack, NEEDS_ACK)
            | bit(self.from.is_some(), HAS_FROM)
            | bit(self.trace_id.is_some(), HAS_TRACE)
    }
}

fn kind_of(kind: u8) -> Result<FrameKind, FrameError> {
    [FrameKind::Command, FrameKind::Event, FrameKind::Timer]
        .into_iter()
        .find(|known| *known as u8 == kind)
        .ok_or(FrameError::Field("its kind is unknown"))
}

/// A worker id fits a signed field by construction.
fn signed(worker: WorkerId) -> i64 {
    i64::try_from(worker.get()).unwrap_or(i64::MAX)
}

fn worker(number: i64) -> Option<WorkerId> {
    WorkerId::new(u64::try_from(number).ok()?)
}

/// Reads a header whose length was checked.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let (head, rest) = self.0.split_at(N.min(self.0.len()));
        taken[..head.len()].copy_from_slice(head);
        self.0 = rest;
        taken
    }

    fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.take())
    }

    fn len(&mut self) -> usize {
        usize::try_from(u32::from_le_bytes(self.take())).unwrap_or(usize::MAX)
    }

    fn trace_len(&mut self) -> Option<usize> {
        let len = u32::from_le_bytes(self.take());
        (len != ABSENT).then(|| usize::try_from(len).unwrap_or(usize::MAX))
    }
}

struct Parts<'a> {
    rest: &'a [u8],
    len: usize,
}

impl Parts<'_> {
    fn take(&mut self, len: usize) -> Result<Vec<u8>, FrameError> {
        let (part, rest) = self.rest.split_at_checked(len).ok_or(FrameError::Length { len: self.len })?;
        self.rest = rest;
        Ok(part.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(n: u64) -> WorkerId {
        WorkerId::new(n).unwrap()
    }

    #[test]
    fn the_layout_of_the_frame_is_pinned() {
        let frame = Frame {
            kind: FrameKind::Timer,
            from: Some(id(0x0a)),
            trace_id: Some(b"t".to_vec()),
            route_worker: -1,
            route_timestamp: 2,
            ..Frame::command(id(0x0102), b"id".to_vec(), b"pay".to_vec())
        };
        let expected: Vec<u8> = [
            &b"LMSG\0\0\x01\0"[..],
            &66u32.to_le_bytes(),
            &[2, 1 | 8 | 16 | 32, 0, 0],
            &0x0102i64.to_le_bytes(),
            &(-1i64).to_le_bytes(),
            &2i64.to_le_bytes(),
            &0x0ai64.to_le_bytes(),
            &2u32.to_le_bytes(),
            &1u32.to_le_bytes(),
            &3u32.to_le_bytes(),
            b"idtpay",
        ]
        .concat();
        assert_eq!(frame.encode().unwrap(), expected);
        let silent = Frame { trace_id: None, ..frame };
        assert_eq!(silent.encode().unwrap()[52..56], [0xff; 4]);
    }

    #[test]
    fn a_frame_for_another_worker_is_refused() {
        let bytes = Frame::command(id(1), b"id".to_vec(), vec![]).encode().unwrap();
        assert!(Frame::decode_for(id(1), &bytes).is_ok());
        assert!(matches!(Frame::decode_for(id(2), &bytes), Err(FrameError::WrongWorker { .. })));
    }

    #[test]
    fn a_frame_without_a_message_id_or_of_too_many_bytes_is_not_made() {
        assert!(matches!(Frame::command(id(1), vec![], vec![]).encode(), Err(FrameError::Field(_))));
        let large = Frame::command(id(1), b"id".to_vec(), vec![0; limits::VALUE_BYTES_MAX]);
        assert!(matches!(large.encode(), Err(FrameError::TooLarge { .. })));
    }

    fn frames() -> impl Strategy<Value = Frame> {
        let kinds = prop::sample::select(vec![FrameKind::Command, FrameKind::Event, FrameKind::Timer]);
        let workers = (1..=i64::MAX as u64).prop_map(id);
        let flags = any::<(bool, bool, bool, bool)>();
        let parts = (prop::collection::vec(any::<u8>(), 1..40), any::<Option<Vec<u8>>>(), any::<Vec<u8>>());
        (kinds, flags, workers.clone(), any::<(i64, i64)>(), prop::option::of(workers), parts).prop_map(
            |(kind, flags, to, (route_worker, route_timestamp), from, (message_id, trace_id, payload))| {
                let (durable, high_priority, dedupe, needs_ack) = flags;
                let flags = FrameFlags { durable, high_priority, dedupe, needs_ack };
                Frame { kind, flags, to, route_worker, route_timestamp, from, message_id, trace_id, payload }
            },
        )
    }

    proptest! {
        #[test]
        fn a_frame_survives(frame in frames()) {
            prop_assert_eq!(Frame::decode(&frame.encode().unwrap()).unwrap(), frame);
        }

        #[test]
        fn a_cut_frame_is_refused(frame in frames(), keep: prop::sample::Index) {
            let bytes = frame.encode().unwrap();
            prop_assert!(Frame::decode(&bytes[..keep.index(bytes.len())]).is_err());
            prop_assert!(Frame::decode(&[&bytes[..], b"x"].concat()).is_err());
        }

        #[test]
        fn a_changed_frame_is_refused_or_another_frame(frame in frames(), at: prop::sample::Index, bit in 0u8..8) {
            let mut bytes = frame.encode().unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Ok(other) = Frame::decode(&bytes) {
                prop_assert_ne!(&other, &frame);
                prop_assert_eq!(other.encode().unwrap(), bytes);
            }
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_encode_to_themselves(bytes: Vec<u8>) {
            if let Ok(frame) = Frame::decode(&bytes) {
                prop_assert_eq!(frame.encode().unwrap(), bytes);
            }
        }
    }
}
