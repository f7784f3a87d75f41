//! Trees that are no text of anybody's: what stands around articles, and giants.

use std::sync::Arc;

use futures_executor::block_on;
use spinney_text::fingerprint::{Distance, Fingerprint};
use spinney_text::hash::HashKey;
use spinney_text::method::{
    Attributes, Features, LearnedText, Method, Refusal, Strict, StrictFeatures, TallyEntry, Verified, Workspace,
};
use spinney_text::text::Fields;

use crate::document::{DocumentTime, ForestDocument};
use crate::local::{Executor, ForestState, LocalForest};
use crate::port::{Batch, Commit, EarlierDocuments, ForestPort, ItemOutcome, RootAssignment};
use crate::time::Millis;
use crate::{Decision, Root, Settings, TreeNotice, TreeSize};

const SETTINGS: Settings = Settings { k: Distance(0), window: None, key: HashKey::FIXED };

/// Some 200 letters under which no headline belongs.
const NOTICE: &str = "本网站转载此文仅为传递更多信息之目的,并不意味着赞同其观点或证实其描述。文章内容仅供参考,不构成任何投资建议,投资者据此操作,\
    风险自行承担。如涉及作品版权等问题,请在三十日内与本网站联系,我们将在第一时间删除。未经书面授权,任何媒体不得复制、转贴或以其他方式使用本网站所登载的全部作品,违者将依法追究其责任。";

/// Some 70.
const ROW: &str = "您需要登录之后才可以回帖,还没有账号的用户请先免费注册,忘记密码的用户可以通过绑定的手机或者邮箱找回,谢谢您的支持与配合。";

/// A short notice that is news.
const NEWS: &str = "记者今天从市水务局获悉,城北新建的柳溪水厂将于下月初正式通水,届时可满足周边约六万户居民的日常用水。为配合管网切换,\
    花园路和工人新村一带将在本周六夜间停水四个小时,水务部门提醒居民提前储水,并为老人和行动不便的住户安排了送水车。";

const TITLES: [&str; 8] = [
    "木雕店深夜起火 消防员两小时扑灭",
    "高考前如何缓解孩子的紧张情绪",
    "三款电动汽车续航横向对比评测",
    "老渔民捡到漂流瓶 里面藏着情书",
    "冰球队逆转夺冠 教练激动落泪",
    "七旬裁缝坚守旗袍手艺四十年",
    "天文爱好者拍到罕见双彗星同框",
    "古桥修缮完工 石狮重新归位",
];

fn document(title: &str, body: &str) -> ForestDocument {
    let fields = Fields { title: Some(title).filter(|title| !title.is_empty()), body: &[body] };
    let features = Method::Verified.read_with(&fields, Attributes::default(), &mut Workspace::default());
    assert!(features.is_some());
    ForestDocument {
        features,
        when: DocumentTime::At(Millis(0)),
        title: fields.title.map(|title| title.len() as u32 * 7919 + u32::from(title.as_bytes()[2])),
        id: Default::default(),
        given: None,
    }
}

fn state() -> ForestState<Verified> {
    ForestState::new(SETTINGS, Default::default(), LearnedText::default()).unwrap()
}

fn place(state: &mut ForestState<Verified>, title: &str, body: &str) -> RootAssignment {
    state.place(document(title, body)).placed.unwrap()
}

fn roots(state: &mut ForestState<Verified>, body: &str) -> Vec<Root> {
    let titles = TITLES.iter();
    titles.map(|title| place(state, title, body).root).collect()
}

#[test]
fn a_row_under_another_title_is_another_text() {
    let mut state = state();
    let mut roots = roots(&mut state, ROW);
    roots.sort_unstable();
    roots.dedup();
    assert_eq!(roots.len(), TITLES.len());
    assert_eq!(state.forest().stats().page_chrome_trees, 0);
    let again = place(&mut state, TITLES[3], ROW);
    assert_eq!(again.decision, Decision::Refreshed);
}

#[test]
fn a_tree_of_three_titles_that_its_text_has_nothing_of_takes_nobody_any_more() {
    let mut state = state();
    let first = roots(&mut state, NOTICE);
    assert!(first[..3].iter().all(|root| *root == first[0]), "{first:?}");
    let mut others = first[3..].to_vec();
    others.sort_unstable();
    others.dedup();
    assert_eq!(others.len(), TITLES.len() - 3);
    assert!(!others.contains(&first[0]));
    let stats = state.forest().stats();
    assert_eq!(stats.page_chrome_trees, 1);
    let [page_chrome] = stats.page_chrome[..] else {
        panic!("{stats:?}");
    };
    assert_eq!((page_chrome.root, page_chrome.documents, page_chrome.titles), (first[0], 3, 3));
    // A document that comes again lands where it was, in the tree and beside it.
    assert_eq!(roots(&mut state, NOTICE), first);
}

#[test]
fn news_under_many_headlines_is_one_tree() {
    let mut state = state();
    let titles = [
        "柳溪水厂下月初通水 惠及六万户居民",
        "本周六夜间停水四小时 居民请提前储水",
        "城北水厂即将投用 花园路一带将停水",
        "水务局:为老人安排送水车",
        "管网切换 工人新村周六停水",
    ];
    let roots: Vec<Root> = titles.iter().map(|title| place(&mut state, title, NEWS).root).collect();
    assert!(roots.iter().all(|root| *root == roots[0]), "{roots:?}");
    assert_eq!(state.forest().stats().page_chrome_trees, 0);
}

