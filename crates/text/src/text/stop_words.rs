//! Stop words: so common that they say nothing about which text it is. Without this list they decide a fingerprint,
//! because they are a third of all words.

use std::sync::LazyLock;

use super::token::word_hash;

const CHINESE: &str = "
的 了 是 在 和 与 及 或 而 且 但 也 都 就 又 还 才 只 很 更 最 太 不 没 没有 无 非 未 这 那 此 该 其 之 以 于 从 自 自从 由 向 往 到 把 被
给 让 使 对 对于 关于 为 为了 因 因为 所以 因此 因而 由于 如 如果 若 假如 虽然 虽 然而 但是 可是 不过 只是 而且 并 并且 或者 还是 以及 及其
等 等等 们 我 你 您 他 她 它 我们 你们 他们 她们 它们 咱们 自己 本 本人 大家 人家 有 有的 有些 一些 一 一个 一种 一样 一般 一直 一定
这个 那个 这些 那些 这样 那样 这里 那里 这种 那种 这么 那么 什么 怎么 怎样 如何 为什么 谁 哪 哪个 哪些 哪里 几 多少 多 少 很多 许多
个 位 名 次 种 些 者 着 过 得 地 所 吧 吗 呢 啊 哦 呀 啦 哈 嘛 罢 喔 嗯 哎 唉 呵呵 上 下 中 里 内 外 前 后 间 时 当 当时 时候 之后 之前 以后 以前
以来 以上 以下 其中 其他 其它 其实 另 另外 另一 再 再次 已 已经 曾 曾经 正 正在 将 将要 会 能 能够 可 可以 可能 应 应该 应当 要 需 需要 想 必须
说 称 表示 认为 指出 据 根据 按 按照 通过 经 经过 随着 作为 成为 进行 目前 现在 今天 昨天 明天 日 月 年 做 去 来 看 让 比 像 似乎 仍 仍然 依然
甚至 尤其 特别 非常 十分 比较 相当 更加 越来越 即 即使 就是 不是 也是 都是 还有 只有 只要 除了 无论 不管 尽管 既 既然 否则 然后 接着 于是 同时
之间 之一 当中 并不 不会 不能 不要 不同 同样 各 各种 每 每个 某 某些 任何 所有 全部 整个 首先 其次 最后 例如 比如 包括 以及 此外 与此同时";

const ENGLISH: &str = "
a about above after again against all also am an and any are aren't as at be because been before being below between both but
by can can't cannot could couldn't did didn't do does doesn't doing don't down during each either else even ever every few for
from further get got had hadn't has hasn't have haven't having he he'd he'll her here hers herself him himself his how however
i i'd i'll i'm i've if in into is isn't it its itself just let's like many may me might more most much must my myself neither no nor
not now of off often on once one only or other others our ours ourselves out over own per rather re s said same say says she
she'd she'll should shouldn't since so some such t than that the their theirs them themselves then there these they they'd they'll
they're they've this those though through thus to too two under until up upon us very via was wasn't we we'd we'll we're we've were
weren't what when where whether which while who whom whose why will with within without won't would wouldn't yet you you'd you'll
you're you've your yours yourself";

/// Hashes in open addressing, half empty; 0 is an empty slot.
struct StopWords {
    slots: Box<[u64; SLOTS]>,
}

const SLOTS: usize = 2048;

static STOP_WORDS: LazyLock<StopWords> = LazyLock::new(|| {
    let mut slots = Box::new([0u64; SLOTS]);
    for word in CHINESE.split_whitespace().chain(ENGLISH.split_whitespace()) {
        let hash = word_hash(word);
        let mut at = slot(hash);
        while slots[at] != 0 && slots[at] != hash {
            at = (at + 1) % SLOTS;
        }
        slots[at] = hash;
    }
    StopWords { slots }
});

fn slot(hash: u64) -> usize {
    (hash >> 32) as usize % SLOTS
}

/// Whether the word with this [`word_hash`] is a stop word.
pub(super) fn is_stop_word(hash: u64) -> bool {
    let slots = &STOP_WORDS.slots;
    let mut at = slot(hash);
    loop {
        match slots[at] {
            0 => return false,
            found if found == hash => return true,
            _ => at = (at + 1) % SLOTS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_listed_word_is_a_stop_word_and_no_other() {
        let listed: HashSet<&str> = CHINESE.split_whitespace().chain(ENGLISH.split_whitespace()).collect();
        assert!(listed.len() * 2 < SLOTS, "the table would be too full: {}", listed.len());
        for word in &listed {
            assert!(is_stop_word(word_hash(word)), "{word}");
        }
        for word in ["妈妈", "回家", "美国", "飞碟", "market", "company", "不是的吗"] {
            assert!(!is_stop_word(word_hash(word)), "{word}");
        }
    }
}
