//! The method `verified` over the real forest.

use std::collections::HashSet;

use spinney_text::fingerprint::Distance;
use spinney_text::hash::HashKey;
use spinney_text::method::{Features, LearnedText, Verified, VerifiedFeatures};
use spinney_text::text::{Fields, Scratch};

use crate::document::{DocumentTime, ForestDocument};
use crate::local::ForestState;
use crate::port::{Commit, EarlierDocuments, ItemOutcome};
use crate::time::Millis;
use crate::{Root, Settings};

/// Trees and boilerplate, with documents placed as strings.
struct Harness {
    state: ForestState<Verified>,
    scratch: Scratch,
}

impl Harness {
    fn new() -> Harness {
        let settings = Settings { k: Distance(3), window: None, key: HashKey::FIXED };
        let thresholds = Default::default();
        Harness {
            state: ForestState::new(settings, thresholds, LearnedText::default()).unwrap(),
            scratch: Scratch::new(),
        }
    }

    fn document(&mut self, title: &str, body: &str) -> ForestDocument {
        let fields = Fields { title: Some(title), body: &[body] };
        let mut features = VerifiedFeatures::new();
        assert!(features.read(&mut self.scratch, &fields));
        ForestDocument {
            features: Some(Features::Verified(Box::new(features))),
            when: DocumentTime::At(Millis(0)),
            title: None,
            id: Default::default(),
            given: None,
        }
    }

    fn place(&mut self, title: &str, body: &str) -> Root {
        let document = self.document(title, body);
        self.state.place(document).placed.unwrap().root
    }

    /// Places documents of one request, which the cluster accepts.
    fn place_request(&mut self, bodies: &[&str]) -> Vec<Root> {
        let mut earlier = EarlierDocuments::default();
        let documents: Vec<_> = bodies.iter().map(|body| self.document("", body)).collect();
        let placed = documents.into_iter().map(|document| {
            let placed = self.state.place_by(document, Commit::Provisional, &mut earlier).placed.unwrap();
            (placed.root, placed.settled(ItemOutcome::Accepted).unwrap())
        });
        let (roots, settlements) = placed.unzip();
        self.state.settle(settlements, Millis(0));
        roots
    }

    fn boilerplate(&mut self, body: &str) -> Vec<usize> {
        let document = self.document("", body);
        self.state.check(document).check.unwrap().boilerplate
    }

    fn nodes(&self) -> usize {
        self.state.forest().stats().nodes
    }
}

const STORY: &str = "The harbour council voted on Tuesday to rebuild the northern pier after last winter's storm tore away its \
    outer beams. Engineers told the meeting that the work could begin in early spring and should take about eleven weeks, \
    provided that the timber arrives in time. Two members objected to the cost and asked for a second opinion from the \
    university, but the chairwoman replied that waiting would only make the damage worse. Fishing crews have been landing \
    their catch at the southern quay since January, and several said that they had lost customers because lorries cannot \
    turn there. A temporary ramp will be put up next month.";

const OTHER: &str = "A choir of retired tram drivers has won the regional singing contest for the first time. Their conductor, who \
    once drove the number nine line through the old town, said the group rehearses in the empty depot because the echo is \
    kind to elderly voices. The jury praised the warmth of the basses and a daring arrangement of a lullaby. The choir \
    travels to the national final in June, by tram as far as the rails go and by bus from there. Tickets for a farewell \
    concert sold out within an hour, and a second evening has been announced for families.";

#[test]
fn reprints_join_and_others_found() {
    let mut forest = Harness::new();
    let root = forest.place("Pier to be rebuilt", STORY);
    let nodes = forest.nodes();
    assert_eq!(nodes, 4, "the founder is known by its root");
    assert_eq!(forest.place("", STORY), root);
    assert_eq!(forest.nodes(), nodes, "a copy brings no node");
    let reprint = format!(
        "<p>By Ann Lee</p><p>{}</p><p>Read more below</p>",
        STORY.replace("Two members objected to the cost", "Two memmbers objected")
    );
    assert_eq!(forest.place("Council votes", &reprint), root);
    assert_eq!(forest.place("", &STORY.to_uppercase()), root);
    assert_ne!(forest.place("Choir wins", OTHER), root);
}

#[test]
fn a_shared_footer_is_learned() {
    let footer = "All rights are reserved by this site and its partners, who do not answer for what is written above; please \
        write to the desk if a text of yours was used without your leave and it will be taken down within thirty days of that.";
    let mut forest = Harness::new();
    let stub = |n: u64| {
        let words: Vec<String> =
            (0..30).map(|w| format!("u{:x}", spinney_text::hash::mix64(n << 8 | w) >> 44)).collect();
        format!("{}. {footer}", words.join(" "))
    };
    let roots: Vec<Root> = (0..8).map(|n| forest.place("", &stub(n))).collect();
    let (a, b) = (forest.place("", &stub(100)), forest.place("", &stub(101)));
    assert_ne!(a, b);
    let footer_sentences = forest.boilerplate(&stub(101));
    assert_eq!(footer_sentences, [1, 2], "the two sentences of the footer");
    // What founded a tree is known by its root, whatever is left out of it by now.
    let nodes_before = forest.nodes();
    let again: Vec<Root> = (0..8).map(|n| forest.place("", &stub(n))).collect();
    assert_eq!(again, roots);
    assert_eq!(forest.nodes(), nodes_before);
}