#[test]
fn where_all_is_boilerplate_the_title_is_the_text() {
    let mut state = state();
    // Each founds a tree of its own and teaches its sentences.
    roots(&mut state, NOTICE);
    let title = "博物馆夜场开放 市民排队两小时入场参观";
    let one = place(&mut state, title, NOTICE);
    let alike = place(&mut state, "【快讯】博物馆夜场开放 市民排队两小时入场参观", NOTICE);
    let other = place(&mut state, "候鸟提前南飞 湿地公园增设观鸟点位", NOTICE);
    assert_eq!(one.root, alike.root);
    assert_ne!(one.root, other.root);
    // It knows its title's tree whatever else is read of it.
    assert_eq!(place(&mut state, title, NOTICE).decision, Decision::Refreshed);
}

#[test]
fn without_titles_a_few_words_are_one_text_with_their_equals_only() {
    let mut state = state();
    let first = place(&mut state, "", "转发微博").root;
    for _ in 0..50 {
        assert_eq!(place(&mut state, "", "转发微博").root, first);
    }
    assert_ne!(place(&mut state, "", "转发微博 快来看").root, first);
}

struct Inline;

impl Executor for Inline {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
}

fn port() -> Arc<dyn ForestPort> {
    let learned = LearnedText::default();
    let port = LocalForest::<Verified>::new("test", SETTINGS, Default::default(), learned, Arc::new(Inline));
    Arc::new(port.unwrap())
}

fn place_all(port: &dyn ForestPort) -> Vec<RootAssignment> {
    let batch = Batch {
        documents: TITLES.iter().map(|title| document(title, NOTICE)).collect(),
        commit: Commit::Provisional,
        earlier: EarlierDocuments::default(),
    };
    let replies = block_on(port.place(batch)).unwrap().replies;
    replies.into_iter().map(|reply| reply.placed.unwrap()).collect()
}

fn settle(port: &dyn ForestPort, placed: Vec<RootAssignment>, outcome: ItemOutcome) -> Vec<TreeNotice> {
    let batch = placed.into_iter().filter_map(|placed| placed.settled(outcome));
    block_on(port.settle(batch.collect(), Millis(1))).unwrap().notices
}

#[test]
fn one_request_sees_its_own_signs_and_others_when_it_is_accepted() {
    let port = port();
    let placed = place_all(&*port);
    let root = placed[0].root;
    assert_eq!(placed.iter().filter(|placed| placed.root == root).count(), 3);
    assert_eq!(block_on(port.stats()).unwrap().page_chrome_trees, 0);
    // Nothing of what was refused counts.
    assert_eq!(settle(&*port, placed, ItemOutcome::Refused), []);
    let stats = block_on(port.stats()).unwrap();
    assert_eq!((stats.nodes, stats.page_chrome_trees), (0, 0));
    let placed = place_all(&*port);
    let notices = settle(&*port, placed, ItemOutcome::Accepted);
    assert!(
        matches!(notices[..], [TreeNotice::PageChrome(tree)] if tree.root == root && tree.documents == 3),
        "{notices:?}"
    );
    let tree = block_on(port.tree(root)).unwrap().unwrap();
    assert!(tree.closed.is_some() && tree.titles == 3, "{tree:?}");
}

#[test]
fn a_rehearsal_sees_its_own_signs() {
    let port = port();
    let rehearsal = port.dry_placement();
    let documents = TITLES.iter().map(|title| document(title, NOTICE)).collect();
    let replies = block_on(rehearsal.place(documents)).unwrap().replies;
    let roots: Vec<Root> = replies.into_iter().map(|reply| reply.placed.unwrap().root).collect();
    assert_eq!(roots.iter().filter(|root| **root == roots[0]).count(), 3, "{roots:?}");
    // Those that are refused by a tree of their own request stand alone, here as there.
    let placed: Vec<Root> = place_all(&*port).into_iter().map(|placed| placed.root).collect();
    assert_eq!(roots, placed);
}

#[test]
fn a_tree_is_told_once_of_each_size() {
    let mut forest = super::forest(None);
    forest.set_max_tree(Some(3));
    let root = super::place(&mut forest, 7, 0).root;
    let mut told = Vec::new();
    for documents in 1..=10_000 {
        forest.count(root, TallyEntry::default());
        told.extend(forest.take_notices());
        assert_eq!(forest.tree(root).unwrap().documents, documents);
    }
    let size = |documents| TreeSize { root, documents, titles: 0 };
    assert_eq!(told, [TreeNotice::Full(size(3)), TreeNotice::Large(size(1_000)), TreeNotice::Large(size(10_000))]);
}

#[test]
fn a_full_tree_takes_only_what_it_knows() {
    let settings = Settings { k: Distance(3), ..SETTINGS };
    let port = LocalForest::<Strict>::new("test", settings, (), (), Arc::new(Inline)).unwrap();
    let port = port.with_max_tree(Some(3));
    let place = |print: u64| {
        let batch = Batch {
            documents: vec![ForestDocument {
                features: Some(Features::Strict(StrictFeatures {
                    fingerprints: vec![Fingerprint(print)],
                    whole: Fingerprint(print),
                })),
                when: DocumentTime::Still,
                title: None,
                id: Default::default(),
                given: None,
            }],
            commit: Commit::AtOnce,
            earlier: EarlierDocuments::default(),
        };
        let mut replies = block_on(port.place(batch)).unwrap().replies;
        replies.remove(0).placed.unwrap()
    };
    let first = place(0).root;
    assert_eq!((place(0).root, place(1).root), (first, first));
    let beyond = place(2);
    assert_ne!(beyond.root, first);
    assert_eq!(beyond.refused, [(first, Refusal::Full)]);
    // Equal texts go on to be one cluster.
    assert_eq!((place(0).root, place(1).root), (first, first));
    assert_eq!(place(2).root, beyond.root);
    let tree = block_on(port.tree(first)).unwrap().unwrap();
    assert_eq!((tree.documents, tree.closed), (5, Some(Refusal::Full)));
}
