//! What breaks under load: every document is stored once, copies that come afterwards have one root, and the stories
//! that are in two are counted. Without lost writes there are none.

use super::load::{Stand, tell};
use crate::common::Waiting;
use crate::common::cable::Cable;
use crate::common::redis::Redis;

#[tokio::test]
async fn a_sidecar_that_is_killed_puts_no_story_into_two() {
    let (stand, redis) = (Stand::new("killed").await, Redis::cluster(3));
    let mut sidecars = [(); 3].map(|()| stand.serve(&redis.url(), &[]));
    let load = stand.load(&sidecars).await;
    load.has_stored(0.4).await;
    load.goes_on();
    sidecars[0].kill9();
    let seen = stand.is_whole(load).await;
    tell("sidecar killed", &seen, &[]);
    assert_eq!((seen.apart, seen.marked), (0, 0), "{seen:?}");
    stand.holds_the_law(&[&sidecars[1], &sidecars[2]]).await;
    stand.end().await;
}

#[tokio::test]
async fn a_replica_that_is_killed_changes_nothing() {
    let (stand, mut redis) = (Stand::new("replica").await, Redis::replicated(3, 1));
    let sidecars = [(); 3].map(|()| stand.serve(&redis.url(), &[]));
    let load = stand.load(&sidecars).await;
    load.has_stored(0.4).await;
    load.goes_on();
    redis.kill_a_replica();
    let seen = stand.is_whole(load).await;
    tell("replica killed", &seen, &[]);
    assert_eq!((seen.apart, seen.marked), (0, 0), "{seen:?}");
    stand.holds_the_law(&sidecars.each_ref()).await;
    stand.end().await;
}

#[tokio::test]
async fn a_master_that_is_killed_loses_no_document() {
    let redis = Redis::replicated(3, 1);
    a_master_fails("master killed", redis, Redis::kill_a_master).await;
}

#[tokio::test]
async fn a_master_that_hangs_and_comes_back_as_a_replica_loses_no_document() {
    let redis = Redis::replicated(3, 1);
    a_master_fails("master hangs", redis, |redis| redis.freeze_a_master()).await;
}

#[tokio::test]
async fn sentinels_lead_to_the_new_master() {
    let redis = Redis::behind_sentinels(None);
    a_master_fails("Sentinels", redis, Redis::kill_a_master).await;
}

async fn a_master_fails(name: &str, mut redis: Redis, fails: impl FnOnce(&mut Redis)) {
    let stand = Stand::new(&name.to_lowercase().replace(' ', "-")).await;
    let sidecars = [(); 3].map(|()| stand.serve(&redis.url(), &[]));
    let load = stand.load(&sidecars).await;
    load.has_stored(0.4).await;
    load.goes_on();
    fails(&mut redis);
    let seen = stand.is_whole(load).await;
    // What was not replicated yet: never more than came within a moment.
    assert!(seen.apart <= 20 && seen.marked == 0, "{seen:?}");
    stand.holds_the_law(&sidecars.each_ref()).await;
    let again = stand.stamped_again(&redis.url()).await;
    tell(name, &seen, &[("apart_when_stamped_again", again.apart)]);
    stand.end().await;
}

/// The network between one sidecar and Redis drops everything for a while, and what it held comes late.
#[tokio::test]
async fn a_sidecar_without_its_network_puts_no_story_into_two() {
    let (stand, redis) = (Stand::new("cut").await, Redis::start());
    let cable = Cable::to(redis.port());
    let behind = format!("redis://127.0.0.1:{}", cable.port);
    let url = redis.url();
    let sidecars = [&behind, &url, &url].map(|store| stand.serve(store, &[]));
    let load = stand.load(&sidecars).await;
    load.has_stored(0.3).await;
    cable.cut(true);
    // The others go on, with the writer of the one that was cut off.
    load.has_stored(0.6).await;
    load.goes_on();
    cable.cut(false);
    let seen = stand.is_whole(load).await;
    tell("network of one cut", &seen, &[]);
    assert_eq!((seen.apart, seen.marked), (0, 0), "{seen:?}");
    stand.holds_the_law(&sidecars.each_ref()).await;
    stand.end().await;
}

/// The same, where that sidecar goes on alone.
#[tokio::test]
async fn what_a_sidecar_without_its_network_places_alone_is_put_right() {
    let (stand, redis) = (Stand::new("cut-alone").await, Redis::start());
    let cable = Cable::to(redis.port());
    let behind = format!("redis://127.0.0.1:{}", cable.port);
    let url = redis.url();
    let alone = ["--on-redis-failure", "local"];
    let sidecars = [
        stand.serve(&behind, &alone),
        stand.serve(&url, &alone),
        stand.serve(&url, &[&alone[..], &["--sweep", "200ms"]].concat()),
    ];
    let load = stand.load(&sidecars).await;
    load.has_stored(0.1).await;
    cable.cut(true);
    let waiting = Waiting::until("something is placed alone");
    while stand.placed_alone(&sidecars[0]).await == 0 {
        waiting.pause().await;
    }
    load.goes_on();
    cable.cut(false);
    stand.is_whole(load).await;
    let seen = stand.swept().await;
    let alone = stand.placed_alone(&sidecars[0]).await;
    tell("network of one cut, alone", &seen, &[("documents_local_fallback", alone)]);
    assert!(alone > 0, "nothing was placed alone");
    assert_eq!((seen.apart, seen.marked), (0, 0), "{seen:?}");
    stand.holds_the_law(&sidecars.each_ref()).await;
    stand.end().await;
}

/// What was stored before knows nothing of what comes afterwards, so a story may be in two; stamped again, it is in
/// one.
#[tokio::test]
async fn a_redis_that_comes_back_empty_is_healed_by_stamping_again() {
    let (stand, mut redis) = (Stand::new("empty").await, Redis::start());
    let sidecars = [(); 3].map(|()| stand.serve(&redis.url(), &[]));
    let load = stand.load(&sidecars).await;
    load.has_stored(0.4).await;
    load.goes_on();
    redis.restart_empty();
    let seen = stand.is_whole(load).await;
    assert_eq!(seen.marked, 0, "{seen:?}");
    stand.holds_the_law(&sidecars.each_ref()).await;
    let again = stand.stamped_again(&redis.url()).await;
    tell("Redis restarted empty", &seen, &[("apart_when_stamped_again", again.apart)]);
    assert_eq!(again.apart, 0, "{again:?}");
    stand.end().await;
}

#[tokio::test]
async fn a_master_that_comes_back_empty_loses_no_document() {
    let (stand, mut redis) = (Stand::new("part-empty").await, Redis::cluster(3));
    let sidecars = [(); 3].map(|()| stand.serve(&redis.url(), &[]));
    let load = stand.load(&sidecars).await;
    load.has_stored(0.4).await;
    load.goes_on();
    redis.restart_a_master_empty();
    let seen = stand.is_whole(load).await;
    assert_eq!(seen.marked, 0, "{seen:?}");
    stand.holds_the_law(&sidecars.each_ref()).await;
    let again = stand.stamped_again(&redis.url()).await;
    tell("a master restarted empty", &seen, &[("apart_when_stamped_again", again.apart)]);
    stand.end().await;
}
