//! The session on a terminal: a thread reads the cluster, this one draws and takes keys.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

use dovetail_input::Failure;
use dovetail_telemetry::stopwatch::Stopwatch;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event, KeyEventKind};
use ratatui::crossterm::execute;

use super::TopArgs;
use super::drawing::draw;
use super::reading::{Reader, Reading, Subject};
use super::screen::{Request, Screen};

/// Longest time between two drawings: ages go on.
const REDRAW: Duration = Duration::from_millis(250);
/// Readings take at most this part of the time: a large cluster is read less often.
const PAUSE_PER_READING: u32 = 10;

enum Ask {
    Read,
    Explain(Subject),
}

enum News {
    Read(Result<Box<Reading>, String>),
    Explained(Subject, Result<String, String>),
}

pub fn run(args: &TopArgs) -> Result<(), Failure> {
    let mut reader = Reader::new(args.cluster.clone())?;
    // A cluster that cannot be read at all is said as of every other command, before the screen is taken.
    let first = reader.read_facts()?;
    let (asks, asked) = mpsc::channel();
    let (tell, news) = mpsc::channel();
    let every = args.every;
    let reading = std::thread::Builder::new().name("reading".to_owned());
    let spawned = reading.spawn(move || read_on(&mut reader, every, first.took, &asked, &tell));
    spawned.map_err(|why| Failure::System(why.to_string()))?;
    let mut terminal = ratatui::try_init().map_err(|why| Failure::System(format!("the terminal: {why}")))?;
    let mut screen = Screen::default();
    screen.show(first.facts);
    let taken = execute!(std::io::stdout(), EnableMouseCapture);
    let ended = taken.and_then(|()| interact(&mut terminal, &mut screen, &asks, &news));
    let _ = execute!(std::io::stdout(), DisableMouseCapture);
    ratatui::restore();
    ended.map_err(|why| Failure::System(format!("the terminal: {why}")))
}

/// Reads again and again, and answers in between, until nobody listens.
fn read_on(reader: &mut Reader, every: Duration, first: Duration, asked: &Receiver<Ask>, tell: &Sender<News>) {
    let mut pause = every.max(first * PAUSE_PER_READING);
    let mut since = Stopwatch::start();
    loop {
        let news = match asked.recv_timeout(pause.saturating_sub(since.elapsed())) {
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(Ask::Explain(subject)) => {
                let answer = reader.explain(&subject).map_err(|why| crate::live::describe(&why));
                News::Explained(subject, answer)
            }
            Ok(Ask::Read) | Err(RecvTimeoutError::Timeout) => {
                let watch = Stopwatch::start();
                let read = reader.read_facts().map(Box::new).map_err(|why| crate::live::describe(&why));
                pause = every.max(watch.elapsed() * PAUSE_PER_READING);
                since = Stopwatch::start();
                News::Read(read)
            }
        };
        if tell.send(news).is_err() {
            return;
        }
    }
}

fn interact(
    terminal: &mut DefaultTerminal,
    screen: &mut Screen,
    asks: &Sender<Ask>,
    news: &Receiver<News>,
) -> std::io::Result<()> {
    let mut read_at = Stopwatch::start();
    loop {
        loop {
            match news.try_recv() {
                Ok(News::Read(Ok(reading))) => {
                    if !screen.is_paused {
                        read_at = Stopwatch::start();
                    }
                    screen.show(reading.facts);
                }
                Ok(News::Read(Err(why))) => screen.problem = Some(why),
                Ok(News::Explained(subject, answer)) => screen.answer(&subject, answer),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    screen.problem = Some("the reading of the cluster has ended by a fault of ours".to_owned());
                    break;
                }
            }
        }
        terminal.draw(|frame| draw(frame, screen, Some(read_at.elapsed())))?;
        if !event::poll(REDRAW)? {
            continue;
        }
        let request = match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => screen.press(key),
            Event::Mouse(mouse) => screen.point(mouse),
            _ => None,
        };
        match request {
            Some(Request::Quit) => return Ok(()),
            // A reader that is gone is shown at the next turn.
            Some(Request::Read) => drop(asks.send(Ask::Read)),
            Some(Request::Explain(subject)) => drop(asks.send(Ask::Explain(subject))),
            None => {}
        }
    }
}