/// Words that no other text has.
fn words(of: u64, count: u64) -> String {
    let words = (0..count).map(|w| format!("u{:x}", spinney_text::hash::mix64(of << 16 | w) >> 44));
    words.collect::<Vec<String>>().join(" ")
}

const HOUSE: &str = "Sign up for our letter to get the latest stories every morning before breakfast. This article may not be \
    reproduced without written permission of the publisher. Contact the newsroom by mail or call the desk on \
    weekdays between nine and five. The company operates in forty countries and employs nine thousand people \
    around the world. Forward looking statements involve risks that could cause actual results to differ \
    materially from those expected. Follow us on the networks of your choice or subscribe to the printed \
    edition at a reduced price.";

/// What two have in common cannot tell it: from the second one on, each joins the first one until the text is learned
/// of those that joined.
#[test]
fn house_text_is_learned_of_news_that_joined_the_first_one() {
    let place = |titled: bool, commit: Commit| {
        let mut forest = Harness::new();
        let news = |n: u64| format!("SALTERBY (Herald Newswire) -- {}. {HOUSE}", words(n, 40));
        let roots: Vec<Root> = match commit {
            Commit::AtOnce => {
                let title = |n| if titled { words(n + 500, 6) } else { String::new() };
                (0..40).map(|n| forest.place(&title(n), &news(n))).collect()
            }
            Commit::Provisional => {
                let texts: Vec<String> = (0..40).map(news).collect();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                // A request counts each sentence once.
                texts.chunks(5).flat_map(|request| forest.place_request(request)).collect()
            }
        };
        roots.into_iter().collect::<HashSet<Root>>().len()
    };
    for (titled, commit) in [(false, Commit::AtOnce), (true, Commit::AtOnce), (false, Commit::Provisional)] {
        let clusters = place(titled, commit);
        assert!(clusters >= 35, "{clusters} clusters of 40 news, {titled} {commit:?}");
    }
}

/// Other openings of one article are no other news over house text.
#[test]
fn reprints_with_leads_of_their_own_do_not_teach_that_the_article_is_house_text() {
    let mut forest = Harness::new();
    let root = forest.place("Pier to be rebuilt", STORY);
    let (_, rest) = STORY.split_once(". ").unwrap();
    for n in 0..20 {
        let reprint = format!("{}. {rest}", words(n, 12));
        assert_eq!(forest.place("Pier to be rebuilt", &reprint), root, "{n}");
    }
    assert_eq!(forest.boilerplate(STORY), [0; 0]);
    assert_eq!(forest.place("", &STORY.to_uppercase()), root);
}

/// Nor under headlines of their own, where the article is long enough to be known under them.
#[test]
fn reprints_with_headlines_and_leads_of_their_own_do_not_teach_either() {
    let mut forest = Harness::new();
    let article = |lead: &str| format!("{lead}. {STORY} {OTHER}");
    let lead = "Twice in ten years the sea has cost the town its pier, and twice a choir has sung it back";
    let root = forest.place("Pier to be rebuilt", &article(lead));
    for n in 0..20 {
        assert_eq!(forest.place(&words(n + 100, 7), &article(&words(n, 16))), root, "{n}");
    }
    assert_eq!(forest.boilerplate(&article("")), [0; 0]);
}

/// Without titles, and before anything is learned of the footer.
#[test]
fn other_news_over_one_footer_are_apart_from_the_first_on() {
    let footer = "Sign up for our letter to get the latest stories every morning. This article may not be reproduced \
        without permission of the publisher. Contact the newsroom by mail or call the desk on weekdays between nine \
        and five. Read more about how we check facts and correct mistakes on our page of standards, and write to us there.";
    let news = [
        "The council of Marlow will repair Mill Lane in the spring.",
        "A ferry with forty passengers ran aground near the island on Sunday.",
        "Teachers in the north of the country went on strike for higher wages.",
        "A fire destroyed two barns and a tractor on a farm outside Kelso.",
        "The national bank left its interest rate where it was.",
        "Police found the missing boy in a cinema three streets from home.",
    ];
    for first in 0..news.len() {
        for step in [1, 5] {
            let mut forest = Harness::new();
            let mut roots: Vec<Root> = (0..news.len())
                .map(|n| forest.place("", &format!("{} {footer}", news[(first + n * step) % news.len()])))
                .collect();
            roots.sort_unstable();
            roots.dedup();
            assert_eq!(roots.len(), news.len(), "{first} {step}");
        }
    }
}

#[test]
fn a_short_body_is_read_with_its_title() {
    let mut forest = Harness::new();
    let dividend = "Quarterly dividend 11 cents against 11 cents before. Payable May 15.";
    let root = forest.place("Filter Works Inc sets its quarterly payout", dividend);
    assert_ne!(forest.place("Milton Roads Company declares regular dividend again", dividend), root);
    assert_eq!(forest.place("Filter Works Inc sets its quarterly payout", dividend), root);
}
