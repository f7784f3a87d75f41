//! Forests that several processes share by a Redis: what the engine does with single keys, forests that race each other,
//! several sidecars in front of one search server, and what breaks under them.

mod alone;
mod carry;
mod faults;
mod keys;
mod load;
mod near;
mod race;
mod sidecars;

use std::sync::Arc;

use spinney::forest::shared::keys::KeyStore;
use spinney::keystore::{Address, RedisStore};

use crate::common::redis::Redis;

fn store(redis: &Redis) -> Arc<dyn KeyStore> {
    let address = Address::parse(&redis.url()).unwrap();
    Arc::new(RedisStore::new(address, None).unwrap())
}
