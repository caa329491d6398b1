//! Amazon Linux 2: a shell script that calls the image's bootstrap script.

use dovetail_api::v1::KubeletConfiguration;

use super::mime::{MimePart, archive, is_mime, parts_of};
use super::{Inputs, UserDataError, kubelet_args};

pub(super) fn render(inputs: &Inputs<'_>, kubelet: &KubeletConfiguration) -> Result<String, UserDataError> {
    let mut parts = match inputs.class.user_data.as_deref() {
        None | Some("") => Vec::new(),
        Some(own) if is_mime(own) => parts_of(own)?,
        Some(own) => vec![MimePart::shell(own)],
    };
    parts.push(MimePart::shell(script(inputs, kubelet)));
    Ok(archive(&parts).replace('\r', ""))
}

fn script(inputs: &Inputs<'_>, kubelet: &KubeletConfiguration) -> String {
    let cluster = inputs.cluster;
    let mut command = vec![format!(
        "/etc/eks/bootstrap.sh '{}' --apiserver-endpoint '{}' --b64-cluster-ca '{}'",
        cluster.name, cluster.endpoint, cluster.certificate_authority
    )];
    if cluster.ipv6 {
        command.push("--ip-family ipv6".into());
    }
    if let Some(dns) = inputs.dns(kubelet).first() {
        command.push(format!("--dns-cluster-ip '{dns}'"));
    }
    command.push("--use-max-pods false".into());
    command.push(format!("--kubelet-extra-args '{}'", kubelet_args::all(inputs, kubelet).join(" ")));
    if inputs.raid0() {
        command.push("--local-disks raid0".into());
    }
    format!(
        "#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n{}\n",
        command.join(" \\\n")
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use crate::family::AmiFamily;
    use crate::user_data::plain;
    use crate::user_data::tests::fixture;

    #[test]
    fn users_script_comes_first_and_bootstrap_script_knows_all() {
        let class = fixture(json!({
            "userData": "echo before",
            "instanceStorePolicy": "RAID0",
            "kubelet": {"evictionHard": {"memory.available": "5%"}, "systemReserved": {"cpu": "100m"}},
        }));
        let text = plain(&class.inputs(AmiFamily::Al2)).unwrap();
        let expected = r#"MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

echo before
--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
/etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://demo.example' --b64-cluster-ca 'Y2E=' \
--dns-cluster-ip '10.100.0.10' \
--use-max-pods false \
--kubelet-extra-args '--node-labels="karpenter.sh/capacity-type=spot,karpenter.sh/do-not-sync-taints=true,team=blue" --register-with-taints="dedicated=gpu:NoSchedule,karpenter.sh/unregistered=:NoExecute" --max-pods=29 --system-reserved="cpu=100m" --eviction-hard="memory.available<5%"' \
--local-disks raid0
--//--
"#;
        assert_eq!(text, expected);
    }
}
