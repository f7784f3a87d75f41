//! Which slot of a cluster a key belongs to: as Redis computes it, or commands would go to nodes that do not have it.

/// Slots of a cluster.
pub(super) const SLOTS: usize = 16_384;

/// Slot of a key: CRC16/XMODEM of the key or of its hash tag (the part between the first `{` and the next `}`, if not
/// empty). Keys are binary and may contain both.
pub(super) fn slot(key: &[u8]) -> u16 {
    let tagged = memchr::memchr(b'{', key).and_then(|open| {
        let rest = key.get(open + 1..)?;
        let close = memchr::memchr(b'}', rest)?;
        rest.get(..close).filter(|tag| !tag.is_empty())
    });
    crc16(tagged.unwrap_or(key)) % SLOTS as u16
}

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        let index = (crc >> 8) as u8 ^ byte;
        let mixed = TABLE.get(usize::from(index)).copied().unwrap_or_default();
        (crc << 8) ^ mixed
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of the cluster specification of Redis, and what `CLUSTER KEYSLOT` of Redis 7.0.15 answers.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"foo{}{bar}"), 8363);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"}{"), crc16(b"}{") % 16_384);
        assert_eq!(slot(b""), 0);
    }
}
