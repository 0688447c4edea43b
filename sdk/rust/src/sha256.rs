//! SHA-256 (FIPS 180-4), for the ids that follow from names. Programs have no other use for it, so no dependency is taken for it.

const INITIAL: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

const ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
];

/// The first 16 bytes of the hash of some parts in a row.
pub(crate) fn sha256_128(parts: &[&[u8]]) -> u128 {
    let mut bytes = parts.concat();
    let bits = (bytes.len() as u64) * 8;
    bytes.push(0x80);
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    if bytes.len() as u64 * 8 < bits + 72 {
        bytes.resize(bytes.len() + 64, 0);
    }
    let end = bytes.len() - 8;
    bytes[end..].copy_from_slice(&bits.to_be_bytes());
    let hash = bytes.chunks_exact(64).fold(INITIAL, compress);
    hash[..4].iter().fold(0, |all, word| all << 32 | u128::from(*word))
}

fn compress(hash: [u32; 8], block: &[u8]) -> [u32; 8] {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for at in 16..64 {
        let (a, b) = (words[at - 15], words[at - 2]);
        let a = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
        let b = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
        words[at] = words[at - 16].wrapping_add(a).wrapping_add(words[at - 7]).wrapping_add(b);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = hash;
    for (word, round) in words.iter().zip(ROUNDS) {
        let choice = (e & f) ^ (!e & g);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let first = h
            .wrapping_add(e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25))
            .wrapping_add(choice)
            .wrapping_add(round)
            .wrapping_add(*word);
        let second = (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22)).wrapping_add(majority);
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second));
    }
    let mixed = [a, b, c, d, e, f, g, h];
    std::array::from_fn(|at| hash[at].wrapping_add(mixed[at]))
}

#[cfg(test)]
mod tests {
    use super::sha256_128;

    /// Of the standard's examples, and of every length around the end of a block.
    #[test]
    fn known_hashes_are_found() {
        assert_eq!(sha256_128(&[b""]), 0xe3b0c44298fc1c149afbf4c8996fb924);
        assert_eq!(sha256_128(&[b"a", b"bc"]), 0xba7816bf8f01cfea414140de5dae2223);
        let two = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(sha256_128(&[two]), 0x248d6a61d20638b8e5c026930c3e6039);
        let million = vec![b'a'; 1_000_000];
        assert_eq!(sha256_128(&[&million]), 0xcdc76e5c9914fb9281a1c7e284d73e67);
        for (length, hash) in [
            (55, 0x9f4390f8d30c2dd92ec9f095b65e2b9au128),
            (56, 0xb35439a4ac6f0948b6d6f9e3c6af0f5f),
            (63, 0x7d3e74a05d7db15bce4ad9ec0658ea98),
            (64, 0xffe054fe7ae0cb6dc65c3af9b61d5209),
        ] {
            assert_eq!(sha256_128(&[&vec![b'a'; length]]), hash, "{length}");
        }
    }
}
