//! HTML character references: `&nbsp;`, `&#20013;`, `&#x4e2d;`.

use std::sync::LazyLock;

use super::work_counter;

/// Name and code point (hexadecimal) of the references of HTML 4 and the common ones of HTML 5.
const NAMES: &str = "\
    AElig c6, AMP 26, Aacute c1, Acirc c2, Agrave c0, Alpha 391, Aring c5, Atilde c3, Auml c4, Beta 392, \
    Ccedil c7, Chi 3a7, Dagger 2021, Delta 394, ETH d0, Eacute c9, Ecirc ca, Egrave c8, Epsilon 395, Eta 397, \
    Euml cb, GT 3e, Gamma 393, Iacute cd, Icirc ce, Igrave cc, Iota 399, Iuml cf, Kappa 39a, LT 3c, Lambda 39b, \
    Mu 39c, NBSP a0, NewLine a, Ntilde d1, Nu 39d, OElig 152, Oacute d3, Ocirc d4, Ograve d2, Omega 3a9, \
    Omicron 39f, Oslash d8, Otilde d5, Ouml d6, Phi 3a6, Pi 3a0, Prime 2033, Psi 3a8, QUOT 22, Rho 3a1, \
    Scaron 160, Sigma 3a3, THORN de, Tab 9, Tau 3a4, Theta 398, Uacute da, Ucirc db, Ugrave d9, Upsilon 3a5, \
    Uuml dc, Xi 39e, Yacute dd, Yuml 178, Zeta 396, aacute e1, acirc e2, acute b4, aelig e6, agrave e0, \
    alefsym 2135, alpha 3b1, amp 26, and 2227, ang 2220, apos 27, aring e5, ast 2a, asymp 2248, atilde e3, \
    auml e4, bdquo 201e, beta 3b2, brvbar a6, bsol 5c, bull 2022, cap 2229, ccedil e7, cedil b8, cent a2, \
    chi 3c7, circ 2c6, clubs 2663, colon 3a, comma 2c, commat 40, cong 2245, copy a9, crarr 21b5, cup 222a, \
    curren a4, dArr 21d3, dagger 2020, darr 2193, deg b0, delta 3b4, diams 2666, divide f7, dollar 24, eacute e9, \
    ecirc ea, egrave e8, empty 2205, emsp 2003, ensp 2002, epsilon 3b5, equals 3d, equiv 2261, eta 3b7, eth f0, \
    euml eb, euro 20ac, excl 21, exist 2203, fnof 192, forall 2200, frac12 bd, frac14 bc, frac34 be, frasl 2044, \
    gamma 3b3, ge 2265, grave 60, gt 3e, hArr 21d4, harr 2194, hearts 2665, hellip 2026, hyphen 2010, iacute ed, \
    icirc ee, iexcl a1, igrave ec, image 2111, infin 221e, int 222b, iota 3b9, iquest bf, isin 2208, iuml ef, \
    kappa 3ba, lArr 21d0, lambda 3bb, lang 2329, laquo ab, larr 2190, lceil 2308, lcub 7b, ldquo 201c, le 2264, \
    lfloor 230a, lowast 2217, lowbar 5f, loz 25ca, lpar 28, lrm 200e, lsaquo 2039, lsqb 5b, lsquo 2018, lt 3c, \
    macr af, mdash 2014, micro b5, middot b7, minus 2212, mu 3bc, nabla 2207, nbsp a0, ndash 2013, ne 2260, \
    ni 220b, not ac, notin 2209, nsub 2284, ntilde f1, nu 3bd, num 23, oacute f3, ocirc f4, oelig 153, ograve f2, \
    oline 203e, omega 3c9, omicron 3bf, oplus 2295, or 2228, ordf aa, ordm ba, oslash f8, otilde f5, otimes 2297, \
    ouml f6, para b6, part 2202, percnt 25, period 2e, permil 2030, perp 22a5, phi 3c6, pi 3c0, piv 3d6, plus 2b, \
    plusmn b1, pound a3, prime 2032, prod 220f, prop 221d, psi 3c8, quest 3f, quot 22, rArr 21d2, radic 221a, \
    rang 232a, raquo bb, rarr 2192, rceil 2309, rcub 7d, rdquo 201d, real 211c, reg ae, rfloor 230b, rho 3c1, \
    rlm 200f, rpar 29, rsaquo 203a, rsqb 5d, rsquo 2019, sbquo 201a, scaron 161, sdot 22c5, sect a7, semi 3b, \
    shy ad, sigma 3c3, sigmaf 3c2, sim 223c, sol 2f, spades 2660, sub 2282, sube 2286, sum 2211, sup 2283, \
    sup1 b9, sup2 b2, sup3 b3, supe 2287, szlig df, tau 3c4, there4 2234, theta 3b8, thetasym 3d1, thinsp 2009, \
    thorn fe, tilde 2dc, times d7, trade 2122, uArr 21d1, uacute fa, uarr 2191, ucirc fb, ugrave f9, uml a8, \
    upsih 3d2, upsilon 3c5, uuml fc, verbar 7c, weierp 2118, xi 3be, yacute fd, yen a5, yuml ff, zeta 3b6, \
    zwj 200d, zwnj 200c";

