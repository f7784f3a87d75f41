//! Estimates of disk space and time. An updated document occupies space twice until its segments are merged.

use hyper::Method;
use serde_json::Value;

use super::discovery::RouteIndices;
use crate::cluster::operator::Operator;

/// Part of each disk that stays free: beyond it servers move shards away by default.
const KEPT_FREE: f64 = 0.10;

/// Bytes on the disks of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskSpace {
    /// Bytes of the documents that are written again.
    pub(crate) needed: u64,
    /// Free bytes of all nodes, without the part that stays free.
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
        let sizes = self.indices.iter().map(|index| {
            let size = &stats["indices"][index]["total"]["store"]["size_in_bytes"];
            size.as_u64().unwrap_or(0)
        });
        let size: u64 = sizes.sum();
        let part = unstamped as f64 / all.max(1) as f64;
        Some(DiskSpace { needed: (size as f64 * part.min(1.0)) as u64, free: free(&disks)? })
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

fn free(disks: &Value) -> Option<u64> {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok());
    let disks = disks.as_array()?.iter();
    // A line without numbers is of unassigned shards.
    let free = disks.filter_map(|disk| {
        let (free, total) = (number(&disk["disk.avail"])?, number(&disk["disk.total"])?);
        Some((free - total * KEPT_FREE).max(0.0) as u64)
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
        assert_eq!(free(&disks), Some(400));
        assert_eq!(free(&json!([])), None);
        assert_eq!(free(&json!({})), None);
    }
}
