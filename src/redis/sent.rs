//! Which commands of a round may have been run, whenever the round ends.

use parking_lot::Mutex;

use crate::forest::shared::keys::{RedisUnavailable, RoundFailed};

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
    /// It was answered that it has pinned a root, and no answer was lost before.
    Pinned,
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

    /// One was answered that it has pinned a root.
    pub(super) fn has_pinned(&self, at: usize) {
        self.0.lock().turn(at, Sent::Yes, Sent::Pinned);
    }

    /// The answer to one, if it was sent, will not come any more. Whether it may have been run.
    pub(super) fn is_lost(&self, at: usize) -> bool {
        let mut round = self.0.lock();
        round.turn(at, Sent::Yes, Sent::WithoutAnswer);
        round.sent.get(at) != Some(&Sent::No)
    }

    /// Ends the round for this reason: nothing is sent from now on, not even by a task that is not stopped yet.
    pub(super) fn end(&self, why: RedisUnavailable) -> RoundFailed {
        let mut round = self.0.lock();
        round.has_ended = true;
        let are = |state| {
            let each = round.sent.iter().enumerate().filter(move |(_, sent)| **sent == state);
            each.map(|(at, _)| at).collect()
        };
        RoundFailed { why, not_run: are(Sent::No), pinned: are(Sent::Pinned) }
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

    fn ended(sent: &SentCommands) -> RoundFailed {
        sent.end(RedisUnavailable::of("the test says so"))
    }

    #[test]
    fn what_was_sent_without_an_answer_may_have_been_run_whatever_is_answered_later() {
        let sent = SentCommands::of(6);
        assert!(sent.may_be_sent(&[0, 1, 2, 4]));
        sent.was_refused(0);
        sent.has_pinned(4);
        assert!(sent.is_lost(1) && sent.is_lost(2) && !sent.is_lost(3) && sent.is_lost(6));
        assert!(sent.may_be_sent(&[0, 1, 2, 5]));
        sent.was_refused(0);
        sent.was_refused(1);
        sent.has_pinned(2);
        let ended = ended(&sent);
        // That of 5 has not come.
        assert_eq!((ended.not_run, ended.pinned), (vec![0, 3], vec![4]));
    }

    #[test]
    fn nothing_is_sent_once_it_was_said_what_was_not() {
        let sent = SentCommands::of(2);
        assert!(sent.may_be_sent(&[0]));
        assert_eq!(ended(&sent).not_run, [1]);
        assert!(!sent.may_be_sent(&[1]));
        assert_eq!(ended(&sent).not_run, [1]);
    }
}
