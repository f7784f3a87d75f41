//! SWAR (SIMD within a register): ASCII text eight bytes at a time in a 64-bit word (Warren, "Hacker's Delight",
//! section 6-1; Mycroft's test for zero bytes, made a test for ranges).

/// Lanes bytes of text as a little-endian number: the first byte is the lowest. A bit pattern over them has the highest
/// bit of each byte that it speaks of.
#[derive(Clone, Copy)]
pub(super) struct Lanes(pub u64);

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHEST: u64 = 0x80 * ONES;

impl Lanes {
    /// The eight bytes at `at`; zeros behind the end.
    #[inline(always)]
    pub(super) fn load(bytes: &[u8], at: usize) -> Lanes {
        let rest = bytes.get(at..).unwrap_or_default();
        if let Some(eight) = rest.first_chunk() {
            return Lanes(u64::from_le_bytes(*eight));
        }
        let mut eight = [0; 8];
        for (to, from) in eight.iter_mut().zip(rest) {
            *to = *from;
        }
        Lanes(u64::from_le_bytes(eight))
    }

    /// Which bytes lie between two ASCII characters, both included.
    #[inline(always)]
    fn in_range(self, first: u8, last: u8) -> u64 {
        // Bytes of 7 bits: a sum does not carry into the next byte.
        let low = self.0 & !HIGHEST;
        let from_first = low + u64::from(0x80 - first) * ONES;
        let behind_last = low + u64::from(0x7F - last) * ONES;
        from_first & !behind_last & !self.0 & HIGHEST
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    #[inline(always)]
    pub(super) fn uppercase(self) -> u64 {
        self.in_range(b'A', b'Z')
    }

    /// Letters of both cases and digits.
    #[inline(always)]
    pub(super) fn alphanumeric(self) -> u64 {
        Lanes(self.0 | (0x20 * ONES)).in_range(b'a', b'z') | self.in_range(b'0', b'9')
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    #[inline(always)]
    pub(super) fn spaces(self) -> u64 {
        self.in_range(b' ', b' ')
    }

    /// The first `n` bytes, zeros for the others.
    #[inline(always)]
    pub(super) fn first(self, n: u32) -> u64 {
        self.0 & first_lanes(n)
    }
}

/// All bits of the first `n` bytes, at most 8.
#[inline(always)]
fn first_lanes(n: u32) -> u64 {
    u64::MAX.checked_shr(64 - 8 * n).unwrap_or(0)
}

/// How many bytes there are before the first one that a mask does not select.
#[inline(always)]
pub(super) fn leading(mask: u64) -> u32 {
    (!mask & HIGHEST).trailing_zeros() / 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mask(bytes: &[u8], mut wanted: impl FnMut(u8) -> bool) -> u64 {
        let mut eight = [0; 8];
        for (to, from) in eight.iter_mut().zip(bytes) {
            *to = if wanted(*from) { 0x80 } else { 0 };
        }
        u64::from_le_bytes(eight)
    }

    proptest! {
        #[test]
        fn eight_bytes_at_a_time_are_what_one_at_a_time_are(
            bytes in prop::collection::vec(any::<u8>(), 0..12),
            at in 0usize..12,
        ) {
            let rest = bytes.get(at..).unwrap_or_default();
            let eight = Lanes::load(&bytes, at);
            prop_assert_eq!(eight.uppercase(), mask(rest, |b| b.is_ascii_uppercase()));
            prop_assert_eq!(eight.alphanumeric(), mask(rest, |b| b.is_ascii_alphanumeric()));
            prop_assert_eq!(eight.spaces(), mask(rest, |b| b == b' '));
            let run = rest.iter().take(8).take_while(|b| b.is_ascii_alphanumeric()).count();
            prop_assert_eq!(leading(eight.alphanumeric()) as usize, run);
            let first: Vec<u8> = rest.iter().take(run).copied().collect();
            prop_assert_eq!(eight.first(run as u32), Lanes::load(&first, 0).0);
        }
    }
}
