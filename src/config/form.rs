//! How much a stamp says.

use std::str::FromStr;

use super::ConfigError;

/// Which fields a stamp has. Every field costs the cluster something with every document, so what can be made again
/// from the text is not written unless somebody asks for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StampForm {
    /// Root, key and arrival: what searches go by.
    #[default]
    Lean,
    /// Also the document's own fingerprints and proof, for whoever wants to see or use them without reading the text.
    Full,
}

impl StampForm {
    /// The form that was asked for, or the default.
    pub(super) fn of(written: Option<&str>) -> Result<StampForm, ConfigError> {
        written.map_or(Ok(StampForm::default()), str::parse)
    }
}

impl FromStr for StampForm {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<StampForm, ConfigError> {
        match text {
            "lean" => Ok(StampForm::Lean),
            "full" => Ok(StampForm::Full),
            other => Err(ConfigError::option("stamp", format!("'{other}' is not one of lean, full"))),
        }
    }
}
