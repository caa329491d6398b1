//! Looks at a simulated world from time to time, and writes its record where one is wanted.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use dovetail_api::manifest::Manifest;
use dovetail_input::{Failure, Mistake, read_text};
use serde_json::{Map, Value};

use super::{RecordBegin, RecordSource, RecordWriter, SeenAt, Series, VERSION, observe_world};
use crate::world::World;

/// Keys of a scenario that a record has as lines, and its variables, which are filled in.
const AS_LINES: [&str; 3] = ["apply", "steps", "env"];

#[derive(Default)]
struct Kept {
    writer: Option<RecordWriter>,
    series: Series,
    failed: Option<Failure>,
}

/// Looks that are kept, and the record that is written.
#[derive(Clone)]
pub(crate) struct RecordKeeper {
    every: Duration,
    /// The scenario's steps as they are written.
    steps: Rc<Vec<Map<String, Value>>>,
    kept: Rc<RefCell<Kept>>,
}

impl RecordKeeper {
    /// A keeper for the scenario at `path`; `record` is the file of the record.
    ///
    /// # Errors
    /// The scenario or the file of the record.
    pub(crate) fn new(path: &str, every: Duration, record: Option<&str>, seed: u64) -> Result<Self, Failure> {
        let text = read_text(path)?;
        let read: Result<Map<String, Value>, _> = serde_saphyr::from_str(&text);
        let mut scenario = read.map_err(|why| Mistake::of_file(path, why.to_string()))?;
        let steps = scenario.get("steps").cloned().unwrap_or_default();
        let steps: Vec<Map<String, Value>> = serde_json::from_value(steps).unwrap_or_default();
        AS_LINES.iter().for_each(|key| drop(scenario.remove(*key)));
        scenario.insert("seed".to_owned(), seed.into());
        let begin = RecordBegin {
            version: VERSION,
            source: RecordSource::Simulation,
            started: dovetail_sandbox::clock::DEFAULT_START.to_string(),
            every: every.as_secs_f64(),
            hashed: false,
            prices: "the sandbox's region, with synthetic spot prices".to_owned(),
            scenario,
        };
        let writer = record.map(|file| RecordWriter::create(file, begin)).transpose()?;
        let kept = Kept { writer, ..Kept::default() };
        Ok(Self { every, steps: Rc::new(steps), kept: Rc::new(RefCell::new(kept)) })
    }

    fn write(&self, line: impl FnOnce(&mut RecordWriter) -> Result<(), Failure>) {
        let mut kept = self.kept.borrow_mut();
        if kept.failed.is_none()
            && let Some(Err(why)) = kept.writer.as_mut().map(line)
        {
            kept.failed = Some(why);
        }
    }

    /// Manifests that are applied.
    pub(crate) fn applied(&self, t: Duration, manifests: &[Manifest]) {
        self.write(|writer| writer.apply_manifests(t.as_secs_f64(), manifests));
    }

    /// A step, by its place in the scenario.
    pub(crate) fn stepped(&self, t: Duration, step: usize) {
        let Some(mut step) = self.steps.get(step).cloned() else { return };
        step.remove("at");
        self.write(|writer| writer.step(t.as_secs_f64(), step));
    }

    /// Looks at the world for as long as it is there.
    pub(crate) async fn look_on(self, world: Rc<World>, from: tokio::time::Instant) {
        loop {
            tokio::time::sleep(self.every).await;
            self.look_at(&world, from.elapsed());
        }
    }

    fn look_at(&self, world: &World, t: Duration) {
        let (t, seen) = (t.as_secs_f64(), observe_world(world));
        self.kept.borrow_mut().series.all.push(SeenAt { t, seen: seen.clone() });
        self.write(|writer| writer.seen(t, seen));
    }

    /// The last look, and the end of the record.
    ///
    /// # Errors
    /// The record could not be written.
    pub(crate) fn end(&self, world: &World, t: Duration) -> Result<Series, Failure> {
        if self.kept.borrow().series.all.last().is_none_or(|last| last.t < t.as_secs_f64()) {
            self.look_at(world, t);
        }
        let mut kept = self.kept.borrow_mut();
        if let Some(why) = kept.failed.take() {
            return Err(why);
        }
        kept.writer.take().map_or(Ok(()), |writer| writer.end(t.as_secs_f64()))?;
        Ok(std::mem::take(&mut kept.series))
    }
}
