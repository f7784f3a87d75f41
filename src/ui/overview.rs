//! The overview: figures, small plots, forests; for readers who may read the cluster's health.

use askama::Template;
use hyper::{Response, StatusCode};
use serde_json::json;

use super::error_page::ErrorPage;
use super::lang::Texts;
use super::layout::Layout;
use super::member_list::media_of;
use super::plot::{Plot, plot};
use super::{PageRequest, fields, format, response, url};
use crate::config::RepresentativeBy;
use crate::counts::Progress;
use crate::engine::ReaderRoute;
use crate::forest::{ForestStats, TreeSize};
use crate::groups::GroupsRequest;
use crate::groups::request::TotalWanted;
use crate::history::HistorySample;
use crate::http::Body;
use crate::method::Reason;

/// Groups that are listed.
const LARGEST: usize = 5;

/// Most routes whose indices are read.
const ROUTES: usize = 4;

/// Characters of their titles.
const TITLE: usize = 120;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage<'a> {
    shell: &'a Layout,
    t: &'static Texts,
    lead: String,
    figures: Vec<Figure>,
    /// Something that needs attention.
    attention: Vec<String>,
    largest: Vec<LargeGroup>,
    forests: Vec<ForestRow>,
    page_chrome: Vec<TreeRow>,
    learned: String,
    refusals: Vec<(&'static str, String)>,
}

/// A figure with its label and recent course.
struct Figure {
    label: &'static str,
    value: String,
    hint: String,
    /// What the plot shows, if it is not the value.
    plotted: Option<&'static str>,
    plot: Option<Plot>,
}

/// One of the largest groups that the reader may see.
struct LargeGroup {
    title: String,
    address: String,
    similar: String,
    media: Option<String>,
    count: u64,
}

struct ForestRow {
    name: String,
    address: Option<String>,
    nodes: String,
    roots: String,
    memory: String,
    largest: Option<TreeRow>,
}

struct TreeRow {
    text: String,
    root: String,
    address: Option<String>,
}

pub(super) async fn show(page: &PageRequest<'_>) -> Result<Response<Body>, ErrorPage> {
    let (shell, state) = (page.shell, page.state);
    if let Some(refused) = state.cluster.refuses_health(&page.headers).await? {
        return Err(ErrorPage::of_cluster(&refused));
    }
    let forests = match state.engine.forests().stats().await {
        Ok(forests) => forests,
        Err(reason) => return Err(state.engine_failed(&reason).into()),
    };
    let counts = state.counts.progress();
    let lag = counts.as_ref().map(|progress| progress.lag);
    let now = HistorySample::of(crate::clock::now(), &state.metrics.counters, &forests, lag);
    let uptime = i64::try_from(state.started.elapsed().as_millis()).unwrap_or(i64::MAX);
    let t = shell.t();
    let routes = state.engine.routes().reader_routes();
    let rows = RowBuilder { shell, routes: &routes };
    let overview = OverviewPage {
        shell,
        t,
        lead: shell.text(t.overview_lead, &[&format::span(uptime, shell.locale.lang)]),
        figures: figures(
            shell,
            &state.history.samples(),
            now,
            &forests,
            &CurrentFigures {
                unstamped: state.metrics.counters.documents_unstamped.get(),
                waiting: counts.as_ref().map(|progress| progress.dirty_groups),
            },
        ),
        largest: largest(page, &routes).await,
        attention: attention(page, counts.as_ref()),
        forests: forests.iter().map(|(name, stats)| rows.forest(name, stats)).collect(),
        learned: shell.text(t.learned, &[&format::number(state.metrics.counters.sentences_learned.get())]),
        page_chrome: forests
            .iter()
            .flat_map(|(name, stats)| stats.page_chrome.iter().map(|tree| rows.tree(name, tree)))
            .collect(),
        refusals: state
            .metrics
            .refusals()
            .filter(|(_, count)| *count > 0)
            .map(|(reason, count)| (why(t, reason), format::number(count)))
            .collect(),
    };
    Ok(response::page(StatusCode::OK, &overview)?)
}

