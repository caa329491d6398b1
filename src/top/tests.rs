#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::drawing::draw;
use super::facts::{DecisionRow, Facts, LimitRow, NodeRow, PendingRow, Phase, PoolRow, Share, Totals};
use super::plain;
use super::reading::Subject;
use super::screen::{Request, Screen, Tab};
use super::sorting::SortKey;
use crate::explain::Kind;
use crate::live::Missing;

const GIBI: i64 = 1 << 30;

fn node(name: &str, pool: &str, (cpu, of): (i64, i64), price: Option<f64>, phase: Phase) -> NodeRow {
    NodeRow {
        name: name.to_owned(),
        is_claim: phase == Phase::Launching,
        pool: pool.to_owned(),
        instance_type: "m6a.xlarge".to_owned(),
        capacity_type: if pool == "spot" { "spot" } else { "on-demand" }.to_owned(),
        zone: "us-east-1a".to_owned(),
        price,
        pods: Share { used: cpu / 500, of: 58 },
        cpu: Share { used: cpu, of },
        memory: Share { used: 3 * GIBI, of: 14 * GIBI },
        created: Some("2026-11-29T07:00:00Z".parse().unwrap()),
        phase,
    }
}

fn facts() -> Facts {
    let nodes = vec![
        node("ip-10-0-32-10.ec2.internal", "spot", (3_500, 3_920), Some(0.0531), Phase::Ready),
        node("ip-10-0-64-7.ec2.internal", "spot", (490, 3_920), Some(0.0544), Phase::Terminating),
        node("ip-10-0-96-1.ec2.internal", "default", (1_960, 3_920), None, Phase::NotReady),
        node("default-8x2kq", "default", (0, 4_000), Some(0.1728), Phase::Launching),
    ];
    let sum = |of| Share { used: 5_950, of };
    let pool = |name: &str, nodes, price, limit: Option<LimitRow>, is_ready| PoolRow {
        name: name.to_owned(),
        nodes,
        ready: nodes - 1,
        coming: 1,
        price,
        cpu: sum(7_840),
        memory: Share { used: 6 * GIBI, of: 28 * GIBI },
        limit,
        is_ready,
    };
    let limit = LimitRow { resource: "cpu".to_owned(), share: Share { used: 8_000, of: 10_000 } };
    Facts {
        at: "2026-11-29T09:05:00Z".parse().unwrap(),
        server: "https://127.0.0.1:6443".to_owned(),
        settings_from: "pod dovetail/dovetail-7d9c-x2, which leads".to_owned(),
        offers_from: "EC2".to_owned(),
        totals: Totals {
            nodes: 3,
            ready: 1,
            coming: 1,
            pods: 19,
            pending: 12,
            cpu: sum(11_760),
            memory: Share { used: 9 * GIBI, of: 42 * GIBI },
            price: 0.1075,
            unpriced: 1,
            spot: 2,
        },
        nodes,
        pools: vec![pool("default", 1, 0.0, None, false), pool("spot", 2, 0.1075, Some(limit), true)],
        pending: vec![PendingRow {
            namespace: "shop".to_owned(),
            pod: "web-6f-\u{1b}[31mx".to_owned(),
            count: 12,
            since: Some("2026-11-29T09:02:30Z".parse().unwrap()),
            why: "no instance type has 400 cores".to_owned(),
        }],
        decisions: vec![DecisionRow {
            at: Some("2026-11-29T09:04:58Z".parse().unwrap()),
            is_warning: true,
            reason: "FailedScheduling".to_owned(),
            object: "pod web-6f-x".to_owned(),
            message: "no instance type has 400 cores".to_owned(),
        }],
        missing: vec![],
    }
}

fn screen() -> Screen {
    let mut screen = Screen::default();
    screen.show(facts());
    screen
}

fn press(screen: &mut Screen, code: KeyCode) -> Option<Request> {
    screen.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn write(screen: &mut Screen, text: &str) {
    for one in text.chars() {
        assert_eq!(press(screen, KeyCode::Char(one)), None);
    }
}

/// The screen as text, lines without the spaces at their ends.
fn drawn(screen: &mut Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, screen, Some(Duration::from_secs(4)))).unwrap();
    let buffer = terminal.backend().buffer();
    let line =
        |y: u16| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>().trim_end().to_owned();
    (0..height).map(|y| line(y) + "\n").collect()
}

/// Holds a screen against the one that is kept; with WRITE_GOLDEN in the environment it is kept anew.
fn holds(name: &str, screen: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/top/golden").join(name);
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        std::fs::write(&path, screen).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert_eq!(screen, kept, "{name}:\n{screen}");
}

#[test]
fn screens_of_two_sizes_are_as_kept() {
    let mut narrow = screen();
    holds("nodes-80x24.txt", &drawn(&mut narrow, 80, 24));
    holds("nodes-200x50.txt", &drawn(&mut screen(), 200, 50));
    let mut all = String::new();
    for tab in ['2', '3', '4'] {
        press(&mut narrow, KeyCode::Char(tab));
        all += &drawn(&mut narrow, 80, 10);
    }
    holds("lists-80x10.txt", &all);
}

