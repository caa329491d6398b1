//! Drawing of the screen. Colours are the sixteen that every terminal's theme makes readable; nothing is said by colour alone.

use std::time::Duration;

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::columns::{Column, NODES, POOLS, fitting};
use super::facts::{DecisionRow, Facts, PendingRow, Phase};
use super::figures::{age, bar, cores, gibibytes, text};
use super::screen::{Screen, Tab, subject_name};
use super::sorting::SortKey;

/// Hours of a month, for the price of one.
const HOURS_OF_MONTH: f64 = 730.0;
const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws the screen; the reading is so old.
pub fn draw(frame: &mut Frame<'_>, screen: &mut Screen, age: Option<Duration>) {
    let [head, tabs, body, foot] =
        Layout::vertical([Constraint::Length(3), Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(headline(screen, age)), head);
    draw_tabs(frame, screen, tabs);
    draw_list(frame, screen, body);
    frame.render_widget(Paragraph::new(footline(screen)), foot);
    draw_overlay(frame, screen, body);
}

/// Three lines of sums.
fn headline(screen: &Screen, age: Option<Duration>) -> Vec<Line<'static>> {
    let Some(facts) = &screen.facts else {
        let why = screen.problem.as_deref().map_or_else(|| "reading the cluster …".to_owned(), text);
        return vec![Line::from(why)];
    };
    let sums = &facts.totals;
    let unpriced = if sums.unpriced == 0 { String::new() } else { format!(", {} without a price", sums.unpriced) };
    // Dollars first: a narrow terminal cuts off the end, and the tabs have the pending pods.
    let first = format!(
        "${:.2}/h ${:.0}/month  {} nodes, {} Ready, {} coming, {} spot  {} pods{unpriced}",
        sums.price,
        sums.price * HOURS_OF_MONTH,
        sums.nodes,
        sums.ready,
        sums.coming,
        sums.spot,
        sums.pods,
    );
    let second = format!(
        "CPU {} {} of {}   memory {} {} of {}",
        bar(sums.cpu, 12),
        cores(sums.cpu.used),
        cores(sums.cpu.of),
        bar(sums.memory, 12),
        gibibytes(sums.memory.used),
        gibibytes(sums.memory.of),
    );
    vec![Line::styled(first, BOLD), Line::from(second), state_line(screen, facts, age)]
}

/// The line that says how far the figures can be believed.
fn state_line(screen: &Screen, facts: &Facts, age: Option<Duration>) -> Line<'static> {
    let old = age.map(|age| format!(", {} s ago", age.as_secs())).unwrap_or_default();
    if let Some(why) = &screen.problem {
        return Line::styled(format!("cannot be read now{old}: {}", text(why)), Style::new().fg(Color::Red));
    }
    let read = if screen.is_paused { format!("paused{old}") } else { format!("read{old}") };
    match facts.missing.as_slice() {
        [] => Line::styled(format!("{read}; settings: {}", text(&facts.settings_from)), FAINT),
        missing => {
            let names: Vec<String> = missing.iter().map(|one| text(&one.what)).collect();
            Line::styled(format!("{read}; without {}", names.join(", ")), Style::new().fg(Color::Yellow))
        }
    }
}

fn draw_tabs(frame: &mut Frame<'_>, screen: &mut Screen, place: Rect) {
    let counts = |tab: Tab| {
        let Some(facts) = &screen.facts else { return 0 };
        match tab {
            Tab::Nodes => facts.nodes.len(),
            Tab::Pools => facts.pools.len(),
            Tab::Pending => facts.totals.pending,
            Tab::Decisions => facts.decisions.len(),
        }
    };
    let (mut spans, mut places, mut x) = (Vec::new(), Vec::new(), place.x);
    for (at, tab) in Tab::ALL.into_iter().enumerate() {
        let words = format!(" {} {} ({}) ", at + 1, tab.title(), counts(tab));
        let width = u16::try_from(words.len()).unwrap_or(u16::MAX);
        places.push((Rect::new(x, place.y, width, 1).intersection(place), tab));
        x = x.saturating_add(width);
        spans.push(Span::styled(words, if tab == screen.tab { CHOSEN } else { Style::new() }));
    }
    screen.places.tabs = places;
    frame.render_widget(Paragraph::new(Line::from(spans)), place);
}

fn draw_list(frame: &mut Frame<'_>, screen: &mut Screen, place: Rect) {
    let now = screen.facts.as_ref().map_or(Timestamp::UNIX_EPOCH, |facts| facts.at);
    let width = usize::from(place.width);
    let (headings, widths, rows) = match screen.tab {
        Tab::Nodes => {
            let shown = fitting(&NODES, width);
            let rows = screen.nodes().into_iter().map(|row| (cells(&shown, row, now), style_of(row.phase))).collect();
            (headings_of(&shown), widths_of(&shown), rows)
        }
        Tab::Pools => {
            let shown = fitting(&POOLS, width);
            let style = |is_ready| if is_ready { Style::new() } else { Style::new().fg(Color::Red) };
            let rows = screen.pools().into_iter().map(|row| (cells(&shown, row, now), style(row.is_ready))).collect();
            (headings_of(&shown), widths_of(&shown), rows)
        }
        Tab::Pending => pending(&screen.pending(), now),
        Tab::Decisions => decisions(&screen.decisions(), now),
    };
    draw_table(frame, screen, place, (headings, widths, rows));
}

