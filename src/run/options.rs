//! The flags of `run`, one a setting, with the environment and a file beside them. A flag beats the environment, which beats the
//! file.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use dovetail_actors::Settings;
use dovetail_actors::settings::{KnownSetting, TABLE, without_effect};
use dovetail_core::Policy;
use dovetail_input::Mistake;

use super::file::ConfigFile;
use super::shadow;

/// Settings of the command line, by name.
#[derive(Clone, Debug, Default)]
pub struct RunArgs {
    flags: BTreeMap<&'static str, String>,
    config: Option<String>,
}

/// The flag that names the file of settings.
const CONFIG: &str = "config";

impl Args for RunArgs {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .help("A YAML file with settings, by name; flags and the environment beat it")
            .help_heading("File")
            .action(ArgAction::Set);
        TABLE.iter().fold(command.arg(config), |command, known| command.arg(argument(known)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(known: &'static KnownSetting) -> Arg {
    let default = if known.default.is_empty() { String::new() } else { format!(" [default: {}]", known.default) };
    let argument = Arg::new(known.name)
        .long(known.flag())
        .help(format!("{} [{}]{default}", known.what, known.name))
        .help_heading(known.topic.heading())
        .value_name(known.value)
        .action(ArgAction::Set)
        .allow_negative_numbers(true);
    if known.is_boolean() {
        // As Go's flags: the flag alone is `true`, a value follows `=`.
        return argument.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    argument
}

impl FromArgMatches for RunArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for known in TABLE {
            let given = matches.try_get_one::<String>(known.name);
            let given = given.map_err(|why| Error::raw(ErrorKind::UnknownArgument, why.to_string()))?;
            if let Some(text) = given {
                self.flags.insert(known.name, text.clone());
            }
        }
        let config = matches.try_get_one::<String>(CONFIG);
        let config = config.map_err(|why| Error::raw(ErrorKind::UnknownArgument, why.to_string()))?;
        self.config = config.cloned().or_else(|| self.config.take());
        Ok(())
    }
}

/// Settings as given, and whether they say where we are.
pub struct Given {
    /// Settings as given by options, variables and files, with defaults for the rest.
    pub settings: Settings,
    /// Settings given without effect, each with the reason.
    pub without_effect: Vec<String>,
    /// The names of the settings that are given.
    pub names: BTreeSet<String>,
    places: Places,
}

/// Places where settings are given, by name: the flag, or the line of the file; none for one of the environment.
#[derive(Clone, Debug, Default)]
struct Places(BTreeMap<&'static str, String>);

impl Places {
    /// Place where a setting is given: its flag, its line of the file, or its variable.
    fn place(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }
}

impl Given {
    /// Place where a setting is given: its flag, its line of the file, or its variable.
    pub fn place(&self, name: &str) -> String {
        self.places.place(name)
    }

    /// The settings, with what the service account says of where we are, if it was not given.
    pub fn placed(self, namespace: Option<String>) -> Settings {
        let mut settings = self.settings;
        if let Some(namespace) = namespace.filter(|_| !self.names.contains("SYSTEM_NAMESPACE")) {
            if !self.names.contains("LEADER_ELECTION_NAMESPACE") {
                settings.lease_namespace.clone_from(&namespace);
            }
            settings.system_namespace = namespace;
        }
        settings
    }
}

impl RunArgs {
    /// The settings: flags first, then the environment, then the file, then defaults. A variable that is empty counts as not
    /// given.
    ///
    /// # Errors
    /// One mistake a setting, named as it was given; those of the file alone where it cannot be read.
    pub fn settings(&self, variable: impl Fn(&str) -> Option<OsString>) -> Result<Given, Vec<Mistake>> {
        let file = self.config.as_deref().map(ConfigFile::read_file).transpose()?.unwrap_or_default();
        let (mut given, mut places, mut mistakes) = (BTreeMap::new(), Places::default(), Vec::new());
        for known in TABLE {
            if let Some(text) = self.flags.get(known.name) {
                given.insert(known.name.to_owned(), text.clone());
                places.0.insert(known.name, format!("--{}", known.flag()));
            } else if let Some(value) = variable(known.name).filter(|value| !value.is_empty()) {
                match value.into_string() {
                    Ok(text) => drop(given.insert(known.name.to_owned(), text)),
                    Err(_) => mistakes.push(Mistake::of_file(known.name, "is not UTF-8 text")),
                }
            } else if let Some(filed) = file.settings.get(known.name) {
                given.insert(known.name.to_owned(), filed.text.clone());
                places.0.insert(known.name, format!("{}:{}: {}", file.path, filed.line, filed.key));
            }
        }
        let settings = match Settings::from_map(&given) {
            Ok(settings) => settings,
            Err(errors) => {
                let refused = errors.into_iter().map(|error| {
                    let what = format!("{} (given {:?})", error.what, error.value);
                    Mistake::of_file(places.place(&error.name), what).allowing(error.allowed)
                });
                mistakes.extend(refused);
                Settings::default()
            }
        };
        if mistakes.is_empty() && settings.cluster_name.is_empty() {
            let allowed = "the name under which EKS knows the cluster";
            mistakes.push(Mistake::of_file("CLUSTER_NAME (--cluster-name)", "is not given").allowing(allowed));
        }
        if settings.policy == Policy::NodeGroups {
            let what = "node-groups is for comparisons, in plan and simulate";
            mistakes.push(Mistake::of_file(places.place("PACKING_POLICY"), what).allowing("cost, fewest-nodes"));
        }
        if settings.shadow {
            mistakes.extend(refused_in_shadow(&settings, &places));
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let mut said = without_effect(&given);
        if settings.shadow {
            said.extend(shadow::without_effect(&given));
        }
        Ok(Given { settings, without_effect: said, names: given.into_keys().collect(), places })
    }
}

/// Returns a setting that makes no sense without writes.
fn refused_in_shadow(settings: &Settings, places: &Places) -> Option<Mistake> {
    let what = "a shadow writes nothing, and the webhook keeps its certificates in a Secret and in the CRDs";
    let place = || places.place("WEBHOOK_ENABLED");
    settings.webhook.enabled.then(|| Mistake::of_file(place(), what).allowing("false with SHADOW (--shadow)"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn args(flags: &[&str]) -> Result<RunArgs, Error> {
        let command = RunArgs::augment_args(Command::new("run"));
        let matches = command.try_get_matches_from(std::iter::once(&"run").chain(flags))?;
        RunArgs::from_arg_matches(&matches)
    }

    fn read(flags: &[&str], variables: &[(&str, &str)]) -> Result<Settings, Vec<Mistake>> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
        args(flags).unwrap().settings(variable).map(|given| given.settings)
    }

    #[test]
    fn every_setting_has_a_flag_and_a_variable_and_the_flag_wins() {
        for known in TABLE {
            let text = if known.default.is_empty() { "https://x" } else { known.default };
            let flag = format!("--{}={text}", known.flag());
            assert!(args(&[&flag]).unwrap().flags.contains_key(known.name), "{flag}");
        }
        let variables = [("CLUSTER_NAME", "by-variable"), ("BATCH_MAX_DURATION", "20s")];
        let settings = read(&["--cluster-name", "by-flag"], &variables).unwrap();
        assert_eq!((settings.cluster_name.as_str(), settings.batch_max.as_secs()), ("by-flag", 20));
    }

    #[test]
    fn booleans_are_true_or_false_and_alone_they_are_true() {
        let named = ("CLUSTER_NAME", "demo");
        assert!(read(&["--disable-leader-election"], &[named]).unwrap().disable_leader_election);
        assert!(!read(&["--disable-leader-election=false"], &[named]).unwrap().disable_leader_election);
        let mistakes = read(&["--disable-leader-election=yes"], &[named]).unwrap_err();
        let expected = "--disable-leader-election: it is not a boolean (given \"yes\") (allowed: true, false)";
        assert_eq!(mistakes[0].to_string(), expected);
        let mistakes = read(&[], &[named, ("ISOLATED_VPC", "1")]).unwrap_err();
        assert!(mistakes[0].to_string().starts_with("ISOLATED_VPC: it is not a boolean"), "{}", mistakes[0]);
    }

    #[test]
    fn shadow_refuses_what_writes_and_names_what_has_no_effect() {
        let named = ("CLUSTER_NAME", "demo");
        let mistakes = read(&["--shadow", "--webhook-enabled"], &[named]).unwrap_err();
        let refused = mistakes[0].to_string();
        assert!(refused.starts_with("--webhook-enabled: a shadow writes nothing"), "{refused}");
        let variables = [named, ("INTERRUPTION_QUEUE", "demo"), ("DISABLE_LEADER_ELECTION", "true")];
        let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, v)| OsString::from(v));
        let given = args(&["--shadow"]).unwrap().settings(variable).unwrap();
        assert!(given.settings.shadow && given.without_effect.len() == 2, "{:?}", given.without_effect);
        assert!(given.without_effect.iter().any(|said| said.starts_with("INTERRUPTION_QUEUE=demo: ")));
        let without = args(&[]).unwrap().settings(variable).unwrap();
        assert_eq!(without.without_effect, [""; 0]);
    }

    #[test]
    fn file_is_beaten_by_environment_and_flags_and_named() {
        let path = std::env::temp_dir().join(format!("dovetail-config-{}.yaml", std::process::id()));
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        let flag = format!("--config={}", path.display());
        write("clusterName: by-file\nbatchMaxDuration: 20s\nbatchIdleDuration: 3s\n");
        let settings = read(&[&flag, "--batch-idle-duration=2s"], &[("BATCH_MAX_DURATION", "30s")]).unwrap();
        let seconds = (settings.batch_idle.as_secs(), settings.batch_max.as_secs());
        assert_eq!((settings.cluster_name.as_str(), seconds), ("by-file", (2, 30)));
        write("clusterName: by-file\nisolatedVPC: 1\n");
        let told = read(&[&flag], &[]).unwrap_err()[0].to_string();
        let place = format!("{}:2: isolatedVPC: it is not a boolean", path.display());
        assert!(told.starts_with(&place), "{told}");
        std::fs::remove_file(&path).unwrap();
        let told = read(&[&flag], &[]).unwrap_err()[0].to_string();
        assert!(told.ends_with(".yaml: no such file"), "{told}");
    }

    #[test]
    fn node_groups_are_no_policy_of_a_cluster() {
        let mistakes = read(&["--packing-policy", "node-groups"], &[("CLUSTER_NAME", "demo")]).unwrap_err();
        let refused = mistakes[0].to_string();
        assert!(refused.starts_with("--packing-policy: node-groups is for comparisons"), "{refused}");
    }

    #[test]
    fn the_service_account_says_where_we_are_unless_it_is_given() {
        let placed = |variables: &[(&str, &str)]| {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
            let given = args(&["--cluster-name", "demo"]).unwrap().settings(variable).map_err(|_| ()).unwrap();
            let settings = given.placed(Some("infra".into()));
            (settings.system_namespace, settings.lease_namespace)
        };
        let pair = |one: &str, two: &str| (one.to_owned(), two.to_owned());
        assert_eq!(placed(&[]), pair("infra", "infra"));
        assert_eq!(placed(&[("LEADER_ELECTION_NAMESPACE", "leases")]), pair("infra", "leases"));
        assert_eq!(placed(&[("SYSTEM_NAMESPACE", "mine")]), pair("mine", "mine"));
    }

    #[test]
    fn an_empty_variable_is_none_and_a_name_is_required() {
        let settings = read(&[], &[("CLUSTER_NAME", "demo"), ("LOG_LEVEL", ""), ("METRICS_PORT", "")]).unwrap();
        assert_eq!((settings.log.level.as_str(), settings.metrics_port), ("info", 8080));
        let mistakes = read(&[], &[("CLUSTER_NAME", "")]).unwrap_err();
        assert!(mistakes[0].to_string().contains("CLUSTER_NAME (--cluster-name): is not given"));
    }
}
