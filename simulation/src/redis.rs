//! Redis as a process sees it: the model of it in memory, slow, away at times, and with replies that get lost.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use spinney::forest::shared::keys::{
    Command, Key, KeySample, RedisClient, RedisFuture, RedisReply, RedisUnavailable, RoundFailed, RoundFuture,
    ScanPosition, SyncEntries, SyncEntry, SyncPosition,
};
use spinney::forest::shared::memory::InMemoryRedis;
use spinney::parts::arrival_at;
use spinney::parts::now;
use spinney::text_fields::{FieldRecord, RoutedFields};
use spinney::time::Millis;

use super::process::Life;
use super::world::{World, pass};

/// Masters among which keys are divided.
const MASTERS: usize = 3;
/// How often a command is sent whose reply is lost.
const ATTEMPTS: u32 = 4;

/// All masters.
pub(super) struct SimRedis {
    pub(super) store: InMemoryRedis,
    is_away: AtomicBool,
    /// How often a command is lost, and a reply, in thousandths.
    pub(super) losses: u64,
}

impl SimRedis {
    pub(super) fn new(losses: u64) -> Arc<SimRedis> {
        Arc::new(SimRedis { store: InMemoryRedis::default(), is_away: AtomicBool::new(false), losses })
    }

    pub(super) fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Relaxed);
    }
}

/// The connections of one process.
#[derive(Clone)]
pub(super) struct Connections {
    pub(super) world: Arc<World>,
    pub(super) life: Life,
    pub(super) redis: Arc<SimRedis>,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connections")
    }
}

impl Connections {
    /// A process that has ended waits for ever.
    async fn lives(&self) {
        if self.life.has_ended() {
            std::future::pending::<()>().await;
        }
    }

    async fn wait(&self) -> Result<(), RedisUnavailable> {
        self.world.pause(2).await;
        self.lives().await;
        self.redis.store.advance(self.world.time());
        match self.away() {
            Some(away) => {
                self.world.count("commands while Redis was away", 1);
                Err(away)
            }
            None => Ok(()),
        }
    }

    /// A round trip for something else than commands.
    fn round<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&InMemoryRedis) -> RedisFuture<T> + Send + 'static,
    ) -> RedisFuture<T> {
        let this = self.clone();
        Box::pin(async move {
            this.wait().await?;
            ask(&this.redis.store).await
        })
    }

    /// `is_sent`: whether it may have been run.
    async fn run_one(&self, command: &Command, is_sent: &mut bool) -> Result<RedisReply, RedisUnavailable> {
        let mut command = command.clone();
        for _ in 0..ATTEMPTS {
            self.wait().await?;
            *is_sent = true;
            let is_lost = self.world.fails(self.redis.losses);
            if is_lost && self.world.happens(500) {
                self.world.count("commands lost", 1);
            } else {
                let reply = self.redis.store.run_one(&command);
                self.world.trace(|| format!("redis: {command:?} {reply:?}"));
                if !is_lost {
                    return Ok(reply);
                }
                self.world.count("replies lost", 1);
            }
            if let Some(assumed) = command.what.reply_if_unknown() {
                return Ok(assumed);
            }
            command.what.send_again();
        }
        Err(RedisUnavailable::of("no answer within 2 s"))
    }
}

impl RedisClient for Connections {
    fn run(&self, commands: Vec<Command>) -> RoundFuture {
        let this = self.clone();
        Box::pin(async move {
            this.world.count("round trips", 1);
            let mut replies: Vec<Option<RedisReply>> = vec![None; commands.len()];
            let mut sent = vec![false; commands.len()];
            // Each master goes on by itself: any order is one of theirs, as long as that of each stays.
            let master = |command: &Command| command.key.fingerprint.0 as usize % MASTERS;
            let mut masters: Vec<Vec<usize>> = vec![Vec::new(); MASTERS];
            for (at, command) in commands.iter().enumerate() {
                masters[master(command)].push(at);
            }
            masters.retain(|of| !of.is_empty());
            masters.iter_mut().for_each(|of| of.reverse());
            while !masters.is_empty() {
                let next = this.world.below(masters.len() as u64) as usize;
                // A few at a time: another process may come in between.
                for _ in 0..=this.world.below(4) {
                    let Some(at) = masters[next].pop() else { break };
                    match this.run_one(&commands[at], &mut sent[at]).await {
                        Ok(reply) => replies[at] = Some(reply),
                        Err(why) => {
                            let not_run = (0..commands.len()).filter(|&at| !sent[at]).collect();
                            let has_pinned = |&at: &usize| {
                                replies[at].as_ref().is_some_and(|reply| commands[at].what.has_pinned(reply))
                            };
                            let pinned = (0..commands.len()).filter(has_pinned).collect();
                            return Err(RoundFailed { why, not_run, pinned });
                        }
                    }
                }
                masters.retain(|of| !of.is_empty());
            }
            Ok(replies.into_iter().flatten().collect())
        })
    }

    fn enroll(&self, name: &str, identity: &str) -> RedisFuture<Result<u8, String>> {
        let (name, identity) = (name.to_owned(), identity.to_owned());
        self.round(move |store| store.enroll(&name, &identity))
    }

    fn declare(&self, name: &str, identity: &str, fields: &FieldRecord) -> RedisFuture<()> {
        let (name, identity, fields) = (name.to_owned(), identity.to_owned(), fields.clone());
        self.round(move |store| store.declare(&name, &identity, &fields))
    }

    fn fields(&self, name: &str) -> RedisFuture<FieldRecord> {
        let name = name.to_owned();
        self.round(move |store| store.fields(&name))
    }

    fn agree_on_fields(&self, name: &str, fields: &RoutedFields) -> RedisFuture<Result<(), String>> {
        let (name, fields) = (name.to_owned(), fields.clone());
        self.round(move |store| store.agree_on_fields(&name, &fields))
    }

    fn forests(&self) -> RedisFuture<Vec<(String, u8, String)>> {
        self.round(InMemoryRedis::forests)
    }

    fn keys(&self, forest: u8, place: ScanPosition) -> RedisFuture<(Vec<Key>, Option<ScanPosition>)> {
        self.round(move |store| store.keys(forest, place))
    }

    fn sync_entries(&self, forest: u8, lesson: Option<SyncEntry>, from: SyncPosition) -> RedisFuture<SyncEntries> {
        self.round(move |store| store.sync_entries(forest, lesson, from))
    }

    fn remove_sync_entries(&self, forest: u8) -> RedisFuture<()> {
        self.round(move |store| store.remove_sync_entries(forest))
    }

    fn size(&self) -> RedisFuture<(usize, usize)> {
        self.round(InMemoryRedis::size)
    }

    fn sample(&self, forest: u8, seed: u64) -> RedisFuture<KeySample> {
        self.round(move |store| store.sample(forest, seed))
    }

    fn spawn(&self, job: Pin<Box<dyn Future<Output = ()> + Send>>) {
        // Without a runtime the simulation is over.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let life = self.life.clone();
        runtime.spawn(async move {
            tokio::select! {
                biased;
                () = life.ended() => {}
                () = job => {}
            }
        });
    }

    fn pause(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(pass(time))
    }

    fn arrival(&self, claimed: Millis) -> Millis {
        arrival_at(now(), claimed)
    }

    fn now(&self) -> Millis {
        now()
    }

    fn uptime(&self) -> Duration {
        self.world.elapsed()
    }

    fn away(&self) -> Option<RedisUnavailable> {
        self.redis.is_away.load(Relaxed).then(|| RedisUnavailable::of("it is away"))
    }
}
