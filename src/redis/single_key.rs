//! Requests on one key outside of forest commands: the registry, and the logs of lessons.

use redis::{Pipeline, Value};

use super::connections::{Connections, PAUSE, TRIES};
use super::error_hints::away;
use super::pipeline::{self, CommandReply};
use super::sleep;
use crate::forest::shared::keys::RedisUnavailable;

impl Connections {
    /// Sends commands together to the node that has their key, and to another one where the key has moved. Returns
    /// their replies, of which only the first is known to be no error. `again`: they may be sent again after a
    /// connection was lost.
    pub(super) async fn on_key(
        &self,
        key: &[u8],
        commands: &Pipeline,
        again: bool,
    ) -> Result<Vec<Value>, RedisUnavailable> {
        let mut last = RedisUnavailable::of("Redis does not say which node has the key");
        let mut asked = None;
        for attempt in 0..TRIES {
            if attempt > 0 && asked.is_none() {
                sleep(PAUSE).await;
            }
            let nodes = self.nodes().await?;
            let Some(owner) = nodes.each.get(nodes.node_of(key)) else {
                break;
            };
            let asked_node = asked.take().and_then(|host: String| self.node(&host));
            let node = asked_node.as_ref().unwrap_or(owner);
            let sent = match asked_node {
                Some(_) => node.send_asking(commands).await,
                None => node.send(commands).await,
            };
            let values: Vec<Value> = match sent {
                Ok(values) => values,
                Err(error) => {
                    self.forget_nodes().await;
                    last = away(error);
                    if again {
                        continue;
                    }
                    return Err(last);
                }
            };
            // If the first command was not executed, none was.
            let Some(Value::ServerError(error)) = values.first() else {
                return Ok(values);
            };
            match pipeline::read(Value::ServerError(error.clone())) {
                CommandReply::Denied(reason) | CommandReply::Failed(reason) => {
                    return Err(RedisUnavailable::of(reason));
                }
                CommandReply::Unusable(reason) => return Err(RedisUnavailable::of_key(reason)),
                CommandReply::Full(reason) => return Err(RedisUnavailable::full(reason)),
                CommandReply::Ask(host) => asked = Some(host),
                CommandReply::Unknown => node.load().await.map_err(away)?,
                CommandReply::Elsewhere => self.forget_nodes().await,
                CommandReply::Later | CommandReply::Done(_) => {}
            }
            last = RedisUnavailable::of("the key is on its way to another node");
        }
        Err(last)
    }
}
