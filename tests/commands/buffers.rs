//! Capacity buffers in `plan`: their room is found after all pods, where the feature gate is open.

use serde_json::Value;

use crate::common::{dovetail, stderr, stdout, write};
use crate::web::Web;

/// Three pods and a buffer with that spec.
fn manifests(spec: &str) -> String {
    let buffer = format!(
        "---\napiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata: {{name: room}}\nspec: {spec}\n"
    );
    Web { pool: String::new(), types: "m5.large", replicas: 2, cpu: "500m" }.with(&buffer)
}

const OF_WEB: &str = "{scalableRef: {apiGroup: apps, kind: Deployment, name: web}, replicas: 4}";

#[test]
fn plan_shows_the_room_of_buffers_and_its_price() {
    let file = write("plan-buffers/all.yaml", &manifests(OF_WEB));
    let plan =
        |more: &[&str]| dovetail(&[&["plan", "-f", &file, "--feature-gates", "CapacityBuffer=true"], more].concat());
    let output = plan(&["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let (room, pods) = (&answer["capacityBuffers"], answer["pods"].as_u64());
    assert_eq!((pods, answer["numNodeClaims"].as_u64()), (Some(2), Some(1)), "{answer}");
    let own = &room["buffers"][0];
    let numbers = ["pods", "onOtherNodes", "onNewNodes"].map(|field| own[field].as_u64().unwrap());
    assert_eq!(numbers, [4, 1, 3], "an m5.large has room for three such pods: {own}");
    assert!((room["hourlyPrice"].as_f64().unwrap() - 0.096).abs() < 1e-9, "{room}");
    let text = stdout(&plan(&[]));
    for line in [
        "capacity buffer default/room: room for 4 of 4 pods, 1 of them on other nodes of the plan, $",
        "nodes for capacity buffers: 1 to launch (1 m5.large on-demand ",
    ] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    assert!(!stderr(&plan(&[])).contains("skipped"), "{}", stderr(&plan(&[])));
}

#[test]
fn plan_says_why_a_buffer_has_less_room() {
    for (name, spec, why) in [
        ("nobody", "{scalableRef: {kind: Deployment, name: nobody}, replicas: 4}", "Deployment nobody is not among"),
        ("neither", "{replicas: 4}", "one of spec.podTemplateRef and spec.scalableRef has to be set"),
    ] {
        let file = write(&format!("plan-buffer-{name}/all.yaml"), &manifests(spec));
        let output = dovetail(&["plan", "-f", &file, "--feature-gates", "CapacityBuffer=true"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = stdout(&output);
        assert!(text.contains("room for 0 of 0 pods") && text.contains(why), "{text}");
    }
}

#[test]
fn plan_without_the_gate_is_that_without_the_buffer() {
    let with = write("plan-buffer-off/all.yaml", &manifests(OF_WEB));
    let without = manifests(OF_WEB);
    let without = write("plan-buffer-none/all.yaml", without.rsplit_once("---\n").unwrap().0);
    let (with, without) = (dovetail(&["plan", "-f", &with]), dovetail(&["plan", "-f", &without]));
    assert_eq!(stdout(&with).replace("plan-buffer-off", "plan-buffer-none"), stdout(&without));
    assert!(stderr(&with).contains("skipped") && !stderr(&without).contains("skipped"), "{}", stderr(&with));
}
