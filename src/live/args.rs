//! Flags by which the commands for people find a cluster, and say how the answer is printed.

use clap::{Args, ValueEnum};
use dovetail_actors::Settings;

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
}

impl OutputArgs {
    pub fn is_json(&self) -> bool {
        self.json || self.output == Some(OutputForm::Json)
    }
}
