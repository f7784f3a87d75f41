//! Lists and groups as files for other programs: Atom, CSV and JSON, one page each, with the way to the next.

use std::fmt::Write;

use hyper::Response;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use super::error_page::ErrorPage;
use super::layout::Layout;
use super::list_params::ListParams;
use super::member_list::{self, MemberFilter, media_of};
use super::url::QueryString;
use super::{PageRequest, fields, filter_check, response, url};
use crate::clock;
use crate::engine::ReaderFields;
use crate::groups::answer::{GroupSummary, SimilarHit};
use crate::groups::request::MAX_SIZE;
use crate::groups::{GroupsRequest, MembersRequest};
use crate::http::Body;
use crate::http::query::decode_segment;
use crate::text::readable;
use crate::time::{Millis, format_date};

/// Characters of a text in a feed.
const SUMMARY: usize = 400;

/// The parameter that asks for a file.
pub(super) const PARAMETER: &str = "format";

/// Columns of every CSV file; those of its kind and `next` follow.
const COLUMNS: [&str; 7] = ["root", "index", "id", "title", "medium", "time", "url"];

const GROUP_COLUMNS: [&str; 5] = ["similar_count", "matching_count", "media", "first", "last"];
const MEMBER_COLUMNS: [&str; 1] = ["similarity"];

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileFormat {
    Atom,
    Csv,
    Json,
}

impl FileFormat {
    const ALL: [FileFormat; 3] = [FileFormat::Atom, FileFormat::Csv, FileFormat::Json];

    /// The kind that a request asks for.
    pub(super) fn of(query: &QueryString) -> Option<FileFormat> {
        let name = query.get(PARAMETER)?;
        FileFormat::ALL.into_iter().find(|format| format.name() == name)
    }

    /// In the address, and at the end of a file's name.
    fn name(self) -> &'static str {
        match self {
            FileFormat::Atom => "atom",
            FileFormat::Csv => "csv",
            FileFormat::Json => "json",
        }
    }

    fn label(self) -> &'static str {
        match self {
            FileFormat::Atom => "Atom",
            FileFormat::Csv => "CSV",
            FileFormat::Json => "JSON",
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            FileFormat::Atom => "application/atom+xml; charset=utf-8",
            FileFormat::Csv => "text/csv; charset=utf-8",
            FileFormat::Json => "application/json",
        }
    }
}

/// A link to a file.
pub(super) struct FileLink {
    pub label: &'static str,
    pub address: String,
    /// The name under which it is saved.
    pub name: String,
    pub is_feed: bool,
}

/// The files of a list or group at this address. A feed begins with the first page: `place` is where the others do.
pub(super) fn links(
    shell: &Layout,
    address: &str,
    name: &str,
    query: &QueryString,
    place: Option<(&str, &str)>,
) -> Vec<FileLink> {
    let links = FileFormat::ALL.map(|format| {
        let is_feed = format == FileFormat::Atom;
        let query = shell.for_programs(&query.with(PARAMETER, Some(format.name())));
        let query = match place.filter(|_| !is_feed) {
            Some((name, cursor)) => query.with(name, Some(cursor)),
            None => query,
        };
        FileLink {
            label: format.label(),
            address: address.to_owned() + &query.suffix(),
            name: file_name(name, format),
            is_feed,
        }
    });
    links.into()
}

/// The name of a file: letters and digits of ASCII alone, since headers take no others.
fn file_name(name: &str, format: FileFormat) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    format!("spinney-{}.{}", name.chars().map(safe).collect::<String>(), format.name())
}

/// One row or entry: a group by its representative, or an article.
struct FileRow {
    /// What the entry's id is made of: it stays when anything else changes.
    identity: String,
    root: String,
    index: String,
    id: String,
    title: String,
    medium: Option<String>,
    time: Option<Millis>,
    /// When something was last added to it.
    updated: Option<Millis>,
    link: Option<String>,
    summary: String,
    /// Cells of the columns of its kind.
    more: Vec<String>,
}

