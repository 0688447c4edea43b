//! The decoders under a fixed corpus: what a fuzzer does for days, for a second.

use crate::{
    guest::{changed, counter},
    parrot,
};
use mundi_wasm::decoders;

struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }
}

#[test]
fn whatever_a_guest_says_is_bounded_and_on_record() {
    let mut draw = Draw(0x5eed);
    for _ in 0..500 {
        let mut bytes = Vec::new();
        for _ in 0..draw.below(8) + 1 {
            bytes.push(draw.next().to_le_bytes()[0]);
            for _ in 0..4 {
                // Addresses and lengths near what is there, at the borders, and anywhere.
                let number = match draw.below(4) {
                    0 => draw.next() % 0x2_0000,
                    1 => [0, 1, 4, 512, 520, 540, 0x1_ffff, 0x2_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]
                        [draw.below(11)],
                    2 => draw.next() % 64,
                    _ => draw.next(),
                };
                bytes.extend(&number.to_le_bytes()[..4]);
            }
        }
        assert_eq!(bytes.len() % parrot::SENTENCE_BYTES, 0);
        parrot::said(&bytes);
    }
}

#[test]
fn changed_components_and_descriptions_never_panic() {
    let mut draw = Draw(0xc0de);
    let (good, offer) = (counter().component(), crate::guest::OFFER.as_bytes());
    for _ in 0..200 {
        for (source, decode) in [(&good[..], decoders::component as fn(&[u8])), (offer, decoders::offer)] {
            let changes: Vec<u8> = (0..5 * (draw.below(3) + 1)).map(|_| draw.next().to_le_bytes()[0]).collect();
            decode(&changed(source, &changes));
        }
    }
}
