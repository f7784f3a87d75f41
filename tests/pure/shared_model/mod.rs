//! The protocol of `docs/shared-forest.md`, searched: every order of every command of two and three sidecars, breadth
//! first, with crashes, expiry, lost replies and lost writes at any moment. And simpler protocols, each of which the
//! search refutes.
//!
//! `store` has the keys and what a command does to one; `law` decides; `sidecar` is the protocol; `world` is all of it
//! at one moment; `search` goes through the states. Scenarios are in `scenarios`; `near` is for methods with a
//! distance, `dated` for documents with dates.
//!
//! The states of a scenario are bounded, so that all of it takes less than a minute; with
//! `SPINNEY_MODEL_STATES=30000000` nearly all scenarios are searched to their ends.

mod dated;
mod explore;
mod law;
mod near;
mod scenarios;
mod search;
mod sidecar;
mod store;
mod world;

use scenarios::{AGEING, Faults, Scenario, THREE, TWO, Variant};
use search::{Found, Search};

const NONE: Faults = Faults { crashes: 0, expiries: 0, ticks: 0, losses: 0, vanishes: 0, reverts: 0 };

fn states(usual: usize) -> usize {
    let set = std::env::var("SPINNEY_MODEL_STATES");
    set.ok().and_then(|set| set.parse().ok()).unwrap_or(usual)
}

/// Searches all scenarios, of which none may show anything wrong; what was found of all of them.
fn hold(name: &str, scenarios: &[Scenario], faults: Faults, most: usize) -> Found {
    let mut all = Found::default();
    for scenario in scenarios {
        let variant = Variant::Whole;
        let found = Search { scenario, variant, faults, most: states(most) }.run();
        let short = if found.is_cut_short { ", cut short" } else { "" };
        eprintln!(
            "{name}, {}: {} states, {} ends, {} of them apart, dead {}, provisional {}{short}",
            scenario.name, found.states, found.ends, found.splits, found.dead, found.provisional
        );
        if let Some(wrong) = &found.wrong {
            panic!("{name}, {}: {wrong}", scenario.name);
        }
        all.states += found.states;
        all.ends += found.ends;
        all.splits += found.splits;
        all.dead = all.dead.max(found.dead);
        all.provisional = all.provisional.max(found.provisional);
    }
    assert!(all.ends > 0, "{name}: no end was seen");
    all
}

#[test]
fn two_sidecars_in_any_order() {
    let all = hold("two", TWO, NONE, 100_000);
    assert_eq!(all.provisional, 0, "without a crash no provisional root stays");
    assert!(all.dead <= 1);
}

#[test]
fn three_sidecars() {
    let all = hold("three", THREE, NONE, 80_000);
    assert_eq!(all.provisional, 0, "without a crash no provisional root stays");
}

#[test]
fn a_crash_at_any_moment() {
    let all = hold("crash", TWO, Faults { crashes: 1, ..NONE }, 60_000);
    assert!(all.provisional > 0, "a crash was to leave something");
    assert!(all.dead <= 2);
}

#[test]
fn a_lease_that_runs_out_at_any_moment() {
    hold("lease", TWO, Faults { expiries: 1, ..NONE }, 60_000);
}

#[test]
fn a_window_that_moves() {
    hold("ageing", AGEING, Faults { expiries: 2, ticks: 1, ..NONE }, 120_000);
}

#[test]
fn a_crash_while_the_window_moves() {
    hold("ageing, crash", AGEING, Faults { crashes: 1, expiries: 1, ticks: 1, ..NONE }, 80_000);
}

#[test]
fn a_reply_that_does_not_come() {
    hold("reply", TWO, Faults { losses: 1, ..NONE }, 60_000);
}

/// What no protocol on such a store can keep from happening: documents that belong together are apart. It always comes
/// to an end, and what is left goes with its time.
#[test]
fn a_write_that_a_failover_loses() {
    let vanished = hold("vanish", TWO, Faults { vanishes: 1, ..NONE }, 50_000);
    let reverted = hold("revert", TWO, Faults { reverts: 1, ..NONE }, 50_000);
    assert!(vanished.splits > 0 && reverted.splits > 0, "a lost write does nothing, so nothing was lost");
}

#[test]
fn what_is_left_out_is_missed() {
    use Variant::{
        ConfirmAfterKill, ConfirmedFirst, ConfirmsByValue, DropsLeaves, JoinerIsDone, JoinerLooksOnce, LeavesWithRoot,
        NoKill, NoLookAgain, NoPin, OneHop, RepeatsRootClaim, RootsNotReadAgain, SameToken, WholeWithLeaves,
    };
    let reply = Faults { losses: 1, ..NONE };
    // Two roots for one story, or documents together as no order of them would put them.
    let apart = "";
    let one_text = "are the same text";
    let cases: &[(Variant, &[Scenario], &str, Faults, &str)] = &[
        (NoLookAgain, TWO, "crossed", NONE, apart),
        (NoKill, TWO, "one shared of three", NONE, apart),
        (LeavesWithRoot, TWO, "one shared of three", NONE, apart),
        (ConfirmAfterKill, TWO, "one shared of three", NONE, apart),
        (RootsNotReadAgain, TWO, "two and one", NONE, apart),
        (OneHop, TWO, "a founder is refused while another joins", reply, apart),
        (SameToken, TWO, "one shared of three", NONE, apart),
        (NoPin, TWO, "a founder is refused while another joins", NONE, "is not there"),
        (JoinerIsDone, TWO, "copies between two trees", NONE, one_text),
        (WholeWithLeaves, THREE, "a text twice, and one that it alone sees", NONE, one_text),
        (JoinerLooksOnce, THREE, "a text twice that takes one node, and one that it alone sees", NONE, one_text),
        (ConfirmedFirst, TWO, "a founder is refused while another joins", reply, apart),
        (DropsLeaves, TWO, "a joiner is refused, its copy comes twice", NONE, one_text),
        (RepeatsRootClaim, TWO, "one shared of three", reply, apart),
        (ConfirmsByValue, TWO, "two and one", reply, apart),
    ];
    for &(variant, scenarios, name, faults, said) in cases {
        let scenario = scenarios.iter().find(|scenario| scenario.name == name).expect("a scenario");
        let found = Search { scenario, variant, faults, most: 1_000_000 }.run();
        let wrong = found.wrong.unwrap_or_else(|| panic!("{variant:?} was not refuted by {name}"));
        let first = wrong.lines().next().unwrap_or_default();
        eprintln!("{variant:?}: {first} after {} states and {} steps", found.states, steps(&wrong));
        assert!(wrong.contains(said), "{variant:?}: {wrong}");
    }
}

/// Of a trace, the number of its last step.
fn steps(trace: &str) -> usize {
    let number = |line: &str| line.split_whitespace().next()?.parse().ok();
    trace.lines().filter_map(number).max().unwrap_or_default()
}