type Listed = (Vec<(&'static str, Option<SortKey>)>, Vec<Constraint>, Vec<(Vec<String>, Style)>);

fn cells<T>(columns: &[&Column<T>], row: &T, now: Timestamp) -> Vec<String> {
    columns.iter().map(|column| (column.text)(row, now)).collect()
}

fn headings_of<T>(columns: &[&Column<T>]) -> Vec<(&'static str, Option<SortKey>)> {
    columns.iter().map(|column| (column.title, column.sort)).collect()
}

/// Widths as they are; the first column takes the rest.
fn widths_of<T>(columns: &[&Column<T>]) -> Vec<Constraint> {
    let width = |(at, column): (usize, &&Column<T>)| match at {
        0 => Constraint::Min(column.width),
        _ => Constraint::Length(column.width),
    };
    columns.iter().enumerate().map(width).collect()
}

fn style_of(phase: Phase) -> Style {
    match phase {
        Phase::Ready => Style::new(),
        Phase::Launching | Phase::Booting => Style::new().fg(Color::Cyan),
        Phase::NotReady => Style::new().fg(Color::Red),
        Phase::Cordoned | Phase::Terminating => Style::new().fg(Color::Yellow),
    }
}

fn pending(rows: &[&PendingRow], now: Timestamp) -> Listed {
    let headings = vec![("POD", None), ("COUNT", None), ("SINCE", None), ("LAST WORD", None)];
    let widths = vec![Constraint::Length(32), Constraint::Length(5), Constraint::Length(6), Constraint::Min(20)];
    let row = |row: &&PendingRow| {
        let why = if row.why.is_empty() { "nothing was said yet; Enter explains".to_owned() } else { text(&row.why) };
        let pod = text(&format!("{}/{}", row.namespace, row.pod));
        (vec![pod, row.count.to_string(), age(row.since, now), why], Style::new())
    };
    (headings, widths, rows.iter().map(row).collect())
}

fn decisions(rows: &[&DecisionRow], now: Timestamp) -> Listed {
    let headings = vec![("AGO", None), ("REASON", None), ("OBJECT", None), ("MESSAGE", None)];
    let widths = vec![Constraint::Length(6), Constraint::Length(18), Constraint::Length(26), Constraint::Min(20)];
    let row = |row: &&DecisionRow| {
        let style = if row.is_warning { Style::new().fg(Color::Yellow) } else { Style::new() };
        (vec![age(row.at, now), text(&row.reason), text(&row.object), text(&row.message)], style)
    };
    (headings, widths, rows.iter().map(row).collect())
}

fn draw_table(frame: &mut Frame<'_>, screen: &mut Screen, place: Rect, (headings, widths, rows): Listed) {
    let marked = |(title, key): &(&'static str, Option<SortKey>)| match key {
        Some(key) if *key == screen.sort => format!("{title}{}", if screen.is_descending { "↓" } else { "↑" }),
        _ => (*title).to_owned(),
    };
    let count = rows.len();
    screen.chosen = screen.chosen.min(count.saturating_sub(1));
    let header = Row::new(headings.iter().map(marked).collect::<Vec<_>>()).style(BOLD);
    let body = rows.into_iter().map(|(cells, style)| Row::new(cells.into_iter().map(Cell::from)).style(style));
    let table = Table::new(body, widths.clone()).header(header).row_highlight_style(CHOSEN);
    let height = usize::from(place.height.saturating_sub(1));
    let first = screen.places.first.min(count.saturating_sub(height)).min(screen.chosen);
    let mut state = TableState::new().with_offset(first).with_selected((count > 0).then_some(screen.chosen));
    frame.render_stateful_widget(table, place, &mut state);
    let line = Rect { height: 1, ..place };
    let columns = Layout::horizontal(widths).spacing(1).split(line);
    let keyed = columns.iter().zip(&headings).filter_map(|(place, (_, key))| Some((*place, (*key)?)));
    screen.places.headings = keyed.collect();
    screen.places.rows = Rect { y: place.y.saturating_add(1), height: place.height.saturating_sub(1), ..place };
    screen.places.first = state.offset();
    if count == 0 {
        let words = match (&screen.facts, screen.filter.is_empty()) {
            (None, _) => "",
            (Some(_), true) => "none",
            (Some(_), false) => "none that the filter shows",
        };
        frame.render_widget(Paragraph::new(Line::styled(words, FAINT)), screen.places.rows);
    }
}

fn footline(screen: &Screen) -> Line<'static> {
    if screen.is_typing {
        return Line::from(format!("filter: {}_   Enter keeps it, Esc ends it", text_or_none(&screen.filter)));
    }
    if let Some(subject) = &screen.awaited {
        return Line::from(format!("explaining {} …   Esc gives up", subject_name(subject)));
    }
    let filter = if screen.filter.is_empty() { String::new() } else { format!("filter: {}   ", text(&screen.filter)) };
    let order = if screen.is_descending { "descending" } else { "ascending" };
    Line::styled(
        format!(
            "{filter}by {}, {order}   Enter explain  / filter  s sort  r turn  ? help  q leave",
            screen.sort.name()
        ),
        FAINT,
    )
}

fn text_or_none(filter: &str) -> String {
    if filter.is_empty() { String::new() } else { text(filter) }
}

fn draw_overlay(frame: &mut Frame<'_>, screen: &Screen, place: Rect) {
    let Some(overlay) = &screen.overlay else { return };
    let lines: Vec<Line<'_>> = overlay.lines.iter().skip(overlay.top).map(|line| Line::from(line.as_str())).collect();
    let block = Block::bordered().title(overlay.title.as_str()).title_bottom(" Esc goes back ");
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), place);
}
