//! State of the screen, changed by keys, the mouse and readings. It decides what is shown; drawing only draws it.

use std::cmp::Ordering;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::facts::{DecisionRow, Facts, NodeRow, PendingRow, PoolRow};
use super::reading::Subject;
use super::sorting::SortKey;
use crate::explain::Kind;
use crate::live::escape::escape;

/// Rows that a turn of the wheel moves by.
const WHEEL: usize = 3;
/// Longest filter, in characters.
const LONGEST_FILTER: usize = 60;

/// Lists that are shown one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    #[default]
    Nodes,
    Pools,
    Pending,
    Decisions,
}

impl Tab {
    pub const ALL: [Self; 4] = [Self::Nodes, Self::Pools, Self::Pending, Self::Decisions];

    pub fn title(self) -> &'static str {
        match self {
            Self::Nodes => "Nodes",
            Self::Pools => "Pools",
            Self::Pending => "Pending",
            Self::Decisions => "Decisions",
        }
    }

    fn step(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|one| *one == self).unwrap_or_default();
        Self::ALL[(at + by) % Self::ALL.len()]
    }
}

/// Text over the lists: help, or the answer of `explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    pub title: String,
    pub lines: Vec<String>,
    /// Lines above the first that is shown.
    pub top: usize,
}

/// Requests of the screen to its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Quit,
    Read,
    Explain(Subject),
}

/// Places of what can be clicked, as drawn last.
#[derive(Clone, Debug, Default)]
pub struct Places {
    pub tabs: Vec<(Rect, Tab)>,
    pub headings: Vec<(Rect, SortKey)>,
    /// The rows, and the number of the first that is shown.
    pub rows: Rect,
    pub first: usize,
}

#[derive(Default)]
pub struct Screen {
    pub facts: Option<Facts>,
    /// The failure of the last reading; the facts are then older.
    pub problem: Option<String>,
    pub tab: Tab,
    pub sort: SortKey,
    pub is_descending: bool,
    pub filter: String,
    /// True while the filter is typed.
    pub is_typing: bool,
    /// Place of the chosen row among those shown.
    pub chosen: usize,
    pub overlay: Option<Overlay>,
    /// The answer that is awaited.
    pub awaited: Option<Subject>,
    pub is_paused: bool,
    pub places: Places,
}

impl Screen {
    /// Takes in a reading. A paused screen keeps its own.
    pub fn show(&mut self, facts: Facts) {
        self.problem = None;
        if !self.is_paused || self.facts.is_none() {
            self.facts = Some(facts);
        }
    }

    /// Shows the answer that was awaited; one to an earlier question is dropped.
    pub fn answer(&mut self, subject: &Subject, answer: Result<String, String>) {
        if self.awaited.as_ref() != Some(subject) {
            return;
        }
        self.awaited = None;
        let text = answer.unwrap_or_else(|why| why);
        let lines = text.lines().map(escape).collect();
        self.overlay = Some(Overlay { title: format!(" explain {} ", subject_name(subject)), lines, top: 0 });
    }

    /// The nodes that are shown, in their order.
    pub fn nodes(&self) -> Vec<&NodeRow> {
        let all = self.facts.iter().flat_map(|facts| &facts.nodes);
        let texts = |row: &&NodeRow| {
            self.is_shown(&[&row.name, &row.pool, &row.instance_type, &row.zone, &row.capacity_type, row.phase.name()])
        };
        let mut rows: Vec<&NodeRow> = all.filter(texts).collect();
        rows.sort_by(|one, other| self.directed(self.sort.order_nodes(one, other)).then(one.name.cmp(&other.name)));
        rows
    }

    /// The pools that are shown, in their order.
    pub fn pools(&self) -> Vec<&PoolRow> {
        let all = self.facts.iter().flat_map(|facts| &facts.pools);
        let mut rows: Vec<&PoolRow> = all.filter(|row| self.is_shown(&[&row.name])).collect();
        rows.sort_by(|one, other| self.directed(self.sort.order_pools(one, other)).then(one.name.cmp(&other.name)));
        rows
    }

