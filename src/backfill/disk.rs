//! Estimates of disk space and time. An updated document occupies space twice until its segments are merged.

use hyper::Method;
use serde_json::Value;

use super::discovery::RouteIndices;
use crate::cluster::operator::Operator;
use crate::config::values::ByteSize;

/// What stays free on each disk: with less than that, servers move shards away.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reserve {
    /// A part of the disk.
    Share(f64),
    Bytes(f64),
}

impl Reserve {
    /// The default of the servers.
    const DEFAULT: Reserve = Reserve::Share(0.10);

    /// As the settings of a cluster say, which are `transient`, `persistent` and `defaults`, each nested.
    fn of_settings(settings: &Value) -> Reserve {
        let setting = |name: &str| {
            let path = format!("/cluster/routing/allocation/disk/{name}");
            let kinds = ["transient", "persistent", "defaults"].iter();
            kinds.map(|kind| settings[kind].pointer(&path)).find_map(|value| value?.as_str())
        };
        if setting("threshold_enabled") == Some("false") {
            return Reserve::Share(0.0);
        }
        setting("watermark/high").and_then(Reserve::of_watermark).unwrap_or(Reserve::DEFAULT)
    }

    /// `90%` and `0.9` are the part in use; a size is what is left.
    fn of_watermark(high: &str) -> Option<Reserve> {
        let used = match high.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
            None => high.parse::<f64>().ok(),
        };
        match used {
            Some(used) => (0.0..=1.0).contains(&used).then_some(Reserve::Share(1.0 - used)),
            None => high.parse().ok().map(|ByteSize(bytes)| Reserve::Bytes(bytes as f64)),
        }
    }
}

/// Bytes on the disks of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskSpace {
    /// Bytes of the documents that are written again.
    pub(crate) needed: u64,
    /// Free bytes of all nodes, without what stays free.
    pub(crate) free: u64,
}

impl RouteIndices {
    /// Bytes needed to write `unstamped` of `all` documents again, replicas included. `None`: the cluster does not
    /// report sizes.
    pub(crate) async fn space(&self, operator: &Operator, unstamped: u64, all: u64) -> Option<DiskSpace> {
        let path = format!("/{}/_stats/store", self.expression);
        let stats = operator.ask(Method::GET, &path, None).await.ok()?;
        let path = "/_cat/allocation?format=json&bytes=b&h=disk.avail,disk.total";
        let disks = operator.ask(Method::GET, path, None).await.ok()?;
        let path = "/_cluster/settings?include_defaults=true&filter_path=*.cluster.routing.allocation.disk";
        let settings = operator.ask(Method::GET, path, None).await;
        let reserve = settings.map_or(Reserve::DEFAULT, |settings| Reserve::of_settings(&settings));
        let sizes = self.indices.iter().map(|index| {
            let size = &stats["indices"][index]["total"]["store"]["size_in_bytes"];
            size.as_u64().unwrap_or(0)
        });
        let size: u64 = sizes.sum();
        let part = unstamped as f64 / all.max(1) as f64;
        Some(DiskSpace { needed: (size as f64 * part.min(1.0)) as u64, free: free(&disks, reserve)? })
    }

    /// Estimates documents per second from the indexing time of these indices so far. `None` if nothing was indexed
    /// since the nodes were started.
    pub(crate) async fn guess_rate(&self, operator: &Operator) -> Option<f64> {
        let path = format!("/{}/_stats/indexing", self.expression);
        let stats = operator.ask(Method::GET, &path, None).await.ok()?;
        let sum = |name: &str| {
            let each = self.indices.iter().map(|index| {
                let indexing = &stats["indices"][index]["primaries"]["indexing"];
                indexing[name].as_u64().unwrap_or(0)
            });
            each.sum::<u64>()
        };
        let (documents, millis) = (sum("index_total"), sum("index_time_in_millis"));
        (documents > 0 && millis > 0).then(|| documents as f64 * 1000.0 / millis as f64)
    }
}

fn free(disks: &Value, reserve: Reserve) -> Option<u64> {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok());
    let disks = disks.as_array()?.iter();
    // A line without numbers is of unassigned shards.
    let free = disks.filter_map(|disk| {
        let (free, total) = (number(&disk["disk.avail"])?, number(&disk["disk.total"])?);
        let kept = match reserve {
            Reserve::Share(share) => total * share,
            Reserve::Bytes(bytes) => bytes,
        };
        Some((free - kept).max(0.0) as u64)
    });
    let free: Vec<u64> = free.collect();
    (!free.is_empty()).then(|| free.into_iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_free_on_all_disks() {
        let disks = json!([
            {"disk.avail": "500", "disk.total": "1000"},
            {"disk.avail": "50", "disk.total": "1000"},
            {"disk.avail": null, "disk.total": null},
        ]);
        assert_eq!(free(&disks, Reserve::DEFAULT), Some(400));
        assert_eq!(free(&disks, Reserve::Share(0.0)), Some(550));
        assert_eq!(free(&disks, Reserve::Bytes(60.0)), Some(440));
        assert_eq!(free(&json!([]), Reserve::DEFAULT), None);
        assert_eq!(free(&json!({}), Reserve::DEFAULT), None);
    }

    #[test]
    fn what_stays_free_is_what_the_cluster_says() {
        let disk = |disk: Value| json!({"cluster": {"routing": {"allocation": {"disk": disk}}}});
        let of = |persistent: Value| {
            let defaults = disk(json!({"threshold_enabled": "true", "watermark": {"high": "90%"}}));
            Reserve::of_settings(&json!({"persistent": disk(persistent), "defaults": defaults}))
        };
        let of_high = |high: &str| of(json!({"watermark": {"high": high}}));
        assert_eq!(of(json!({"threshold_enabled": "false"})), Reserve::Share(0.0));
        assert_eq!(of_high("75%"), Reserve::Share(0.25));
        assert_eq!(of_high("0.75"), Reserve::Share(0.25));
        assert_eq!(of_high("100%"), Reserve::Share(0.0));
        assert_eq!(of_high("20gb"), Reserve::Bytes((20u64 << 30) as f64));
        for unknown in ["101%", "-1%", "1.1", "NaN", "", "much"] {
            assert_eq!(of_high(unknown), Reserve::DEFAULT, "{unknown}");
        }
        let Reserve::Share(share) = of(json!({})) else { panic!() };
        assert!((share - 0.10).abs() < 1e-9);
        assert_eq!(Reserve::of_settings(&json!({})), Reserve::DEFAULT);
        assert_eq!(Reserve::of_settings(&json!("odd")), Reserve::DEFAULT);
    }
}