/// Figures without samples.
struct CurrentFigures {
    /// Documents that passed without a stamp.
    unstamped: u64,
    /// Dirty groups; `None` if counting is off.
    waiting: Option<u64>,
}

fn figures(
    shell: &Layout,
    samples: &[HistorySample],
    now: HistorySample,
    forests: &[(String, ForestStats)],
    beside: &CurrentFigures,
) -> Vec<Figure> {
    let t = shell.t();
    let history = RecentSamples { shell, samples, now };
    let share = |sample: &HistorySample| match sample.stamped {
        0 => 0.0,
        stamped => sample.joined as f64 / stamped as f64,
    };
    let nodes: u64 = forests.iter().map(|(_, stats)| stats.nodes as u64).sum();
    let whole = |value: f64| format::number(value as u64);
    let rate = |value: f64| format!("{value:.1}");
    let lag = |sample: &HistorySample| sample.lag.unwrap_or(0) as f64;
    let seconds = |millis: f64| shell.text(t.seconds, &[&format!("{:.1}", millis / 1_000.0)]);
    let counting = beside.waiting.map(|waiting| Figure {
        label: t.lag,
        value: seconds(lag(&now)),
        hint: shell.text(t.lag_hint, &[&format::number(waiting)]),
        plotted: None,
        plot: history.plot(t.lag, lag, false, &seconds),
    });
    let figures = [
        Figure {
            label: t.documents_in,
            value: format::number(now.stamped + beside.unstamped),
            hint: shell.text(t.stamped, &[&format::number(now.stamped)]),
            plotted: Some(t.rate),
            plot: history.plot(t.rate, |s| s.stamped as f64, true, &rate),
        },
        Figure {
            label: t.joined,
            value: format::percent(share(&now)),
            hint: t.joined_hint.into(),
            plotted: None,
            plot: history.plot(t.joined, share, false, &format::percent),
        },
        Figure {
            label: t.roots,
            value: format::number(now.roots),
            hint: t.roots_hint.into(),
            plotted: None,
            plot: history.plot(t.roots, |s| s.roots as f64, false, &whole),
        },
        Figure {
            label: t.memory,
            value: format::bytes(now.memory),
            hint: shell.text(t.memory_hint, &[&format::number(nodes)]),
            plotted: None,
            plot: history.plot(t.memory, |s| s.memory as f64, false, &|value| format::bytes(value as u64)),
        },
    ];
    figures.into_iter().chain(counting).collect()
}

/// The last hour.
struct RecentSamples<'a> {
    shell: &'a Layout,
    samples: &'a [HistorySample],
    now: HistorySample,
}

impl RecentSamples<'_> {
    /// A plot of a value, or of how much it grew each second.
    fn plot(
        &self,
        label: &str,
        of: impl Fn(&HistorySample) -> f64,
        is_rate: bool,
        shown: &dyn Fn(f64) -> String,
    ) -> Option<Plot> {
        let samples = || self.samples.iter().chain([&self.now]);
        let values: Vec<f64> = if is_rate {
            let pairs = samples().zip(samples().skip(1));
            // Two samples of the same moment have no rate.
            let apart = pairs.filter(|(a, b)| b.at - a.at >= 1_000);
            apart.map(|(a, b)| (of(b) - of(a)).max(0.0) * 1_000.0 / (b.at - a.at) as f64).collect()
        } else {
            samples().map(of).collect()
        };
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        let last = values.last().copied().unwrap_or_default();
        let first_at = self.samples.first().map_or(self.now.at, |first| first.at);
        let over = format::span(self.now.at - first_at, self.shell.locale.lang);
        let parts = [label, &over, &shown(least), &shown(most), &shown(last)];
        let description = self.shell.text(self.shell.t().plot_desc, &parts);
        plot(&values, description)
    }
}

