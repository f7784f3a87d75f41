//! The files that pages name: in the program, and served under names that change with their content, so that a browser
//! may keep them for ever.

use std::sync::LazyLock;

use xxhash_rust::xxh3::xxh3_64;

/// One file.
pub(super) struct Asset {
    /// Its name with the hash of its content.
    pub name: String,
    /// Its content type.
    pub kind: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
}

/// All of them.
pub(super) struct Assets {
    pub style: Asset,
    pub script: Asset,
    pub icon: Asset,
}

/// The files, named once.
pub(super) static ASSETS: LazyLock<Assets> = LazyLock::new(|| Assets {
    style: Asset::new("page", "css", "text/css; charset=utf-8", include_bytes!("assets/page.css")),
    script: Asset::new("page", "js", "text/javascript; charset=utf-8", include_bytes!("assets/page.js")),
    icon: Asset::new("icon", "svg", "image/svg+xml", include_bytes!("assets/icon.svg")),
});

impl Asset {
    fn new(stem: &str, ending: &str, kind: &'static str, bytes: &'static [u8]) -> Asset {
        let name = format!("{stem}-{:016x}.{ending}", xxh3_64(bytes));
        Asset { name, kind, bytes }
    }
}

impl Assets {
    /// The file of this name.
    pub(super) fn find(&self, name: &str) -> Option<&Asset> {
        let all = [&self.style, &self.script, &self.icon];
        all.into_iter().find(|asset| asset.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_content() {
        let one = Asset::new("page", "css", "text/css", b"a{}");
        assert_eq!(one.name, Asset::new("page", "css", "text/css", b"a{}").name);
        assert_ne!(one.name, Asset::new("page", "css", "text/css", b"b{}").name);
        assert!(one.name.starts_with("page-") && one.name.ends_with(".css"));
        let style = &ASSETS.style.name;
        assert_eq!(ASSETS.find(style).unwrap().kind, "text/css; charset=utf-8");
        assert!(ASSETS.find("page.css").is_none());
        assert!(ASSETS.find("../page.css").is_none());
    }

    #[test]
    fn the_first_view_is_small() {
        let bytes: usize = [&ASSETS.style, &ASSETS.script, &ASSETS.icon].map(|asset| asset.bytes.len()).iter().sum();
        assert!(bytes < 60 << 10, "{bytes}");
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        for asset in [&ASSETS.style, &ASSETS.script] {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for there in ["http://", "https://", "@import", "url("] {
                assert!(!text.contains(there), "{}: {there}", asset.name);
            }
        }
    }
}
