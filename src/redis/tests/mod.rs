//! Tests with real servers.

mod equivalence;
mod faults;
#[allow(dead_code, unreachable_pub, reason = "the servers of the tests of whole processes, which use all of it")]
#[path = "../../../tests/servers/common/locks.rs"]
mod locks;
#[allow(dead_code, unreachable_pub, reason = "as above")]
#[path = "../../../tests/servers/common/redis.rs"]
mod servers;
#[allow(dead_code, unreachable_pub, reason = "as above")]
#[path = "../../../tests/servers/common/waiting.rs"]
mod waiting;

use waiting::{scratch, wait_until};
