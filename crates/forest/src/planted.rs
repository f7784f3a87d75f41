//! Faults that tests plant in the code, one at a time. The state search of shared forests and the simulation have to find
//! them, which shows that they look at all; outside of tests `planted!` is `false`.

#[cfg(not(test))]
macro_rules! planted {
    ($fault:ident) => {
        false
    };
}

#[cfg(test)]
macro_rules! planted {
    ($fault:ident) => {
        $crate::planted::is_planted($crate::planted::Fault::$fault)
    };
}

pub(crate) use planted;

/// What is left out, or done in another order.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A founder confirms without a recheck.
    NoRecheck,
    /// It leaves the provisional trees of others alone.
    NoKill,
    /// Leaves are claimed before their root.
    LeavesBeforeRoot,
    /// A founder that has removed others confirms in the same round trip.
    ConfirmsWithKill,
    /// All attempts to found have one token.
    SameToken,
    /// A joiner reads the root and does not pin it.
    NoPin,
    /// A joiner does not check for its own text.
    JoinerIsDone,
    /// A joiner claims the hash of its text with the other leaves.
    TextWithLeaves,
    /// A joiner that loses a leaf stays.
    LoserStays,
    /// A refused document takes its leaves away from a tree that stays.
    DropsLeaves,
    /// A confirmation expects the bytes that were claimed.
    ConfirmsByValue,
    /// An accepted document leaves its leaves as they are.
    NoTouch,
    /// New nodes are not named in their buckets.
    NotEntered,
    /// A root is named in its buckets with its confirmation.
    EnteredLast,
    /// The root of a leaf that was read before is not read again.
    RootsNotReadAgain,
    /// A root that has become a leaf is not followed.
    OneHop,
    /// A confirmed tree is taken although a provisional one is of the very text.
    ConfirmedFirst,
    /// The claim of a root is sent again when its reply is lost.
    RepeatsClaim,
    /// A document sets the arrival of its tree, also back.
    GoesBack,
    /// A sweep removes what had expired when it was read, whatever it is by then.
    SweepsByKey,
    /// A leaf that was removed before its document was accepted is not put back.
    NoPutBack,
    /// New nodes are not named in one of their buckets.
    NotEnteredInOne,
    /// The overrides are read with the first documents only.
    OverridesReadOnce,
    /// A process acknowledges the overrides that it has read, not those that its documents follow.
    AcknowledgesRead,
    /// A process reads overrides before it is registered.
    NotAnnounced,
    /// A change replaces the overrides, whatever they are by then.
    ReplacesOverrides,
    /// The journal is written and not synced.
    NoSync,
    /// The new name of a complete file is not synced.
    NameNotSynced,
    /// The torn end of a journal stays.
    TornEndStays,
    /// A snapshot counts before the journal that it has seen is synced.
    SnapshotBeforeJournal,
    /// Changes count before they are durable.
    NotDurable,
    /// Overrides are not written to the journal.
    OverridesNotStored,
    /// Accepted documents of unverified writers are not placed once their forest is back.
    NotPostponed,
    /// Nodes of refused documents stay.
    NoWithdrawal,
    /// An item that the cluster was too busy for counts as accepted.
    BusyIsAccepted,
    /// Documents of unknown outcome are not looked for.
    UnknownNotSought,
    /// A start does not read what the index has and the disk has not.
    NoCatchUp,
    /// Stored documents that changed meanwhile are passed over by restamping.
    ChangedIsRestamped,
    /// Requests leave their bytes in the budget.
    BudgetLeaks,
}

#[cfg(test)]
impl Fault {
    /// Those that `scripts/simulate --fault` takes.
    const SIMULATED: [Fault; 24] = [
        Fault::NoSync,
        Fault::NameNotSynced,
        Fault::TornEndStays,
        Fault::SnapshotBeforeJournal,
        Fault::NotDurable,
        Fault::OverridesNotStored,
        Fault::NotPostponed,
        Fault::NoWithdrawal,
        Fault::BusyIsAccepted,
        Fault::UnknownNotSought,
        Fault::NoCatchUp,
        Fault::ChangedIsRestamped,
        Fault::BudgetLeaks,
        Fault::SameToken,
        Fault::NoPin,
        Fault::JoinerIsDone,
        Fault::LoserStays,
        Fault::DropsLeaves,
        Fault::NoRecheck,
        Fault::LeavesBeforeRoot,
        Fault::AcknowledgesRead,
        Fault::ReplacesOverrides,
        Fault::OverridesReadOnce,
        Fault::RepeatsClaim,
    ];

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Fault> {
        Fault::SIMULATED.into_iter().find(|fault| format!("{fault:?}") == name)
    }
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn is_planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Plants a fault on this thread while a job runs.
#[cfg(test)]
pub(crate) fn with_fault<R>(fault: Fault, job: impl FnOnce() -> R) -> R {
    planting(Some(fault), job)
}

/// Runs a job on this thread as if no fault were planted.
#[cfg(test)]
pub(crate) fn without_fault<R>(job: impl FnOnce() -> R) -> R {
    planting(None, job)
}

#[cfg(test)]
fn planting<R>(fault: Option<Fault>, job: impl FnOnce() -> R) -> R {
    let before = PLANTED.replace(fault);
    let done = job();
    PLANTED.set(before);
    done
}
