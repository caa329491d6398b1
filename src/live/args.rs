//! Flags by which the commands for people find a cluster, and say how the answer is printed.

use clap::{Args, ValueEnum};
use dovetail_actors::Settings;
use dovetail_input::Failure;
use serde::Serialize;

/// The cluster that is asked.
#[derive(Args, Clone, Default)]
pub struct ClusterArgs {
    /// Path of a kubeconfig, or several with colons between; without one the pod's own account, then ~/.kube/config
    #[arg(long, value_name = "FILE", env = "KUBECONFIG", help_heading = "Cluster")]
    pub kubeconfig: Option<String>,
    /// The kubeconfig's context
    #[arg(long, alias = "kube-context", value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
    /// Namespace of Dovetail's Lease and pods; looked for unless given
    #[arg(long, value_name = "NAME", env = "SYSTEM_NAMESPACE", help_heading = "Cluster")]
    pub system_namespace: Option<String>,
    /// Source of instance types and prices
    #[arg(long, value_enum, default_value_t = OffersFrom::Auto, help_heading = "Cluster")]
    pub offers: OffersFrom,
}

/// Sources of instance types and prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OffersFrom {
    /// EC2 where there are AWS credentials, else what is shipped
    #[default]
    Auto,
    /// EC2 alone
    Ec2,
    /// The catalogue that is shipped with the program
    Shipped,
}

impl ClusterArgs {
    /// Default settings with the place of the API server.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.kube_access.kubeconfig = self.kubeconfig.clone().unwrap_or_default();
        settings.kube_access.context = self.context.clone().unwrap_or_default();
        settings
    }
}

/// Form of the answer.
#[derive(Args, Clone, Default)]
pub struct OutputArgs {
    /// The answer as JSON
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
    /// Form of the answer
    #[arg(short = 'o', long, value_enum, value_name = "FORM")]
    pub output: Option<OutputForm>,
}

/// Forms of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    /// For a person
    Text,
    /// For a machine
    Json,
    /// For a machine, and a person
    Yaml,
}

impl OutputArgs {
    /// The answer in the form that is asked for; `text` is that for a person.
    ///
    /// # Errors
    /// The answer cannot be written in that form.
    pub fn render(&self, answer: &impl Serialize, text: impl FnOnce() -> String) -> Result<String, Failure> {
        match self.output {
            _ if self.json => as_json(answer),
            None | Some(OutputForm::Text) => Ok(text()),
            Some(OutputForm::Json) => as_json(answer),
            Some(OutputForm::Yaml) => as_yaml(answer),
        }
    }
}

/// An answer as JSON.
///
/// # Errors
/// It cannot be written so.
pub fn as_json(answer: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(answer).map(|text| text + "\n").map_err(|why| Failure::System(why.to_string()))
}

/// An answer as YAML.
///
/// # Errors
/// It cannot be written so.
pub fn as_yaml(answer: &impl Serialize) -> Result<String, Failure> {
    // By way of JSON: the same keys, and the numbers and texts that JSON has.
    let value = serde_json::to_value(answer).map_err(|why| Failure::System(why.to_string()))?;
    let text = serde_saphyr::to_string(&value).map_err(|why| Failure::System(why.to_string()))?;
    Ok(if text.ends_with('\n') { text } else { text + "\n" })
}