#[test]
fn narrow_terminals_drop_columns_and_none_breaks_it() {
    for (width, height) in [(1, 1), (10, 3), (20, 8), (40, 12), (79, 24), (500, 4)] {
        let mut screen = screen();
        drawn(&mut screen, width, height);
        press(&mut screen, KeyCode::Char('?'));
        drawn(&mut screen, width, height);
    }
    let shown = drawn(&mut screen(), 60, 24);
    assert!(shown.contains("NODE") && shown.contains("PHASE") && !shown.contains("TYPE"), "{shown}");
}

#[test]
fn keys_sort_filter_and_choose() {
    let mut screen = screen();
    let names = |screen: &Screen| screen.nodes().iter().map(|row| row.name[..10].to_owned()).collect::<Vec<_>>();
    press(&mut screen, KeyCode::Char('s'));
    press(&mut screen, KeyCode::Char('r'));
    assert_eq!((screen.sort, screen.is_descending), (SortKey::Cpu, true));
    assert_eq!(names(&screen), ["ip-10-0-32", "ip-10-0-96", "ip-10-0-64", "default-8x"]);
    press(&mut screen, KeyCode::Char('/'));
    write(&mut screen, "spotq");
    press(&mut screen, KeyCode::Backspace);
    assert_eq!(press(&mut screen, KeyCode::Enter), None);
    assert_eq!(names(&screen), ["ip-10-0-32", "ip-10-0-64"]);
    press(&mut screen, KeyCode::End);
    press(&mut screen, KeyCode::Down);
    assert_eq!(screen.chosen, 1);
    let asked = press(&mut screen, KeyCode::Enter);
    let name = "ip-10-0-64-7.ec2.internal".to_owned();
    let subject = Subject { kind: Kind::Node, namespace: None, name };
    assert_eq!(asked, Some(Request::Explain(subject.clone())));
    assert!(drawn(&mut screen, 80, 24).contains("explaining node ip-10-0-64-7.ec2.internal"));
    screen.answer(&subject, Ok("Node a\n  why\u{1b}[2J".to_owned()));
    let shown = drawn(&mut screen, 80, 24);
    assert!(shown.contains("why\\u{1b}[2J") && shown.contains("explain node"), "{shown}");
    assert_eq!(press(&mut screen, KeyCode::Char('q')), None, "it closes the answer first");
    assert_eq!(press(&mut screen, KeyCode::Char('q')), Some(Request::Quit));
}

#[test]
fn answers_nobody_waits_for_any_more_are_not_shown() {
    let mut screen = screen();
    let Some(Request::Explain(first)) = press(&mut screen, KeyCode::Enter) else { panic!("nothing asked") };
    assert_eq!(press(&mut screen, KeyCode::Esc), None);
    screen.answer(&first, Ok("late".to_owned()));
    assert_eq!(screen.overlay, None);
}

#[test]
fn clicks_choose_rows_tabs_and_columns_as_they_are_drawn() {
    let mut screen = screen();
    let text = drawn(&mut screen, 80, 24);
    let at = |word: &str| {
        let (y, line) = text.lines().enumerate().find(|(_, line)| line.contains(word)).unwrap();
        let x = line[..line.find(word).unwrap()].chars().count();
        (u16::try_from(x).unwrap(), u16::try_from(y).unwrap())
    };
    let click = |screen: &mut Screen, word: &str| {
        let (column, row) = at(word);
        let kind = MouseEventKind::Down(MouseButton::Left);
        screen.point(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })
    };
    assert_eq!(click(&mut screen, "ip-10-0-96"), None);
    let Some(Request::Explain(subject)) = click(&mut screen, "ip-10-0-96") else { panic!("it is chosen already") };
    assert_eq!(subject.name, "ip-10-0-96-1.ec2.internal");
    click(&mut screen, "$/H");
    assert_eq!((screen.sort, screen.is_descending), (SortKey::Price, false));
    click(&mut screen, "$/H");
    assert!(screen.is_descending);
    click(&mut screen, "Pools");
    assert_eq!(screen.tab, Tab::Pools);
    let outside = MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: 300,
        row: 300,
        modifiers: KeyModifiers::NONE,
    };
    assert_eq!(screen.point(outside), None);
}

#[test]
fn paused_screen_keeps_its_reading_and_failures_are_said() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char(' '));
    let mut later = facts();
    later.totals.nodes = 99;
    screen.show(later.clone());
    assert!(drawn(&mut screen, 80, 24).contains("paused, 4 s ago"));
    assert_eq!(screen.facts.as_ref().unwrap().totals.nodes, 3);
    press(&mut screen, KeyCode::Char(' '));
    later.missing = vec![Missing { what: "events".to_owned(), why: "we may not list them".to_owned() }];
    screen.show(later);
    assert!(drawn(&mut screen, 80, 24).contains("without events"));
    screen.problem = Some("the API server cannot be reached".to_owned());
    assert!(drawn(&mut screen, 80, 24).contains("cannot be read now, 4 s ago: the API server cannot be reached"));
}

#[test]
fn plain_text_has_every_row_and_no_escape_sequence() {
    let text = plain::render(&facts());
    for word in
        ["3 nodes", "ip-10-0-32-10", "default-8x2kq", "12 x shop/web-6f-\\u{1b}[31mx for 2m30", "FailedScheduling"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains('\u{1b}'));
}
