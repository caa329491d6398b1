//! The log: one line a happening. For a machine JSON with the keys that Karpenter's log has (`level`, `time`, `logger`,
//! `message`, `commit`; core spec 8) and the particulars beside them; for a person a time, a name and a sentence.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// The wall time as RFC 3339, from wherever it comes.
type TimestampSource = Arc<dyn Fn() -> String + Send + Sync>;

/// Options of the log.
pub struct LogOptions {
    /// `debug`, `info` or `error`.
    pub level: String,
    /// For a machine.
    pub json: bool,
    /// `stdout`, `stderr` or paths.
    pub outputs: Vec<String>,
    /// Commit that the binary was made from.
    pub commit: &'static str,
    /// Source of a line's time.
    pub stamp: TimestampSource,
}

/// Everything of ours at `level`; of libraries only what went wrong: their debug lines may show what was sent. What kube's
/// client says of every single attempt is left out: whoever asked says once that the API server is away.
fn filter(level: &str) -> EnvFilter {
    EnvFilter::new(format!(
        "error,kube_client::client::builder=off,dovetail={level},dovetail_actors={level},dovetail_cloud={level},dovetail_observability={level}"
    ))
}

/// Sets the process's log up.
///
/// # Errors
/// A file cannot be written, or there is a log already.
pub fn start(options: LogOptions) -> io::Result<()> {
    let outputs = options.outputs.iter().map(|path| Output::open(path)).collect::<io::Result<_>>()?;
    let lines = Lines { json: options.json, commit: options.commit, stamp: options.stamp };
    tracing_subscriber::fmt()
        .with_env_filter(filter(&options.level))
        .event_format(lines)
        .with_writer(Outputs(Arc::new(outputs)))
        .try_init()
        .map_err(io::Error::other)
}

enum Output {
    Stdout,
    Stderr,
    File(Mutex<File>),
}

impl Output {
    fn open(path: &str) -> io::Result<Self> {
        Ok(match path {
            "stdout" => Self::Stdout,
            "stderr" => Self::Stderr,
            path => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                let named = |error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"));
                Self::File(Mutex::new(file.map_err(named)?))
            }
        })
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().lock().write_all(line),
            Self::Stderr => io::stderr().lock().write_all(line),
            Self::File(file) => file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line),
        }
    }
}

/// Every output of the log.
#[derive(Clone)]
struct Outputs(Arc<Vec<Output>>);

impl<'a> MakeWriter<'a> for Outputs {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Outputs {
    /// One line at a time. A place that takes no more is no reason to stop what the log is about.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        for output in self.0.iter() {
            let _ = output.write(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Formatter of lines.
struct Lines {
    json: bool,
    commit: &'static str,
    stamp: TimestampSource,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let logger = fields.take_field("logger").unwrap_or_else(|| event.metadata().target().to_owned());
        let message = fields.take_field("message").unwrap_or_default();
        let level = *event.metadata().level();
        let stamp = (self.stamp)();
        if self.json {
            writeln!(to, "{}", self.json(level, &stamp, logger, message, fields))
        } else {
            writeln!(to, "{}", plain(level, &stamp, &logger, &message, &fields))
        }
    }
}

impl Lines {
    fn json(&self, level: Level, stamp: &str, logger: String, message: String, fields: Fields) -> Value {
        let mut line = Map::new();
        line.insert("level".into(), level.as_str().into());
        line.insert("time".into(), stamp.into());
        line.insert("logger".into(), logger.into());
        line.insert("message".into(), message.into());
        line.insert("commit".into(), self.commit.into());
        for (name, value) in fields.0 {
            // A log event brings its particulars as one JSON text: they stand beside the rest.
            match serde_json::from_value::<String>(value.clone()).ok().filter(|_| name == PARTICULARS) {
                Some(text) => line.extend(serde_json::from_str::<Map<String, Value>>(&text).unwrap_or_default()),
                None => drop(line.insert(name, value)),
            }
        }
        Value::Object(line)
    }
}

/// The field in which a log event's particulars stand, as JSON.
const PARTICULARS: &str = "fields";

fn plain(level: Level, stamp: &str, logger: &str, message: &str, fields: &Fields) -> String {
    let time = stamp.get(11..23).unwrap_or(stamp);
    let mut line = format!("{time} {level:<5} {logger:<15} {message}");
    // A log event says everything in its sentence.
    if !fields.0.contains_key(PARTICULARS) {
        for (name, value) in &fields.0 {
            line.push_str(&format!(" {name}={value}"));
        }
    }
    line
}

/// An event's fields.
#[derive(Default)]
struct Fields(BTreeMap<String, Value>);

impl Fields {
    fn take_field(&mut self, name: &str) -> Option<String> {
        match self.0.remove(name)? {
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        }
    }

    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        let value = value.into();
        if value.as_str() != Some("") {
            self.0.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Text that is written when `happens` runs.
    fn written(json: bool, level: &str, happens: impl FnOnce()) -> String {
        let path = std::env::temp_dir().join(format!("dovetail-log-{}-{json}-{level}", std::process::id()));
        let file = File::create(&path).unwrap();
        let lines = Lines { json, commit: "abc", stamp: Arc::new(|| "2026-01-01T12:00:01.250Z".into()) };
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter(level))
            .event_format(lines)
            .with_writer(Outputs(Arc::new(vec![Output::File(Mutex::new(file))])))
            .finish();
        tracing::subscriber::with_default(subscriber, happens);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        text
    }

    #[test]
    fn json_log_has_karpenters_keys_and_event_fields_beside_them() {
        let text = written(true, "info", || {
            let (logger, fields) = ("launcher", r#"{"event":"launched","zone":"us-east-1a"}"#);
            tracing::info!(target: "dovetail_actors", logger, term = 3_u64, trace_id = "", fields, "launched it");
        });
        let line: Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "level": "INFO", "time": "2026-01-01T12:00:01.250Z", "logger": "launcher", "message": "launched it",
            "commit": "abc", "term": 3, "event": "launched", "zone": "us-east-1a",
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn a_person_gets_a_time_a_name_and_a_sentence() {
        let text = written(false, "info", || {
            tracing::info!(target: "dovetail_actors", logger = "launcher", fields = "{}", "launched it");
        });
        assert_eq!(text, "12:00:01.250 INFO  launcher        launched it\n");
    }

    #[test]
    fn what_libraries_say_below_an_error_is_never_written() {
        let text = written(true, "debug", || {
            tracing::debug!(target: "dovetail_actors", "ours");
            tracing::debug!(target: "hyper::proto", "authorization: Bearer abc");
            tracing::info!(target: "aws_config", "a secret");
            tracing::error!(target: "kube_client", "broken");
        });
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(!text.contains("Bearer") && !text.contains("secret"), "{text}");
    }
}
