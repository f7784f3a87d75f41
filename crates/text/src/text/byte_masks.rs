//! ASCII text 32 bytes at a time, by SSE2 where there is x86-64, which always has it.

use super::swar::Lanes;

/// Classes of 32 bytes of text, one bit a byte, lowest bit first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ByteMasks {
    /// Letters of both cases and digits.
    pub alphanumeric: u32,
    pub spaces: u32,
    pub uppercase: u32,
}

impl ByteMasks {
    /// The 32 bytes at `at`; zeros behind the end.
    #[inline(always)]
    pub(super) fn load(bytes: &[u8], at: usize) -> ByteMasks {
        let rest = bytes.get(at..).unwrap_or_default();
        match rest.first_chunk() {
            Some(bytes) => ByteMasks::of(bytes),
            None => ByteMasks::of_end(rest),
        }
    }

    /// Fewer than 32 bytes.
    #[cold]
    fn of_end(rest: &[u8]) -> ByteMasks {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(rest) {
            *to = *from;
        }
        ByteMasks::of(&bytes)
    }

    #[inline(always)]
    fn of(bytes: &[u8; 32]) -> ByteMasks {
        #[cfg(target_arch = "x86_64")]
        #[expect(unsafe_code, reason = "the functions of SSE2 are safe where it is known to exist")]
        // SAFETY: every x86-64 has SSE2.
        return unsafe { by_sse2(bytes) };
        #[cfg(not(target_arch = "x86_64"))]
        return by_lanes(bytes);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn by_sse2(bytes: &[u8; 32]) -> ByteMasks {
    use std::arch::x86_64::{
        _mm_and_si128, _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8,
    };

    let half = |at: usize| {
        let eight = |at| Lanes::load(bytes, at).0.cast_signed();
        let bytes = _mm_set_epi64x(eight(at + 8), eight(at));
        let splat = |c: u8| _mm_set1_epi8(c.cast_signed());
        // Bytes beyond ASCII are negative, and so in no range.
        let in_range = |bytes, first: u8, last: u8| {
            _mm_and_si128(_mm_cmpgt_epi8(bytes, splat(first - 1)), _mm_cmpgt_epi8(splat(last + 1), bytes))
        };
        let lower = _mm_or_si128(bytes, splat(0x20));
        let alphanumeric = _mm_or_si128(in_range(lower, b'a', b'z'), in_range(bytes, b'0', b'9'));
        let bits = |mask| _mm_movemask_epi8(mask).cast_unsigned();
        (bits(alphanumeric), bits(_mm_cmpeq_epi8(bytes, splat(b' '))), bits(in_range(bytes, b'A', b'Z')))
    };
    let (first, last) = (half(0), half(16));
    ByteMasks {
        alphanumeric: first.0 | last.0 << 16,
        spaces: first.1 | last.1 << 16,
        uppercase: first.2 | last.2 << 16,
    }
}

/// The portable implementation, eight bytes at a time.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn by_lanes(bytes: &[u8; 32]) -> ByteMasks {
    // The highest bits of eight bytes, side by side.
    let bits = |mask: u64| ((mask >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32;
    let mut masks = ByteMasks::default();
    for at in (0..32).step_by(8) {
        let lanes = Lanes::load(bytes, at);
        masks.alphanumeric |= bits(lanes.alphanumeric()) << at;
        masks.spaces |= bits(lanes.spaces()) << at;
        masks.uppercase |= bits(lanes.uppercase()) << at;
    }
    masks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_each_byte(bytes: &[u8; 32]) -> ByteMasks {
        let mask = |wanted: fn(&u8) -> bool| {
            let wanted = (0..32).filter(|&at| wanted(&bytes[at]));
            wanted.fold(0, |mask, at| mask | 1 << at)
        };
        ByteMasks {
            alphanumeric: mask(u8::is_ascii_alphanumeric),
            spaces: mask(|b| *b == b' '),
            uppercase: mask(u8::is_ascii_uppercase),
        }
    }

    #[test]
    fn every_byte_is_masked_at_every_place() {
        for byte in 0..=u8::MAX {
            for place in 0..32 {
                let mut bytes = [byte.wrapping_add(1); 32];
                bytes[place] = byte;
                assert_eq!(ByteMasks::of(&bytes), of_each_byte(&bytes), "{byte} at {place}");
                assert_eq!(by_lanes(&bytes), of_each_byte(&bytes), "{byte} at {place}");
            }
        }
    }

    proptest! {
        #[test]
        fn zeros_are_behind_the_end(bytes in prop::collection::vec(any::<u8>(), 0..70), at in 0usize..80) {
            let mut all = bytes.clone();
            all.resize(120, 0);
            let expected = all.get(at..at + 32).and_then(|bytes| bytes.first_chunk()).map(of_each_byte);
            prop_assert_eq!(Some(ByteMasks::load(&bytes, at)), expected);
        }

        #[test]
        fn masks_are_what_each_byte_is(bytes in prop::array::uniform32(any::<u8>())) {
            prop_assert_eq!(ByteMasks::of(&bytes), of_each_byte(&bytes));
            prop_assert_eq!(by_lanes(&bytes), of_each_byte(&bytes));
        }
    }
}
