//! Options of the command line and the environment, which take precedence over those of a file.

use std::path::Path;

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::{ConfigError, FileFault, RawRoute, RawServeOptions, small_file};

/// Options with their origin, so that explicit ones override those of a file.
#[derive(Debug, Clone)]
pub struct Flags<T> {
    given: T,
    matches: ArgMatches,
}

impl<T: FromArgMatches> FromArgMatches for Flags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags<T>, clap::Error> {
        Ok(Flags { given: T::from_arg_matches(matches)?, matches: matches.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Flags::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: Args> Args for Flags<T> {
    fn augment_args(command: Command) -> Command {
        T::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T: FromArgMatches> Flags<T> {
    /// Overrides the options of `below` by the explicit ones.
    fn over(&self, below: &mut T) -> Result<(), ConfigError> {
        let updated = below.update_from_arg_matches(&self.matches);
        updated.map_err(|error| ConfigError::option("arguments", error.to_string()))
    }
}

impl Flags<RawServeOptions> {
    /// Reads the file, if any, and lays these options over it. Options of a route go over every `[[route]]` table;
    /// with an index pattern they are a route of their own, before those of the file.
    ///
    /// # Errors
    /// If the file cannot be read or is not valid.
    pub fn over_file(&self, file: Option<&Path>) -> Result<RawServeOptions, ConfigError> {
        let mut options = read(file)?;
        self.over(&mut options)?;
        let route = Flags { given: options.single.clone(), matches: self.matches.clone() };
        route.over_tables(&mut options)?;
        Ok(options)
    }
}

impl Flags<RawRoute> {
    /// Reads the file, if any, and lays the options of a route over it, as [`Flags::<RawServeOptions>::over_file`].
    ///
    /// # Errors
    /// If the file cannot be read or is not valid.
    pub fn over_file(&self, file: Option<&Path>) -> Result<RawServeOptions, ConfigError> {
        let mut options = read(file)?;
        options.single.clone_from(&self.given);
        self.over_tables(&mut options)?;
        Ok(options)
    }

    fn over_tables(&self, options: &mut RawServeOptions) -> Result<(), ConfigError> {
        if self.given.names_an_index() || options.route.is_empty() {
            return Ok(());
        }
        options.single = RawRoute::default();
        options.route.iter_mut().try_for_each(|table| self.over(table))
    }
}

pub(super) fn read(file: Option<&Path>) -> Result<RawServeOptions, ConfigError> {
    let Some(path) = file else { return Ok(RawServeOptions::default()) };
    let text = small_file::read_any(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let fault = |error| ConfigError::Toml { path: path.to_owned(), source: FileFault::of(&text, &error) };
    toml::from_str(&text).map_err(fault)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Serve {
        #[command(flatten)]
        raw: Flags<RawServeOptions>,
    }

    /// The validated options of `spinney serve FLAGS` with this file that matter here, as TOML.
    fn layered(flags: &str, file: &str) -> (String, Vec<(String, u32)>) {
        let path = std::env::temp_dir().join(format!("spinney-flags-{}-{:x}", std::process::id(), {
            use std::hash::{BuildHasher, RandomState};
            RandomState::new().hash_one(flags)
        }));
        std::fs::write(&path, file).unwrap();
        let parsed = Serve::parse_from(std::iter::once("serve").chain(flags.split_whitespace()));
        let options = parsed.raw.over_file(Some(&path));
        std::fs::remove_file(&path).unwrap();
        let options = options.unwrap().validate().unwrap();
        let routes = options.routes.iter().map(|route| (route.forest.clone(), route.k.0)).collect();
        (format!("{} {}", options.limits.budget >> 20, options.listen.port()), routes)
    }

    #[test]
    fn flags_go_before_the_file() {
        const FILE: &str = "budget = '64MiB'\nlisten = '127.0.0.1:1'\n[[route]]\nindex = ['a']\nmethod = 'longest'\n\
                            [[route]]\nindex = ['b']\nmethod = 'longest'\nk = 2\n";
        let routes = |of: &[(&str, u32)]| of.iter().map(|&(name, k)| (name.to_owned(), k)).collect::<Vec<_>>();
        assert_eq!(layered("", FILE), ("64 1".into(), routes(&[("a", 3), ("b", 2)])));
        assert_eq!(layered("--budget 32MiB", FILE), ("32 1".into(), routes(&[("a", 3), ("b", 2)])));
        assert_eq!(layered("--k 1", FILE), ("64 1".into(), routes(&[("a", 1), ("b", 1)])));
        let own = layered("--k 1 --index c --method longest", FILE);
        assert_eq!(own, ("64 1".into(), routes(&[("c", 1), ("a", 3), ("b", 2)])));
        assert_eq!(layered("--listen [::1]:9 --index c", ""), ("256 9".into(), routes(&[("c", 0)])));
    }
}
