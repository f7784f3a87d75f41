//! Which commands of a round may have been run, whenever the round ends.

use parking_lot::Mutex;

/// The commands of a round, by their positions.
#[derive(Debug)]
pub(super) struct SentCommands(Mutex<Vec<Sent>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// Not at all, or it was answered with an error each time.
    No,
    /// It was not answered yet, or was run.
    Yes,
    /// Once, without an answer: what is answered to it later says nothing of that time.
    WithoutAnswer,
}

impl SentCommands {
    /// So many commands, none of which was sent.
    pub(super) fn of(commands: usize) -> SentCommands {
        SentCommands(Mutex::new(vec![Sent::No; commands]))
    }

    /// They are about to be sent.
    pub(super) fn are_sent(&self, places: &[usize]) {
        let mut sent = self.0.lock();
        for &at in places {
            turn(&mut sent, at, Sent::No, Sent::Yes);
        }
    }

    /// One was answered with an error.
    pub(super) fn was_refused(&self, at: usize) {
        turn(&mut self.0.lock(), at, Sent::Yes, Sent::No);
    }

    /// The answer to one, if it was sent, will not come any more. Whether it may have been run.
    pub(super) fn is_lost(&self, at: usize) -> bool {
        let mut sent = self.0.lock();
        turn(&mut sent, at, Sent::Yes, Sent::WithoutAnswer);
        sent.get(at) != Some(&Sent::No)
    }

    /// The positions of those that were certainly not run, in order.
    pub(super) fn not_run(&self) -> Vec<usize> {
        let sent = self.0.lock();
        let each = sent.iter().enumerate().filter(|(_, sent)| **sent == Sent::No);
        each.map(|(at, _)| at).collect()
    }
}

fn turn(sent: &mut [Sent], at: usize, from: Sent, to: Sent) {
    if let Some(place) = sent.get_mut(at).filter(|place| **place == from) {
        *place = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_without_an_answer_may_have_been_run_whatever_is_answered_later() {
        let sent = SentCommands::of(4);
        assert_eq!(sent.not_run(), [0, 1, 2, 3]);
        sent.are_sent(&[0, 1, 2]);
        assert_eq!(sent.not_run(), [3]);
        sent.was_refused(0);
        assert!(sent.is_lost(1) && !sent.is_lost(3) && sent.is_lost(4));
        assert_eq!(sent.not_run(), [0, 3]);
        sent.are_sent(&[0, 1]);
        sent.was_refused(0);
        sent.was_refused(1);
        assert_eq!(sent.not_run(), [0, 3]);
    }
}