/// The largest groups of the routes' indices, counted with the reader's privileges; without indices that the cluster
/// refuses.
async fn largest(page: &PageRequest<'_>, routes: &[ReaderRoute]) -> Vec<LargeGroup> {
    let (shell, t) = (page.shell, page.shell.t());
    let mut groups = Vec::new();
    for route in routes.iter().take(ROUTES) {
        let raw_index = route.patterns.iter().map(|name| url::segment(name));
        let raw_index = raw_index.collect::<Vec<_>>().join(",");
        let names = page.fields(&raw_index).await;
        let shown: Vec<&String> = names.title.iter().chain(names.text.first()).collect();
        let request = GroupsRequest {
            size: LARGEST,
            representative: RepresentativeBy::Oldest,
            source: json!(shown),
            total: TotalWanted::No,
            ..GroupsRequest::default()
        };
        let reader = page.reader(&raw_index, &names);
        let Ok(found) = reader.groups(&request).await else {
            continue;
        };
        let several = found.groups.iter().filter(|group| group.similar_count > 1);
        groups.extend(several.map(|group| {
            let representative = &group.representative;
            let title = fields::title(&representative.source, &names, TITLE);
            LargeGroup {
                title: title.unwrap_or_else(|| t.untitled.to_owned()),
                address: url::article(&representative.index, &representative.id),
                similar: shell.text(t.similar_many, &[&format::others(group.similar_count)]),
                media: media_of(shell, group.media),
                count: group.similar_count,
            }
        }));
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups.truncate(LARGEST);
    groups
}

fn attention(page: &PageRequest<'_>, progress: Option<&Progress>) -> Vec<String> {
    let (t, counters) = (page.shell.t(), &page.state.metrics.counters);
    let counts = [(counters.documents_unstamped.get(), t.unstamped), (counters.items_failed.get(), t.failed)];
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    let some = some.map(|(count, text)| page.shell.text(text, &[&format::number(count)]));
    // The reason, where counting does not proceed normally.
    let uncounted = progress.and_then(|progress| progress.status.reason.as_deref());
    let uncounted = uncounted.map(|reason| page.shell.text(t.uncounted, &[reason]));
    some.chain(uncounted).collect()
}

/// Makes rows of tables.
struct RowBuilder<'a> {
    shell: &'a Layout,
    routes: &'a [ReaderRoute],
}

impl RowBuilder<'_> {
    /// The patterns that a forest's documents are found under.
    fn index(&self, forest: &str) -> Option<String> {
        let route = self.routes.iter().find(|route| {
            // The forest of short texts is listed next to that of its route.
            forest.starts_with(&route.forest)
        });
        route.map(|route| route.patterns.join(","))
    }

    fn forest(&self, name: &str, stats: &ForestStats) -> ForestRow {
        ForestRow {
            name: name.to_owned(),
            address: self.index(name).map(|index| url::list(&index)),
            nodes: format::number(stats.nodes as u64),
            roots: format::number(stats.roots as u64),
            memory: format::bytes(stats.memory_bytes as u64),
            largest: stats.largest.as_ref().map(|tree| self.tree(name, tree)),
        }
    }

    fn tree(&self, forest: &str, tree: &TreeSize) -> TreeRow {
        let t = self.shell.t();
        let number = |value: u32| format::number(value.into());
        let root = tree.root.to_string();
        TreeRow {
            text: self.shell.text(t.largest_text, &[&number(tree.documents), &number(tree.titles)]),
            address: self.index(forest).map(|index| url::group(&index, &root)),
            root,
        }
    }
}

/// A reason without its figures.
fn why(t: &'static Texts, reason: Reason) -> &'static str {
    match reason {
        Reason::Proof => t.reason_proof,
        Reason::Numbers => t.reason_numbers,
        Reason::Boilerplate => t.why_boilerplate,
        Reason::Titles => t.why_titles,
        Reason::PageChrome => t.why_page_chrome,
        Reason::Full => t.why_full,
        Reason::Radius => t.reason_radius,
        Reason::Names => t.why_names,
        Reason::Facts => t.why_facts,
        Reason::Part => t.why_part,
    }
}
