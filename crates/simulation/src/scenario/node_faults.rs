//! Meaning of a scenario's `faults.nodes`.

use std::time::Duration;

use dovetail_api::validation::{label_key, label_value};
use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_sandbox::faults::{
    JoinsLate, KubeletRefuses, LabelOfNodes, LessAllocatable, NodeFaults, OnTypes, TaintOnJoin, TypeGlobs, glob_matches,
};
use serde_saphyr::Spanned;

use super::check::Checker;
use crate::scenario::{duration, faults};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn text(written: Option<&Spanned<String>>) -> String {
    written.map(|text| text.value.clone()).unwrap_or_default()
}

impl Checker<'_> {
    pub(super) fn node_faults(
        &mut self,
        written: &faults::ScenarioNodeFaults,
        catalogue: Option<&RegionCatalogue>,
    ) -> NodeFaults {
        let mut types = |field: &str, globs: &[Spanned<String>]| self.types(field, globs, catalogue);
        let cordon = written.cordon_on_join.as_ref();
        let off = written.label_taken_off.as_ref();
        let on = written.label_put_on.as_ref();
        let refuses = written.kubelet_refuses.as_ref();
        let mut found = NodeFaults {
            cordon_on_join: cordon.map(|one| OnTypes { types: types("cordonOnJoin", &one.types) }),
            label_taken_off: off.map(|one| LabelOfNodes {
                types: types("labelTakenOff", &one.types),
                key: one.key.value.clone(),
                value: String::new(),
            }),
            label_put_on: on.map(|one| LabelOfNodes {
                types: types("labelPutOn", &one.types),
                key: one.key.value.clone(),
                value: text(one.value.as_ref()),
            }),
            kubelet_refuses: refuses
                .map(|one| KubeletRefuses { types: types("kubeletRefuses", &one.types), pods: one.pods.clone() }),
            ..NodeFaults::default()
        };
        for (fault, key, value) in [
            written.taint_on_join.as_ref().map(|one| ("taintOnJoin", &one.key, one.value.as_ref())),
            off.map(|one| ("labelTakenOff", &one.key, None)),
            on.map(|one| ("labelPutOn", &one.key, one.value.as_ref())),
        ]
        .into_iter()
        .flatten()
        {
            self.key_and_value(&format!("faults.nodes.{fault}"), key, value);
        }
        found.allocatable = written.allocatable.as_ref().map(|one| LessAllocatable {
            types: self.types("allocatable", &one.types, catalogue),
            less: self.less(&one.less),
        });
        found.taint_on_join = written.taint_on_join.as_ref().map(|one| TaintOnJoin {
            types: self.types("taintOnJoin", &one.types, catalogue),
            key: one.key.value.clone(),
            value: text(one.value.as_ref()),
            effect: self.effect(one.effect.as_ref()),
            taken_off: one.taken_off.as_ref().map(|time| self.node_time("faults.nodes.taintOnJoin.takenOff", time)),
        });
        found.joins_late = written.joins_late.as_ref().map(|one| JoinsLate {
            types: self.types("joinsLate", &one.types, catalogue),
            by: self.node_time("faults.nodes.joinsLate.by", &one.by),
        });
        found.lasts = written.lasts.as_ref().map(|text| self.node_time("faults.nodes.for", text));
        found
    }

    /// A key and a value that no label, and no taint, can have.
    fn key_and_value(&mut self, field: &str, key: &Spanned<String>, value: Option<&Spanned<String>>) {
        if let Some(wrong) = label_key(&key.value) {
            self.mistake(format!("{field}.key"), key, wrong.what, wrong.allowed);
        }
        if let Some((value, wrong)) = value.and_then(|value| Some((value, label_value(&value.value)?))) {
            self.mistake(format!("{field}.value"), value, wrong.what, wrong.allowed);
        }
    }

    fn node_time(&mut self, field: &str, text: &Spanned<String>) -> Duration {
        self.collect(duration(self.path, field, text)).unwrap_or_default()
    }

    fn types(&mut self, fault: &str, globs: &[Spanned<String>], catalogue: Option<&RegionCatalogue>) -> TypeGlobs {
        for (number, glob) in globs.iter().enumerate() {
            let known =
                |catalogue: &RegionCatalogue| catalogue.types.iter().any(|one| glob_matches(&glob.value, &one.name));
            if catalogue.is_some_and(|catalogue| !known(catalogue)) {
                let what = format!("{:?} is none of the region's instance types", glob.value);
                let field = format!("faults.nodes.{fault}.types[{number}]");
                self.mistake(field, glob, what, "globs of EC2 types of the region, such as m5.*");
            }
        }
        TypeGlobs(globs.iter().map(|glob| glob.value.clone()).collect())
    }

    fn less(&mut self, text: &Spanned<String>) -> f64 {
        let number = text.value.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
        if let Some(share) = number.filter(|number| (0.0..=100.0).contains(number)) {
            return share / 100.0;
        }
        let what = format!("{:?} is no percentage", text.value);
        self.mistake("faults.nodes.allocatable.less", text, what, "0% to 100%");
        0.0
    }

    fn effect(&mut self, effect: Option<&Spanned<String>>) -> String {
        let Some(effect) = effect else { return EFFECTS[0].to_owned() };
        if !EFFECTS.contains(&effect.value.as_str()) {
            let what = format!("unknown effect {:?}", effect.value);
            self.mistake("faults.nodes.taintOnJoin.effect", effect, what, EFFECTS.join(", "));
        }
        effect.value.clone()
    }
}