    pub fn pending(&self) -> Vec<&PendingRow> {
        let all = self.facts.iter().flat_map(|facts| &facts.pending);
        all.filter(|row| self.is_shown(&[&row.namespace, &row.pod, &row.why])).collect()
    }

    pub fn decisions(&self) -> Vec<&DecisionRow> {
        let all = self.facts.iter().flat_map(|facts| &facts.decisions);
        all.filter(|row| self.is_shown(&[&row.reason, &row.object, &row.message])).collect()
    }

    fn directed(&self, order: Ordering) -> Ordering {
        if self.is_descending { order.reverse() } else { order }
    }

    fn is_shown(&self, texts: &[&str]) -> bool {
        let wanted = self.filter.to_lowercase();
        wanted.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&wanted))
    }

    /// Number of rows of the list.
    pub fn len(&self) -> usize {
        match self.tab {
            Tab::Nodes => self.nodes().len(),
            Tab::Pools => self.pools().len(),
            Tab::Pending => self.pending().len(),
            Tab::Decisions => self.decisions().len(),
        }
    }

    /// Takes a key.
    pub fn press(&mut self, key: KeyEvent) -> Option<Request> {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && key.code == KeyCode::Char('c') {
            return Some(Request::Quit);
        }
        if self.is_typing {
            self.type_filter(key.code);
            return None;
        }
        if self.overlay.is_some() {
            self.press_in_overlay(key.code);
            return None;
        }
        match key.code {
            KeyCode::Char('q') => return Some(Request::Quit),
            KeyCode::Esc if self.awaited.take().is_none() => self.filter.clear(),
            KeyCode::Char('u') => return Some(Request::Read),
            KeyCode::Enter => return self.explain(),
            KeyCode::Char('?' | 'h') => self.overlay = Some(help()),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('r') => self.is_descending = !self.is_descending,
            KeyCode::Char(digit @ '1'..='4') => self.turn_to(Tab::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab | KeyCode::Right => self.turn_to(self.tab.step(1)),
            KeyCode::BackTab | KeyCode::Left => self.turn_to(self.tab.step(Tab::ALL.len() - 1)),
            code => self.move_by_key(code),
        }
        None
    }

    fn move_by_key(&mut self, code: KeyCode) {
        let page = usize::from(self.places.rows.height).max(1);
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.choose(self.chosen.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(self.chosen + 1),
            KeyCode::PageUp => self.choose(self.chosen.saturating_sub(page)),
            KeyCode::PageDown => self.choose(self.chosen + page),
            KeyCode::Home | KeyCode::Char('g') => self.choose(0),
            KeyCode::End | KeyCode::Char('G') => self.choose(usize::MAX),
            _ => {}
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => (self.is_typing, self.filter) = (false, String::new()),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(one) if self.filter.chars().count() < LONGEST_FILTER => self.filter.push(one),
            _ => {}
        }
        self.choose(0);
    }

    fn press_in_overlay(&mut self, code: KeyCode) {
        let page = usize::from(self.places.rows.height).max(1);
        let Some(overlay) = &mut self.overlay else { return };
        let last = overlay.lines.len().saturating_sub(1);
        match code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q' | '?' | 'h') => self.overlay = None,
            KeyCode::Up | KeyCode::Char('k') => overlay.top = overlay.top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => overlay.top = (overlay.top + 1).min(last),
            KeyCode::PageUp => overlay.top = overlay.top.saturating_sub(page),
            KeyCode::PageDown => overlay.top = (overlay.top + page).min(last),
            KeyCode::Home | KeyCode::Char('g') => overlay.top = 0,
            KeyCode::End | KeyCode::Char('G') => overlay.top = last,
            _ => {}
        }
    }

    /// Takes a turn or a click of the mouse.
    pub fn point(&mut self, mouse: MouseEvent) -> Option<Request> {
        let at = Position::new(mouse.column, mouse.row);
        match mouse.kind {
            MouseEventKind::ScrollDown => self.scroll(true),
            MouseEventKind::ScrollUp => self.scroll(false),
            MouseEventKind::Down(MouseButton::Left) => return self.click(at),
            _ => {}
        }
        None
    }

    fn scroll(&mut self, is_down: bool) {
        match &mut self.overlay {
            Some(overlay) if is_down => {
                overlay.top = (overlay.top + WHEEL).min(overlay.lines.len().saturating_sub(1));
            }
            Some(overlay) => overlay.top = overlay.top.saturating_sub(WHEEL),
            None if is_down => self.choose(self.chosen + WHEEL),
            None => self.choose(self.chosen.saturating_sub(WHEEL)),
        }
    }

    fn click(&mut self, at: Position) -> Option<Request> {
        if self.overlay.take().is_some() {
            return None;
        }
        let tab = self.places.tabs.iter().find(|(place, _)| place.contains(at)).map(|(_, tab)| *tab);
        let heading = self.places.headings.iter().find(|(place, _)| place.contains(at)).map(|(_, key)| *key);
        if let Some(tab) = tab {
            self.turn_to(tab);
        } else if let Some(key) = heading {
            (self.is_descending, self.sort) = (self.sort == key && !self.is_descending, key);
        } else if self.places.rows.contains(at) {
            let row = self.places.first + usize::from(at.y - self.places.rows.y);
            if row < self.len() {
                let again = self.chosen == row;
                self.choose(row);
                return if again { self.explain() } else { None };
            }
        }
        None
    }

    fn turn_to(&mut self, tab: Tab) {
        (self.tab, self.chosen) = (tab, 0);
    }

    fn choose(&mut self, row: usize) {
        self.chosen = row.min(self.len().saturating_sub(1));
    }

    /// Asks for the answer about the chosen row.
    fn explain(&mut self) -> Option<Request> {
        let subject = match self.tab {
            Tab::Nodes => self.nodes().get(self.chosen).map(|row| Subject {
                kind: if row.is_claim { Kind::Claim } else { Kind::Node },
                namespace: None,
                name: row.name.clone(),
            }),
            Tab::Pools => self.pools().get(self.chosen).map(|row| Subject {
                kind: Kind::Pool,
                namespace: None,
                name: row.name.clone(),
            }),
            Tab::Pending => self.pending().get(self.chosen).map(|row| Subject {
                kind: Kind::Pod,
                namespace: Some(row.namespace.clone()),
                name: row.pod.clone(),
            }),
            Tab::Decisions => {
                let lines = self.decisions().get(self.chosen).map(|row| {
                    let at = row.at.map(|at| at.to_string()).unwrap_or_default();
                    [at.as_str(), &row.object, &row.reason, "", &row.message].map(escape).to_vec()
                });
                self.overlay = lines.map(|lines| Overlay { title: " decision ".to_owned(), lines, top: 0 });
                None
            }
        }?;
        self.awaited = Some(subject.clone());
        Some(Request::Explain(subject))
    }
}

/// Name of an object for a person.
pub fn subject_name(subject: &Subject) -> String {
    let kind = match subject.kind {
        Kind::Pod => "pod",
        Kind::Node => "node",
        Kind::Claim => "nodeclaim",
        Kind::Pool => "nodepool",
    };
    let place = subject.namespace.as_deref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    escape(&format!("{kind} {place}{}", subject.name))
}

fn help() -> Overlay {
    let lines = [
        "1 2 3 4, Tab   nodes, pools, pending pods, decisions",
        "Up Down j k    choose a row; PageUp, PageDown, Home, End",
        "Enter          explain it: why it exists, stays or waits",
        "/              filter by any text of a row; Esc ends it",
        "s              sort by the next column; r turns the order",
        "space          keep this reading; again: go on",
        "u              read the cluster now",
        "q              leave",
        "",
        "The mouse works: tabs, headings, rows (twice: explain), wheel.",
        "A node's CPU and memory are its pods' requests, as packing sees them.",
        "$/H is the price by the offers of now; - where it is not known.",
    ];
    Overlay { title: " help ".to_owned(), lines: lines.map(str::to_owned).to_vec(), top: 0 }
}
