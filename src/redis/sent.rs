//! Which commands of a round may have been run, whenever the round ends.

use parking_lot::Mutex;

/// The commands of a round, by their positions.
#[derive(Debug)]
pub(super) struct SentCommands(Mutex<Round>);

#[derive(Debug)]
struct Round {
    sent: Vec<Sent>,
    has_ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// Not at all, or each time it was answered with an error that says that it was not run.
    No,
    /// It was not answered yet, or was run.
    Yes,
    /// Once, without an answer: what is answered to it later says nothing of that time.
    WithoutAnswer,
}

impl SentCommands {
    /// So many commands, none of which was sent.
    pub(super) fn of(commands: usize) -> SentCommands {
        SentCommands(Mutex::new(Round { sent: vec![Sent::No; commands], has_ended: false }))
    }

    /// They are about to be sent. False: the round has ended, and they must not be.
    #[must_use]
    pub(super) fn may_be_sent(&self, places: &[usize]) -> bool {
        let mut round = self.0.lock();
        if round.has_ended {
            return false;
        }
        for &at in places {
            round.turn(at, Sent::No, Sent::Yes);
        }
        true
    }

    /// One was answered with an error that says that it was not run.
    pub(super) fn was_refused(&self, at: usize) {
        self.0.lock().turn(at, Sent::Yes, Sent::No);
    }

    /// The answer to one, if it was sent, will not come any more. Whether it may have been run.
    pub(super) fn is_lost(&self, at: usize) -> bool {
        let mut round = self.0.lock();
        round.turn(at, Sent::Yes, Sent::WithoutAnswer);
        round.sent.get(at) != Some(&Sent::No)
    }

    /// Ends the round: nothing is sent from now on, not even by a task that is not stopped yet. The positions of those
    /// that were certainly not run, in order.
    pub(super) fn end(&self) -> Vec<usize> {
        let mut round = self.0.lock();
        round.has_ended = true;
        let each = round.sent.iter().enumerate().filter(|(_, sent)| **sent == Sent::No);
        each.map(|(at, _)| at).collect()
    }
}

impl Round {
    fn turn(&mut self, at: usize, from: Sent, to: Sent) {
        if let Some(place) = self.sent.get_mut(at).filter(|place| **place == from) {
            *place = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_without_an_answer_may_have_been_run_whatever_is_answered_later() {
        let sent = SentCommands::of(4);
        assert!(sent.may_be_sent(&[0, 1, 2]));
        sent.was_refused(0);
        assert!(sent.is_lost(1) && !sent.is_lost(3) && sent.is_lost(4));
        assert!(sent.may_be_sent(&[0, 1]));
        sent.was_refused(0);
        sent.was_refused(1);
        assert_eq!(sent.end(), [0, 3]);
    }

    #[test]
    fn nothing_is_sent_once_it_was_said_what_was_not() {
        let sent = SentCommands::of(2);
        assert!(sent.may_be_sent(&[0]));
        assert_eq!(sent.end(), [1]);
        assert!(!sent.may_be_sent(&[1]));
        assert_eq!(sent.end(), [1]);
    }
}
