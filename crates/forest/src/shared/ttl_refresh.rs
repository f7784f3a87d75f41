//! Lifetime of founder tokens that keeps those of one process within its budget: the time in which it wrote the last
//! budget's worth of bytes. A local forest evicts the oldest; here no process knows which those are.

use std::collections::VecDeque;

use crate::time::Millis;

/// Marks in a budget.
const MARKS: u64 = 128;

/// The rate of writes.
#[derive(Debug)]
pub(super) struct TtlRefresh {
    budget: u64,
    written: u64,
    /// Total bytes written at points in time, since the last budget began.
    marks: VecDeque<(Millis, u64)>,
}

impl TtlRefresh {
    pub(super) fn new(budget: usize) -> TtlRefresh {
        TtlRefresh { budget: budget as u64, written: 0, marks: VecDeque::new() }
    }

    /// Records written bytes, and returns for how many milliseconds they are to be kept; `None`: for as long as they
    /// are of use, since the budget was never exceeded.
    pub(super) fn write(&mut self, bytes: u64, now: Millis) -> Option<i64> {
        let is_due = |&(_, mark): &(Millis, u64)| self.written - mark >= self.budget / MARKS;
        if self.marks.back().is_none_or(is_due) {
            self.marks.push_back((now, self.written));
        }
        self.written += bytes;
        let from = self.written.checked_sub(self.budget)?;
        while self.marks.get(1).is_some_and(|&(_, mark)| mark <= from) {
            self.marks.pop_front();
        }
        let &(begun, _) = self.marks.front()?;
        Some(now.0.saturating_sub(begun.0).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_fits_the_budget_at_any_pace() {
        let mut pace = TtlRefresh::new(1_000_000);
        let mut kept: VecDeque<(i64, u64)> = VecDeque::new();
        let mut now = 0;
        for n in 0..60_000_u64 {
            // It becomes quicker and slower.
            now += [1, 7, 3][(n / 20_000) as usize];
            let bytes = 500 + n % 700;
            let life = pace.write(bytes, Millis(now)).unwrap_or(i64::MAX / 2);
            kept.push_back((now + life, bytes));
            kept.retain(|&(until, _)| until > now);
            let taken: u64 = kept.iter().map(|(_, bytes)| bytes).sum();
            // Bytes written before the budget was first exceeded stay.
            assert!(taken <= 3_500_000, "{taken} at {n}");
            assert!(pace.marks.len() as u64 <= MARKS + 2);
        }
    }
}