/// A file that is being made.
struct FilePage {
    identity: String,
    title: String,
    /// Address of the page for people.
    page: String,
    this: String,
    next: Option<String>,
    /// The columns of its kind.
    columns: &'static [&'static str],
    rows: Vec<FileRow>,
    json: Value,
}

/// A list as a file.
pub(super) async fn list(
    page: &PageRequest<'_>,
    raw_index: &str,
    question: &ListParams,
    format: FileFormat,
) -> Result<Response<Body>, ErrorPage> {
    let names = page.fields(raw_index).await;
    let asked = question.request(&names, shown(&names, format), &page.shell.locale);
    let request = GroupsRequest { size: MAX_SIZE, ..asked };
    let groups = page.reader(raw_index, &names).groups(&request).await?;
    if groups.groups.is_empty() {
        filter_check::list(page, raw_index, question, &names).await?;
    }
    let index = decode_segment(raw_index).into_owned();
    let address = url::list(&index);
    let words = question.words.as_ref().map(|words| format!("{words} · ")).unwrap_or_default();
    let parameters = page.shell.for_programs(&page.shell.parameters);
    let file = FilePage {
        identity: format!("list {index} {}", question.parameters().text()),
        title: format!("{words}{index}"),
        page: address.clone() + &page.shell.for_programs(&question.parameters()).suffix(),
        this: address.clone() + &parameters.suffix(),
        next: groups.next.as_deref().map(|next| {
            let there = parameters.without(&["trail", "skipped"]).with("cursor", Some(next));
            address.clone() + &there.suffix()
        }),
        columns: &GROUP_COLUMNS,
        rows: groups.groups.iter().map(|group| group_row(page.shell, group, &index, &names)).collect(),
        json: groups.to_json(),
    };
    Ok(file.response(format, &index))
}

/// A group as a file.
pub(super) async fn group(
    page: &PageRequest<'_>,
    raw_index: &str,
    root: &str,
    format: FileFormat,
) -> Result<Response<Body>, ErrorPage> {
    let names = page.fields(raw_index).await;
    let parameters = page.shell.for_programs(&page.shell.parameters);
    let filter = MemberFilter::read(&parameters);
    let request = MembersRequest {
        size: MAX_SIZE,
        cursor: parameters.get(member_list::CURSOR).map(str::to_owned),
        source: shown(&names, format),
        filters: filter.filters(&names),
    };
    let members = page.reader(raw_index, &names).root(root, &request).await?;
    if members.hits.is_empty() {
        filter_check::group(page, raw_index, members.root, &filter, &names).await?;
    }
    let index = decode_segment(raw_index).into_owned();
    let address = url::group(&index, root);
    let first = members.hits.first().map(|hit| page.shell.title(&hit.source, &names));
    let file = FilePage {
        identity: format!("group {index} {root}"),
        title: first.unwrap_or_else(|| root.to_owned()),
        page: address.clone() + &member_list::unpaged(&parameters).without(&[PARAMETER]).suffix(),
        this: address.clone() + &parameters.suffix(),
        next: members
            .next
            .as_deref()
            .map(|next| address.clone() + &parameters.with(member_list::CURSOR, Some(next)).suffix()),
        columns: &MEMBER_COLUMNS,
        rows: members.hits.iter().map(|hit| member_row(page.shell, hit, root, &names)).collect(),
        json: members.to_json(),
    };
    Ok(file.response(format, root))
}

/// The fields of documents that a file shows; texts only in feeds, which have their beginning, or for want of titles.
fn shown(names: &ReaderFields, format: FileFormat) -> Value {
    let text = names.text.iter().filter(|_| format == FileFormat::Atom || names.title.is_none());
    let fields = text.chain(&names.title).chain(&names.medium).chain(&names.url).chain([&names.time]);
    let fields = fields.map(String::as_str).chain(names.medium.as_deref().and_then(fields::parent));
    fields.collect::<Vec<_>>().into()
}

