//! STS: who the caller is. There is one account, and every token is as good as any.

use jiff::SignedDuration;

use crate::region::config::ACCOUNT;
use crate::region::wire::error::AwsError;
use crate::region::wire::form::FormNode;
use crate::region::wire::xml::Xml;
use crate::region::{Cx, ids, stamp};

/// Carries out an action of STS.
pub(crate) fn act(cx: &mut Cx<'_>, action: &str, form: &FormNode) -> Result<Xml, AwsError> {
    match action {
        "GetCallerIdentity" => {
            let mut xml = Xml::new();
            xml.text("UserId", "AIDAEXAMPLECONTROLLER")
                .text("Account", ACCOUNT)
                .text("Arn", format_args!("arn:{}:iam::{ACCOUNT}:user/dovetail", cx.config.partition()));
            Ok(xml)
        }
        "AssumeRoleWithWebIdentity" => assume(cx, form),
        _ => Err(AwsError::unknown_action(action)),
    }
}

fn assume(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let role = form.required("RoleArn")?;
    let session = form.required("RoleSessionName")?;
    form.required("WebIdentityToken")?;
    let seconds = form.number("DurationSeconds")?.unwrap_or(3600);
    let until = cx.wall.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(cx.wall);
    let key = ids::hex(&mut cx.state.request_ids, 16).to_uppercase();
    let name = role.rsplit('/').next().unwrap_or(role);
    let mut xml = Xml::new();
    xml.node("Credentials", |xml| {
        xml.text("AccessKeyId", format_args!("ASIA{key}"))
            .text("SecretAccessKey", "not-a-secret-there-is-nothing-to-guard")
            .text("SessionToken", format_args!("session-{key}"))
            .text("Expiration", stamp(until));
    });
    xml.node("AssumedRoleUser", |xml| {
        xml.text("AssumedRoleId", format_args!("AROAEXAMPLE:{session}"))
            .text("Arn", format_args!("arn:{}:sts::{ACCOUNT}:assumed-role/{name}/{session}", cx.config.partition()));
    });
    xml.text("SubjectFromWebIdentityToken", "system:serviceaccount:kube-system:dovetail");
    Ok(xml)
}
