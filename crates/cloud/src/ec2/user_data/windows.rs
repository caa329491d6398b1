//! Windows: PowerShell that calls the image's bootstrap script.

use dovetail_api::v1::KubeletConfiguration;

use super::{Inputs, kubelet_args};

pub(super) fn render(inputs: &Inputs<'_>, kubelet: &KubeletConfiguration) -> String {
    let cluster = inputs.cluster;
    let mut text = String::from("<powershell>\n");
    if let Some(own) = inputs.class.user_data.as_deref().filter(|own| !own.is_empty()) {
        text += own.trim_end_matches('\n');
        text.push('\n');
    }
    text += "[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n";
    text += &format!(
        "& $EKSBootstrapScriptFile -EKSClusterName '{}' -APIServerEndpoint '{}' -Base64ClusterCA '{}' -KubeletExtraArgs '{}'",
        cluster.name,
        cluster.endpoint,
        cluster.certificate_authority,
        kubelet_args::all(inputs, kubelet).join(" ")
    );
    if let Some(dns) = inputs.dns(kubelet).first() {
        text += &format!(" -DNSClusterIP '{dns}'");
    }
    text + "\n</powershell>"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use crate::family::AmiFamily;
    use crate::user_data::plain;
    use crate::user_data::tests::fixture;

    #[test]
    fn the_users_lines_come_before_the_bootstrap_script() {
        let class = fixture(json!({"userData": "Write-Host hi\n"}));
        let text = plain(&class.inputs(AmiFamily::Windows2022)).unwrap();
        assert!(text.starts_with("<powershell>\nWrite-Host hi\n[string]$EKSBootstrapScriptFile"));
        assert!(text.contains("-EKSClusterName 'demo'") && text.contains("--max-pods=29"));
        assert!(text.ends_with("-DNSClusterIP '10.100.0.10'\n</powershell>"));
    }
}
