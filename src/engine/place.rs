//! The first phase: what was read is placed in order, and its stamps are written.

use super::learned::Learned;
use super::meeting::Meeting;
use super::settle::Held;
use super::trees::Locked;
use super::{Engine, Prepared, Read, RequestContext, Stamped};
use crate::bulk::{Stamp, StampNames};
use crate::config::Clock;
use crate::fingerprint::Fingerprint;
use crate::forest::{Decision, Root};
use crate::method::Features;
use crate::time::Millis;

impl Engine {
    /// Places what was read, in order, under the locks of the forests concerned.
    pub(super) fn place(&self, read: Vec<Read>, call: RequestContext, stamped: &mut Stamped) {
        let mut locks: Vec<_> = self.forests.iter().map(|_| None).collect();
        for wanted in read
            .iter()
            .flat_map(|r| r.objects.iter().flatten())
            .map(|p| self.routes[p.route].forest_of(p.features.as_ref()))
        {
            locks[wanted] = Some(());
        }
        // Always locked in the order of the list: two bulks cannot wait for each other.
        let mut forests: Vec<_> = self
            .forests
            .iter()
            .zip(locks)
            .map(|((_, forest), wanted)| wanted.map(|()| forest.lock()))
            .collect();
        let mut arrivals = Arrivals::default();
        for item in read {
            stamped.tally.unstamped += u64::from(item.unstamped);
            for prepared in item.objects.into_iter().flatten() {
                let bound = &self.routes[prepared.route];
                let at = bound.forest_of(prepared.features.as_ref());
                let Some(forest) = forests[at].as_mut() else {
                    continue;
                };
                let now = time(&bound.route.clock, prepared.date, call, forest.clock());
                stamped.write(&self.names, prepared, at, forest, now, &mut arrivals);
            }
        }
    }
}

impl Stamped {
    /// Places one object and writes its stamp. `now`: `None` where time stands still.
    fn write(
        &mut self,
        names: &StampNames,
        prepared: Prepared,
        forest_at: usize,
        trees: &mut Locked<'_>,
        now: Option<Millis>,
        arrivals: &mut Arrivals,
    ) {
        let Prepared {
            item,
            route,
            object,
            cut,
            mut features,
            partial,
            own_root,
            date: _,
        } = prepared;
        let base = object.start;
        let hashes = features.as_ref().map(Features::hashes).unwrap_or_default();
        let proof = features.as_ref().and_then(Features::proof);
        let placement = features
            .as_mut()
            .and_then(|features| trees.place(features, now.unwrap_or(Millis(0))));
        if let (Some(Features::Staged(staged)), Some(by)) =
            (&features, placement.as_ref().and_then(|placed| placed.0.by))
        {
            self.stages
                .extend(staged.stage(by).map(|stage| (item, stage)));
        }
        let (root, since) = match placement {
            None => {
                self.tally.without_text += 1;
                // The stored document keeps its date, or an update without a change would look like one.
                (Root(Fingerprint(own_root)), now.filter(|_| !partial))
            }
            Some((placement, sentences)) => {
                if !sentences.is_empty() {
                    self.learned.push(Learned {
                        route,
                        object,
                        sentences,
                    });
                }
                if placement.decision == Decision::NewRoot {
                    self.refuse(item, placement.root, &placement.refused);
                } else {
                    self.tally.joined += 1;
                }
                let since = if partial {
                    placement.node_added
                } else {
                    trees.clock()
                };
                if let Some(meetings) = &mut self.meetings {
                    meetings.push(Meeting::of(item, &placement));
                }
                self.placed.held.push(Held {
                    item,
                    forest: forest_at,
                    rollback: placement.rollback,
                });
                (placement.root, now.map(|_| since))
            }
        };
        let stamp = Stamp {
            root: root.0.0,
            hashes: &hashes,
            arrival: since.map(|since| arrivals.text(since)),
            proof: proof.as_deref(),
        };
        match self.splice.stamp(base, &cut, names, &stamp) {
            Ok(()) => self.tally.stamped += 1,
            Err(_) => self.tally.unstamped += 1,
        }
    }
}

/// What time a document has; `None` where time stands still. `clock` is that of its forest.
pub(super) fn time(
    by: &Clock,
    date: Option<Millis>,
    call: RequestContext,
    clock: Millis,
) -> Option<Millis> {
    match by {
        Clock::Arrival => Some(call.now),
        Clock::None => None,
        // A document without a date comes when the one before it came.
        Clock::Field(_) => {
            let clock = Some(clock).filter(|clock| *clock > Millis(i64::MIN));
            date.map(|date| date.min(call.latest)).or(clock)
        }
    }
}

/// Dates as text; neighbours mostly share one.
#[derive(Default)]
struct Arrivals {
    last: Option<(Millis, String)>,
}

impl Arrivals {
    fn text(&mut self, at: Millis) -> &str {
        if self.last.as_ref().is_none_or(|(last, _)| *last != at) {
            self.last = Some((at, crate::time::format_date(at)));
        }
        self.last.as_ref().map_or("", |(_, text)| text)
    }
}
