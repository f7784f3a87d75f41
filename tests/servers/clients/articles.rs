//! Articles whose groups are beyond doubt: what is in front of the tests with real clients.
//!
//! All members of a group share one sentence that is by far the longest of the article and has no comma to split at;
//! everything else (header, short sentences, footer) differs between members. The long sentences of different groups
//! are random draws from a vocabulary, so their fingerprints are as far apart as random numbers.

use crate::common::random::Random;
use serde_json::{Value, json};

/// One article as its writer sends it.
pub struct Article {
    pub id: String,
    /// Which true group it belongs to.
    pub group: usize,
    pub source: Value,
}

/// How many articles share a long sentence.
pub const GROUP_SIZE: usize = 4;

/// Words in the long sentence; the other sentences stay below a third of its length.
const LONG: usize = 30;

/// `count` articles with the ids `a0`, `a1` …: even groups are Chinese, odd ones English. The members of a group are
/// far apart, so that they arrive in different bulk requests. The same `count` always gives the same articles.
pub fn articles(count: usize) -> Vec<Article> {
    let groups = count.div_ceil(GROUP_SIZE);
    (0..count).map(|number| article(number, number % groups, number / groups)).collect()
}

fn article(number: usize, group: usize, member: usize) -> Article {
    let outlet = OUTLETS[(group + member) % OUTLETS.len()];
    // Seeded by the group alone for what its members share, by the article for what they do not.
    let mut shared = Draw::new(group as u64);
    let mut own = Draw::new(1_000_000 + number as u64);
    let (title, content) = if group.is_multiple_of(2) {
        let long = shared.words(&CHINESE, LONG).concat();
        let short = |own: &mut Draw| own.words(&CHINESE, 6).concat();
        let title = short(&mut shared);
        let content = format!(
            "{outlet}讯（记者{}）{}。{}！\n{long}。\n{}，{}。“{}？”\n责任编辑：{}",
            short(&mut own),
            short(&mut own),
            short(&mut own),
            short(&mut own),
            short(&mut own),
            short(&mut own),
            own.words(&CHINESE, 1).concat(),
        );
        (title, content)
    } else {
        let long = shared.words(&ENGLISH, LONG).join(" ");
        let short = |own: &mut Draw| format!("The {}", own.words(&ENGLISH, 6).join(" "));
        let title = short(&mut shared);
        let content = format!(
            "{outlet} - {}. {}!\nThe {long}.\n{}, {}. \"{}?\"\nEditing by {}",
            short(&mut own),
            short(&mut own),
            short(&mut own),
            short(&mut own),
            short(&mut own),
            own.words(&ENGLISH, 1).concat(),
        );
        (title, content)
    };
    Article {
        id: format!("a{number}"),
        group,
        source: json!({
            "title": title,
            "content": content,
            "outlet": outlet,
            "published_at": format!("2026-03-{:02}T08:00:00Z", member + 1),
            // Numbers that a proxy which re-serialises would change.
            "reads": 9_007_199_254_740_993_u64 + number as u64,
            "score": 0.1 + group as f64,
        }),
    }
}

/// Random numbers of a seed.
struct Draw(Random);

impl Draw {
    fn new(seed: u64) -> Draw {
        // Mixed, since those of neighbouring seeds would follow each other.
        Draw(Random::new(Random::new(seed).next()))
    }

    /// `count` different words.
    fn words<'a>(&mut self, vocabulary: &[&'a str], count: usize) -> Vec<&'a str> {
        let mut rest = vocabulary.to_vec();
        (0..count).map(|_| rest.swap_remove(self.0.below(rest.len()))).collect()
    }
}

const OUTLETS: [&str; 6] = ["晨光网", "江城日报", "北岸新闻", "Harbour Wire", "Valley Post", "Northern Ledger"];

#[rustfmt::skip]
const CHINESE: [&str; 120] = [
    "城市", "河流", "桥梁", "铁路", "港口", "工厂", "学校", "医院", "市场", "农田", "森林", "气象",
    "能源", "煤炭", "钢铁", "水泥", "汽车", "船舶", "飞机", "卫星", "芯片", "软件", "网络", "手机",
    "银行", "股票", "债券", "保险", "税收", "预算", "投资", "贸易", "关税", "出口", "进口", "物流",
    "教师", "学生", "医生", "护士", "工人", "农民", "司机", "记者", "律师", "法官", "警察", "消防",
    "音乐", "电影", "戏剧", "绘画", "文学", "历史", "考古", "博物馆", "图书馆", "剧院", "公园", "广场",
    "足球", "篮球", "游泳", "田径", "滑雪", "象棋", "奥运", "冠军", "教练", "球员", "比赛", "训练",
    "大米", "小麦", "玉米", "大豆", "蔬菜", "水果", "茶叶", "咖啡", "牛奶", "猪肉", "海鲜", "食堂",
    "春天", "夏季", "秋收", "冬雪", "暴雨", "台风", "地震", "干旱", "洪水", "高温", "寒潮", "雾霾",
    "实验", "论文", "数学", "物理", "化学", "生物", "天文", "地质", "海洋", "机器人", "无人机", "望远镜",
    "旅游", "酒店", "餐馆", "机场", "地铁", "公交", "自行车", "高速", "隧道", "码头", "仓库", "快递",
];

#[rustfmt::skip]
const ENGLISH: [&str; 120] = [
    "harbour", "railway", "bridge", "tunnel", "airport", "factory", "hospital", "museum", "library", "theatre",
    "forest", "meadow", "orchard", "valley", "glacier", "desert", "island", "volcano", "canyon", "lagoon",
    "captain", "surgeon", "teacher", "farmer", "miner", "painter", "sculptor", "composer", "lawyer", "carpenter",
    "copper", "lithium", "cement", "timber", "cotton", "coffee", "barley", "sugar", "salmon", "honey",
    "satellite", "telescope", "turbine", "engine", "battery", "processor", "antenna", "compass", "magnet", "laser",
    "election", "treaty", "budget", "tariff", "pension", "mortgage", "dividend", "auction", "patent", "licence",
    "violin", "trumpet", "ballet", "novel", "sonnet", "portrait", "mosaic", "tapestry", "cinema", "festival",
    "marathon", "regatta", "fencing", "archery", "cricket", "hockey", "wrestling", "cycling", "rowing", "chess",
    "blizzard", "monsoon", "drought", "thunder", "avalanche", "earthquake", "flood", "heatwave", "drizzle", "fog",
    "vaccine", "antibody", "protein", "enzyme", "genome", "neuron", "artery", "skeleton", "bacteria", "fungus",
    "algebra", "geometry", "calculus", "topology", "grammar", "dialect", "alphabet", "archive", "manuscript", "dictionary",
    "bakery", "brewery", "tannery", "foundry", "sawmill", "vineyard", "quarry", "shipyard", "warehouse", "lighthouse",
];
