//! Reads nodes: first the requested ones, then the roots that they refer to.

use std::collections::BTreeSet;
use std::sync::Arc;

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::MethodKind;

use super::SharedInner;
use super::keys::{KeyKind, KeyOp, RedisReply};
use super::layout::{read_bucket, read_founder_tokens};
use super::overrides::since;
use super::read_set::{MissingKeys, ReadValues};
use crate::port::Unavailable;

impl<F: MethodKind> SharedInner<F> {
    pub(super) fn has_founder_tokens(&self) -> bool {
        F::KEEPS_FOUNDER_TOKENS && self.settings.founder_token_bytes > 0
    }

    /// Reads missing nodes, and the root of every leaf after the leaf, even if it was read before. Such a root may
    /// have become a leaf meanwhile, since its founder gave way to another tree; then its root is read too, until two
    /// reads agree. Otherwise a live leaf would be taken for a dead one.
    pub(super) async fn fetch(
        self: &Arc<Self>,
        read: &mut ReadValues<F::Proof>,
        missing: MissingKeys,
    ) -> Result<(), Unavailable> {
        let mut due: BTreeSet<Fingerprint> = missing.nodes;
        let mut founder_tokens: BTreeSet<Fingerprint> = missing.founder_tokens;
        let mut buckets: BTreeSet<Fingerprint> = missing.buckets;
        // The clock, by which nodes expire, and the overrides are read along.
        let mut reads_clock = self.calendar.is_dated;
        let mut known = Some(self.known_overrides.known());
        while !due.is_empty() || !founder_tokens.is_empty() || !buckets.is_empty() {
            let get = |kind| move |&fingerprint: &Fingerprint| (kind, fingerprint, KeyOp::Get);
            let clock = self.read_clock().filter(|_| reads_clock);
            let overrides = known.as_deref().map(since);
            let commands = clock.into_iter().chain(overrides);
            let commands = commands.chain(due.iter().map(get(KeyKind::Node)));
            let commands = commands.chain(founder_tokens.iter().map(get(KeyKind::FounderTokens)));
            let commands = commands.chain(buckets.iter().map(get(KeyKind::Bucket)));
            let mut replies = self.run_all(commands.collect()).await?;
            if std::mem::take(&mut reads_clock) {
                self.refresh_clock(replies.next());
            }
            if let Some(known) = known.take() {
                self.refresh_overrides(known, replies.next()).await?;
            }
            let mut next = BTreeSet::new();
            for fingerprint in due {
                let reply = replies.next();
                if reply == Some(RedisReply::Unusable) {
                    read.put_unusable(fingerprint);
                    continue;
                }
                let is_news = read.put(fingerprint, reply.and_then(bytes));
                if is_news && read.is_unreadable(fingerprint) {
                    self.unreadable(KeyKind::Node, fingerprint);
                }
                if let Some(leaf) = read.leaf(fingerprint).filter(|_| is_news) {
                    next.insert(leaf.root.0);
                }
            }
            for root in founder_tokens {
                let found = replies.next().and_then(bytes);
                let founder_tokens = found.as_deref().and_then(read_founder_tokens);
                if found.is_some() && founder_tokens.is_none() {
                    self.unreadable(KeyKind::FounderTokens, root);
                }
                read.put_founder_tokens(root, founder_tokens);
            }
            for bucket in std::mem::take(&mut buckets) {
                let found = replies.next().and_then(bytes).unwrap_or_default();
                let names = read_bucket(&found);
                if names.is_none() {
                    self.unreadable(KeyKind::Bucket, bucket);
                }
                read.put_bucket(bucket, names.unwrap_or_default());
            }
            founder_tokens = match self.has_founder_tokens() {
                true => {
                    let roots = read.roots().chain(next.iter().copied());
                    roots.filter(|root| !read.has_founder_tokens(*root)).collect()
                }
                false => BTreeSet::new(),
            };
            due = next;
        }
        Ok(())
    }
}

fn bytes(reply: RedisReply) -> Option<Vec<u8>> {
    match reply {
        RedisReply::Bytes(bytes) => Some(bytes),
        RedisReply::Nothing | RedisReply::Number(_) | RedisReply::Unusable => None,
    }
}
