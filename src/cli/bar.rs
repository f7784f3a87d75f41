//! How far a command is, mostly in documents: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use super::print_error;
use crate::progress::Progress;

/// Interval of progress lines where there is no terminal.
const TELL: Duration = Duration::from_secs(5);

pub(super) struct Bar {
    bar: ProgressBar,
    unit: &'static str,
    /// The verb of the unit, such as `read`.
    done: &'static str,
    last: Mutex<(Instant, u64)>,
}

impl Bar {
    /// A bar for a number of documents. `done`: the verb, as in "17 documents read".
    pub(super) fn new(documents: u64, done: &'static str) -> anyhow::Result<Bar> {
        let bar = Bar::of("documents", done)?;
        bar.bar.set_length(documents);
        Ok(bar)
    }

    /// A bar for another unit, of an unknown number.
    pub(super) fn of(unit: &'static str, done: &'static str) -> anyhow::Result<Bar> {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::no_length(),
            false => ProgressBar::hidden(),
        };
        bar.set_style(ProgressStyle::with_template(&format!(
            "{{msg}} [{{wide_bar}}] {{human_pos}}/{{human_len}} {unit} {{per_sec}} {{eta}}"
        ))?);
        Ok(Bar { bar, unit, done, last: Mutex::new((Instant::now(), 0)) })
    }

    /// Shows how far a forest is.
    pub(super) fn set(&self, Progress { forest, done: position, total }: Progress<'_>) {
        self.bar.set_message(forest.to_owned());
        self.bar.set_length(total);
        self.bar.set_position(position);
        let mut last = self.last.lock();
        let passed = last.0.elapsed();
        if !self.bar.is_hidden() || passed < TELL {
            return;
        }
        // A forest that begins has done less than the one before it.
        let rate = position.saturating_sub(last.1) as f64 / passed.as_secs_f64();
        *last = (Instant::now(), position);
        let left = Duration::from_secs_f64(total.saturating_sub(position) as f64 / rate.max(1.0));
        print_error(format_args!(
            "spinney: forest {forest}: {} of {} {} {}, {rate:.0} a second, {} left",
            HumanCount(position),
            HumanCount(total),
            self.unit,
            self.done,
            HumanDuration(left)
        ));
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