static NAMED: LazyLock<Vec<(&'static str, char)>> = LazyLock::new(|| {
    let mut named: Vec<(&str, char)> = NAMES
        .split(',')
        .filter_map(|entry| {
            let (name, code) = entry.trim().split_once(' ')?;
            Some((name, char::from_u32(u32::from_str_radix(code, 16).ok()?)?))
        })
        .collect();
    named.sort_unstable();
    named
});

/// References that browsers accept without the semicolon, whatever follows.
const BARE: [(&[u8], char); 5] = [(b"nbsp", '\u{a0}'), (b"amp", '&'), (b"lt", '<'), (b"gt", '>'), (b"quot", '"')];

/// Characters of numeric references to 0x80..=0x9F: windows-1252 (HTML standard, 13.2.5.80).
const WINDOWS_1252: [u16; 32] = [
    0x20AC, 0x81, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D, 0x017D,
    0x8F, 0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D,
    0x017E, 0x0178,
];

/// Longest name looked for, in bytes.
const LONGEST: usize = 10;

/// Decodes the reference at the head of `bytes` (which starts with `&`); returns the character and its length. `None`
/// if it is only an ampersand. `&amp;quot;`, escaped twice or more often, decodes to the intended character.
pub(super) fn decode(bytes: &[u8]) -> Option<(char, usize)> {
    let mut at = 1;
    while bytes.get(at..).is_some_and(|rest| rest.starts_with(b"amp;")) {
        at += 4;
    }
    work_counter::add(at);
    match reference(bytes.get(at..)?) {
        Some((c, len)) => Some((c, at + len)),
        None if at > 1 => Some(('&', at)),
        None => None,
    }
}

/// Decodes the text behind the `&`.
fn reference(rest: &[u8]) -> Option<(char, usize)> {
    if let Some(digits) = rest.strip_prefix(b"#") {
        let (digits, radix, prefix) = match digits.first() {
            Some(b'x' | b'X') => (digits.get(1..)?, 16, 2),
            _ => (digits, 10, 1),
        };
        let len = digits.iter().take(8).take_while(|&&b| char::from(b).is_digit(radix)).count();
        let code = u32::from_str_radix(std::str::from_utf8(digits.get(..len)?).ok()?, radix).ok()?;
        let semicolon = usize::from(digits.get(len) == Some(&b';'));
        return Some((numbered(code), prefix + len + semicolon));
    }
    let len = rest.iter().take(LONGEST + 1).take_while(|b| b.is_ascii_alphanumeric()).count();
    if rest.get(len) == Some(&b';') {
        let name = std::str::from_utf8(rest.get(..len)?).ok()?;
        if let Ok(found) = NAMED.binary_search_by_key(&name, |&(name, _)| name) {
            return NAMED.get(found).map(|&(_, c)| (c, len + 1));
        }
    }
    BARE.iter().find(|(name, _)| rest.starts_with(name)).map(|&(name, c)| (c, name.len()))
}

/// Numbers that name no character become the replacement character, as in browsers.
fn numbered(code: u32) -> char {
    let code = match code {
        0x80..=0x9F => WINDOWS_1252.get((code - 0x80) as usize).map_or(code, |&c| u32::from(c)),
        _ => code,
    };
    char::from_u32(code).filter(|&c| c != '\0').unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn named_numbered_and_bare() {
        assert_eq!(decode(b"&nbsp;x"), Some(('\u{a0}', 6)));
        assert_eq!(decode(b"&hellip;"), Some(('\u{2026}', 8)));
        assert_eq!(decode(b"&thetasym;"), Some(('\u{3d1}', 10)));
        assert_eq!(decode(b"&#20013;"), Some(('中', 8)));
        assert_eq!(decode(b"&#x4e2d;"), Some(('中', 8)));
        assert_eq!(decode(b"&#X4E2D "), Some(('中', 7)));
        assert_eq!(decode(b"&#146;"), Some(('\u{2019}', 6)));
        assert_eq!(decode(b"&nbsphello"), Some(('\u{a0}', 5)));
        assert_eq!(decode(b"&amp;"), Some(('&', 5)));
    }

    #[test]
    fn escaped_twice() {
        assert_eq!(decode(b"&amp;quot;"), Some(('"', 10)));
        assert_eq!(decode(b"&amp;amp;#39;"), Some(('\'', 13)));
        assert_eq!(decode(b"&amp;co"), Some(('&', 5)));
    }

    #[test]
    fn an_ampersand_alone_is_one() {
        for text in [&b"&"[..], b"& ", b"&T;", b"&#;", b"&#x;", b"&unknown;", b"&\xe4\xb8"] {
            assert_eq!(decode(text), None, "{text:?}");
        }
        assert_eq!(decode(b"&#99999999;"), Some((char::REPLACEMENT_CHARACTER, 11)));
        assert_eq!(decode(b"&#0;"), Some((char::REPLACEMENT_CHARACTER, 4)));
    }

    #[test]
    fn every_name_is_found() {
        assert_eq!(NAMED.len(), NAMES.split(',').count());
        for &(name, c) in NAMED.iter() {
            assert!(name.len() <= LONGEST, "{name}");
            if c != '&' {
                assert_eq!(decode(format!("&{name};").as_bytes()), Some((c, name.len() + 2)));
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let mut text = vec![b'&'];
            text.extend(bytes);
            if let Some((_, len)) = decode(&text) {
                prop_assert!(len > 1 && len <= text.len());
            }
        }
    }
}
