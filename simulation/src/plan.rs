//! What a simulation is about, by its seed.

use std::fmt;
use std::time::Duration;

use spinney::config::{RawServeOptions, ServeOptions};

use super::upstream::Faults;
use super::world::World;

/// Where the forests are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForestStorage {
    /// On the disk of one process.
    Disk,
    /// On a Redis that several processes share.
    Redis,
}

/// The settings of one simulation.
#[derive(Debug, Clone)]
pub(super) struct SimulationPlan {
    pub(super) store: ForestStorage,
    pub(super) processes: usize,
    method: &'static str,
    durability: &'static str,
    pub(super) window: Duration,
    max_tree: Option<u64>,
    pub(super) counts: bool,
    pub(super) writers: u64,
    /// Requests of each writer.
    pub(super) requests: u64,
    pub(super) faults: Faults,
    /// How often a command of Redis is lost, in thousandths.
    pub(super) redis_losses: u64,
    /// Kills, outages and the like.
    pub(super) events: u64,
    /// About how often a snapshot is written, in milliseconds.
    pub(super) snapshots: u64,
    pub(super) is_elasticsearch: bool,
}

impl SimulationPlan {
    pub(super) fn new(world: &World) -> SimulationPlan {
        let store = if world.happens(500) { ForestStorage::Disk } else { ForestStorage::Redis };
        let often = |most: u64| if world.happens(400) { 0 } else { world.below(most) };
        SimulationPlan {
            store,
            processes: if store == ForestStorage::Disk { 1 } else { 1 + world.below(3) as usize },
            method: world.pick::<&str>(&["verified", "verified", "verified", "longest", "staged"]),
            durability: world.pick::<&str>(&["batch", "batch", "interval:1s", "none"]),
            window: Duration::from_secs(*world.pick(&[1_200, 1_800, 3_600])),
            max_tree: world.happens(150).then(|| 1 + world.below(5)),
            counts: world.happens(250),
            writers: 1 + world.below(4),
            requests: 3 + world.below(10),
            faults: Faults {
                lost_before: often(60),
                lost_after: often(60),
                refused: often(60),
                busy: often(100),
                slow: often(20),
            },
            redis_losses: often(20),
            events: world.below(5),
            snapshots: 1_000 + world.below(20_000),
            is_elasticsearch: world.happens(500),
        }
    }

    /// Whether all that was answered is on the disk. If not, a power failure takes documents that only `recover` brings
    /// back, and corrections of groups that documents have followed already.
    pub(super) fn is_durable(&self) -> bool {
        self.store == ForestStorage::Redis || self.durability == "batch"
    }

    /// Whether a kill loses what was written last, though not what the index has of it.
    pub(super) fn gathers_writes(&self) -> bool {
        self.store == ForestStorage::Disk && self.durability == "none"
    }

    /// The options of a process that knows the cluster by this host.
    pub(super) fn options(&self, host: &str) -> ServeOptions {
        let SimulationPlan { method, durability, .. } = self;
        let window = self.window.as_secs();
        let kept = match self.store {
            ForestStorage::Disk => format!("data_dir = \"/data\"\ndurability = \"{durability}\""),
            ForestStorage::Redis => "forest_store = \"redis://simulated\"".to_owned(),
        };
        let counts = if self.counts { "on" } else { "off" };
        let max_tree = self.max_tree.map_or(String::new(), |most| format!("max_tree = \"{most}\""));
        let fields = match *method {
            "staged" => "url_field = \"url\"",
            _ => "",
        };
        let options = format!(
            r#"
            upstream = ["http://{host}:9200"]
            upstream_timeout = "60s"
            forest_memory = "1gb"
            counts = "{counts}"
            {kept}
            [[route]]
            index = ["news-*"]
            text_field = ["content"]
            title_field = "title"
            {fields}
            method = "{method}"
            window = "{window}s"
            {max_tree}
            "#
        );
        let raw: RawServeOptions = toml::from_str(&options).unwrap();
        raw.validate().unwrap()
    }
}

impl fmt::Display for SimulationPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