fn summary(source: &Value, names: &ReaderFields) -> String {
    let text = names.text.iter().flat_map(|text| fields::texts(source, text)).next().unwrap_or_default();
    fields::beginning(&readable(text), SUMMARY)
}

fn group_row(shell: &Layout, group: &GroupSummary, index: &str, names: &ReaderFields) -> FileRow {
    let representative = &group.representative;
    let source = &representative.source;
    let similar = shell.similar(group.similar_count);
    let numbers: Vec<String> = std::iter::once(similar).chain(media_of(shell, group.media)).collect();
    let time = |time: Option<Millis>| time.and_then(rfc3339).unwrap_or_default();
    FileRow {
        identity: format!("group {index} {}", group.root),
        root: group.root.to_string(),
        index: representative.index.clone(),
        id: representative.id.clone(),
        title: shell.title(source, names),
        medium: fields::keyword(source, names.medium.as_deref()).map(str::to_owned),
        time: representative.time.or_else(|| fields::time(source, &names.time)),
        updated: group.last,
        link: fields::link(source, names.url.as_deref()),
        summary: format!("{} — {}", numbers.join(", "), summary(source, names)),
        more: vec![
            group.similar_count.to_string(),
            group.matching_count.to_string(),
            group.media.map(|media| media.to_string()).unwrap_or_default(),
            time(group.first),
            time(group.last),
        ],
    }
}

fn member_row(shell: &Layout, hit: &SimilarHit, root: &str, names: &ReaderFields) -> FileRow {
    FileRow {
        identity: format!("article {} {}", hit.index, hit.id),
        root: root.to_owned(),
        index: hit.index.clone(),
        id: hit.id.clone(),
        title: shell.title(&hit.source, names),
        medium: hit.medium.clone(),
        time: hit.time,
        updated: hit.time,
        link: fields::link(&hit.source, names.url.as_deref()),
        summary: summary(&hit.source, names),
        more: vec![hit.similarity.map(|ratio| format!("{ratio:.2}")).unwrap_or_default()],
    }
}

impl FilePage {
    fn response(mut self, format: FileFormat, name: &str) -> Response<Body> {
        let text = match format {
            FileFormat::Atom => self.atom(clock::now()),
            FileFormat::Csv => self.csv(),
            FileFormat::Json => {
                self.json["next_page"] = json!(self.next);
                self.json.to_string()
            }
        };
        response::file(format.media_type(), &file_name(name, format), self.next.as_deref(), text)
    }

