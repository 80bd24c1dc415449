//! What is other than it was, in lines for people.

use super::{Inventory, Key, Node, Pod, Waiting};
use std::sync::Arc;

impl Inventory {
    /// What nodes and pods with GPUs changed since an older copy: a line each.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let mut out = Vec::new();
        for (key, node) in self.nodes.iter() {
            match before.nodes.at(&key) {
                None => out.push(format!("+ node {key}: {}", gpus(node))),
                Some(old) if Arc::ptr_eq(old, node) => {}
                Some(old) => out.extend(of_node(&key, old, node)),
            }
        }
        for (key, node) in before.nodes.iter() {
            if self.nodes.at(&key).is_none() {
                out.push(format!("- node {key}: {}", gpus(node)));
            }
        }
        for (key, pod) in self.pods.iter() {
            let old = before.pods.at(&key);
            if old.is_some_and(|old| Arc::ptr_eq(old, pod)) || self.gpus_asked(pod).is_none() {
                continue;
            }
            let (now, then) = (state(pod), old.map(|old| state(old)));
            match then {
                None => out.push(format!("+ pod {key}: {now}")),
                Some(then) if then != now => out.push(format!("~ pod {key}: {now}")),
                Some(_) => {}
            }
        }
        for (key, pod) in before.pods.iter() {
            if self.pods.at(&key).is_none() && !before.gpus_asked(pod).is_none() {
                out.push(format!("- pod {key}"));
            }
        }
        out
    }
}

fn gpus(node: &Node) -> String {
    let product = node.product().unwrap_or("GPU");
    format!("{} × {product}", node.gpus())
}

fn of_node(key: &Key, old: &Node, new: &Node) -> Option<String> {
    let mut said = Vec::new();
    if old.ready != new.ready {
        let ready = new.ready != Some(false);
        said.push(if ready {
            "ready".to_owned()
        } else {
            "not ready".to_owned()
        });
    }
    if old.unschedulable != new.unschedulable {
        let words = if new.unschedulable {
            "cordoned"
        } else {
            "not cordoned any more"
        };
        said.push(words.to_owned());
    }
    if gpus(old) != gpus(new) || old.extended != new.extended {
        let amounts = new
            .extended
            .iter()
            .map(|(key, count)| format!("{count} {key}"));
        let amounts: Vec<String> = amounts.collect();
        said.push(format!("{}, offers {}", gpus(new), amounts.join(", ")));
    }
    if old.taints != new.taints {
        let taints = new
            .taints
            .iter()
            .map(|taint| format!("{}:{}", taint.key, taint.effect));
        let taints: Vec<String> = taints.collect();
        said.push(format!("taints {}", taints.join(", ")));
    }
    (!said.is_empty()).then(|| format!("~ node {key}: {}", said.join("; ")))
}

fn state(pod: &Pod) -> String {
    match (pod.waiting(), &pod.node) {
        (Some(Waiting::Unschedulable(_)), _) => "waits, no node was found".to_owned(),
        (Some(waiting), _) => format!("waits, {waiting}"),
        (None, Some(node)) if pod.phase.ended() => format!("ended on {node}"),
        (None, Some(node)) => format!("on {node}"),
        (None, None) => "ended".to_owned(),
    }
}
