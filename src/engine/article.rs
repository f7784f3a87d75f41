//! Places an article that is not stored by the cluster, for the docId endpoint.

use std::sync::Arc;

use bytes::Bytes;

use super::{Engine, RequestContext, StampError, Unavailable, Write};
use crate::bulk::Op;
use crate::forest::Root;
use crate::method::Stage;

/// Placement of an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StampedArticle {
    /// Its tree.
    pub root: Root,
    /// The stage that found the tree, for the method `staged`; `None`: it founded it.
    pub stage: Option<Stage>,
}

impl Engine {
    /// Places an article, one JSON object, by the route of this index. It counts at once, because nothing can refuse
    /// it any more. `None` if it has no field of the route, or no route matches the index.
    ///
    /// # Errors
    /// As [`parse_and_stamp`](Engine::parse_and_stamp).
    pub async fn place_article(
        self: &Arc<Self>,
        article: Bytes,
        index: &str,
        context: RequestContext,
    ) -> Result<Option<StampedArticle>, StampError> {
        let write = Write::Document { op: Op::Index, index: index.to_owned(), id: None };
        let context = RequestContext { caller: None, ..context };
        let mut stamped = self.parse_and_stamp(article, write, context).await?;
        if stamped.tally().local_fallback > 0 {
            // Without a placement nothing would ever settle it.
            self.forests.withdraw(stamped.take_placed());
            let reason = "an article is given no root that is of one process alone";
            return Err(Unavailable::Away { forest: index.to_owned(), reason: reason.into() }.into());
        }
        let stage = stamped.stages().first().map(|&(_, stage)| stage);
        let root = stamped.take_placed().first_root();
        Ok(root.map(|root| StampedArticle { root, stage }))
    }
}