    /// RFC 4287, with the link to the next page of RFC 5005. `now`: of a feed without an entry that has a time.
    fn atom(&self, now: Millis) -> String {
        let updated = self.rows.iter().filter_map(|row| row.updated.filter(|time| rfc3339(*time).is_some())).max();
        let updated = updated.and_then(rfc3339).or_else(|| rfc3339(now)).unwrap_or_default();
        let mut atom = String::from(r#"<?xml version="1.0" encoding="utf-8"?>"#);
        atom.push_str("\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n");
        element(&mut atom, "id", &urn(&self.identity));
        element(&mut atom, "title", &self.title);
        element(&mut atom, "updated", &updated);
        atom.push_str("<author><name>spinney</name></author>\n");
        link(&mut atom, "self", "application/atom+xml", &self.this);
        link(&mut atom, "alternate", "text/html", &self.page);
        if let Some(next) = &self.next {
            link(&mut atom, "next", "application/atom+xml", next);
        }
        for row in &self.rows {
            atom.push_str("<entry>\n");
            element(&mut atom, "id", &urn(&row.identity));
            element(&mut atom, "title", &row.title);
            element(&mut atom, "updated", &row.updated.and_then(rfc3339).unwrap_or_else(|| updated.clone()));
            if let Some(time) = row.time.and_then(rfc3339) {
                element(&mut atom, "published", &time);
            }
            if let Some(medium) = &row.medium {
                atom.push_str("<author>");
                element(&mut atom, "name", medium);
                atom.push_str("</author>\n");
            }
            link(&mut atom, "alternate", "text/html", &url::article(&row.index, &row.id));
            if let Some(original) = &row.link {
                link(&mut atom, "via", "text/html", original);
            }
            element(&mut atom, "summary", &row.summary);
            atom.push_str("</entry>\n");
        }
        atom.push_str("</feed>\n");
        atom
    }

    /// RFC 4180. The last row has the address of the next page, if need be alone; a mark at the beginning says that it
    /// is UTF-8.
    fn csv(&self) -> String {
        let mut csv = String::from("\u{feff}");
        let own = COLUMNS.iter().chain(self.columns).copied();
        line(&mut csv, own.clone().chain(["next"]));
        if let Some(next) = self.next.as_deref().filter(|_| self.rows.is_empty()) {
            line(&mut csv, own.map(|_| "").chain([next]));
        }
        for (at, row) in self.rows.iter().enumerate() {
            let time = row.time.and_then(rfc3339).unwrap_or_default();
            let next = self.next.as_deref().filter(|_| at + 1 == self.rows.len()).unwrap_or_default();
            let own = [&row.root, &row.index, &row.id, &row.title];
            let own = own.into_iter().map(String::as_str);
            let own = own.chain([row.medium.as_deref().unwrap_or_default(), &time]);
            let own = own.chain([row.link.as_deref().unwrap_or_default()]);
            line(&mut csv, own.chain(row.more.iter().map(String::as_str)).chain([next]));
        }
        csv
    }
}

/// Writes a row. Cells that a spreadsheet would take for a formula begin with an apostrophe.
fn line<'c>(csv: &mut String, cells: impl Iterator<Item = &'c str>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            csv.push(',');
        }
        csv.push('"');
        let formula = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];
        if cell.trim_start_matches(' ').starts_with(formula) {
            csv.push('\'');
        }
        csv.push_str(&cell.replace('"', "\"\""));
        csv.push('"');
    }
    csv.push_str("\r\n");
}

fn element(atom: &mut String, name: &str, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(atom, "<{name}>{}</{name}>", xml(text));
}

fn link(atom: &mut String, rel: &str, media_type: &str, address: &str) {
    let _ = writeln!(atom, r#"<link rel="{rel}" type="{media_type}" href="{}"/>"#, xml(address));
}

/// Text in XML, without characters that XML cannot have.
fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' => escaped.push(c),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A name for ever: a UUID of version 8, which is what its maker says.
fn urn(identity: &str) -> String {
    let hash = xxh3_128(identity.as_bytes());
    let hash = hash & !(0xf << 76) & !(0x3 << 62) | 0x8 << 76 | 0x2 << 62;
    let hex = format!("{hash:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("urn:uuid:{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// A time as Atom takes it; `None` outside of the years that it can have.
fn rfc3339(time: Millis) -> Option<String> {
    Some(format_date(time))
        .filter(|text| text.len() == 24 && text.ends_with('Z') && text.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(title: &str) -> FileRow {
        FileRow {
            identity: "group news-1 7".into(),
            root: "00".into(),
            index: "news-1".into(),
            id: "a/b".into(),
            title: title.into(),
            medium: Some("A & B".into()),
            time: Some(Millis(0)),
            updated: Some(Millis(1_795_251_000_000)),
            link: Some("https://a.example/?x=1&y=2".into()),
            summary: "\u{0}<b>".into(),
            more: vec!["3".into()],
        }
    }

    fn file(rows: Vec<FileRow>) -> FilePage {
        FilePage {
            identity: "list news-1".into(),
            title: "news-1".into(),
            page: "/_spinney/ui/news-1".into(),
            this: "/_spinney/ui/news-1?format=atom".into(),
            next: Some("/_spinney/ui/news-1?format=atom&cursor=c".into()),
            columns: &["similar_count"],
            rows,
            json: json!({}),
        }
    }

    #[test]
    fn cells_are_no_formulas() {
        let csv = file(vec![row("=cmd|' /C calc'!A0"), row(" @SUM(1)\",\"x\r\ny")]).csv();
        let lines: Vec<&str> = csv.split("\r\n").collect();
        assert_eq!(
            lines[0],
            "\u{feff}\"root\",\"index\",\"id\",\"title\",\"medium\",\"time\",\"url\",\"similar_count\",\"next\""
        );
        assert!(lines[1].contains(",\"'=cmd|' /C calc'!A0\","), "{csv}");
        assert!(lines[1].ends_with(",\"3\",\"\""), "{csv}");
        assert!(lines[2].contains(",\"' @SUM(1)\"\",\"\"x"), "{csv}");
        assert!(lines[3].ends_with("cursor=c\""), "{csv}");
        for formula in ["+1", "-1", "\t=1", "＝1", "@a"] {
            let mut text = String::new();
            line(&mut text, [formula].into_iter());
            assert!(text.starts_with("\"'"), "{text}");
        }
    }

    #[test]
    fn a_file_without_rows_has_the_same_columns_and_the_address_of_the_next() {
        let first = |csv: &str| csv.split("\r\n").next().unwrap_or_default().to_owned();
        let (some, none) = (file(vec![row("a")]).csv(), file(vec![]).csv());
        assert_eq!(first(&none), first(&some));
        let cells: Vec<&str> = none.split("\r\n").nth(1).unwrap().split(',').collect();
        assert_eq!((cells.len(), cells[8]), (9, "\"/_spinney/ui/news-1?format=atom&cursor=c\""), "{none}");
        let last = FilePage { next: None, ..file(vec![]) }.csv();
        assert_eq!(last.matches("\r\n").count(), 1, "{last}");
    }

    #[test]
    fn a_feed_has_what_atom_demands() {
        let atom = file(vec![row("A <script> & \"b\"")]).atom(Millis(0));
        for part in [
            "<updated>2026-11-21T08:50:00.000Z</updated>",
            "<title>A &lt;script&gt; &amp; &quot;b&quot;</title>",
            "<published>1970-01-01T00:00:00.000Z</published>",
            "<author><name>A &amp; B</name>",
            "href=\"/_spinney/ui/news-1/article/a%2Fb\"",
            "<link rel=\"via\" type=\"text/html\" href=\"https://a.example/?x=1&amp;y=2\"/>",
            "<link rel=\"next\" type=\"application/atom+xml\" href=\"/_spinney/ui/news-1?format=atom&amp;cursor=c\"/>",
            "<summary>\u{fffd}&lt;b&gt;</summary>",
        ] {
            assert!(atom.contains(part), "{part} in {atom}");
        }
        assert!(file(vec![]).atom(Millis(0)).contains("<updated>1970-01-01T00:00:00.000Z</updated>"));
    }

    #[test]
    fn ids_and_names() {
        let id = urn("x");
        assert_eq!(id, urn("x"));
        assert_ne!(id, urn("y"));
        assert_eq!(id.len(), "urn:uuid:".len() + 36);
        assert_eq!(id.split('-').nth(2).unwrap().chars().next(), Some('8'));
        assert!(id.split('-').nth(3).unwrap().starts_with(['8', '9', 'a', 'b']), "{id}");
        assert_eq!(file_name("news-*/\"新", FileFormat::Csv), "spinney-news-____.csv");
        assert_eq!(rfc3339(Millis(i64::MAX)), None);
        assert_eq!(FileFormat::of(&QueryString::parse(Some("format=exe"))), None);
    }
}
