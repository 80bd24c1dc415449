//! Whose a pod is: by what kube-state-metrics says, else by how controllers name their pods.

use super::ask::Row;
use std::collections::BTreeMap;

/// Owners by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Kind and name of a pod's owner.
    pub(super) pods: BTreeMap<(String, String), (String, String)>,
    /// The same of replica sets and jobs, by their kind.
    pub(super) above: BTreeMap<(String, &'static str, String), (String, String)>,
}

impl Owners {
    pub(super) fn pod(&mut self, row: &Row) {
        let key = (row.place.namespace.clone(), row.place.pod.clone());
        self.pods.insert(key, owner(row));
    }

    /// A replica set's or a job's owner.
    pub(super) fn above(&mut self, kind: &'static str, label: &str, row: &Row) {
        let name = row.label(label).to_owned();
        self.above
            .insert((row.place.namespace.clone(), kind, name), owner(row));
    }

    /// Kind and name of what a person would edit to change a pod.
    pub(super) fn of(&self, namespace: &str, pod: &str) -> (String, String) {
        let Some((kind, name)) = self.pods.get(&(namespace.to_owned(), pod.to_owned())) else {
            return by_name(pod);
        };
        let above =
            |label: &'static str| self.above.get(&(namespace.to_owned(), label, name.clone()));
        match kind.as_str() {
            "ReplicaSet" => match above("ReplicaSet") {
                Some((kind, name)) if is_owner(kind) => (kind.clone(), name.clone()),
                Some(_) => ("ReplicaSet".into(), name.clone()),
                // Deployments name their replica sets by themselves and a hash.
                None => match name.rsplit_once('-') {
                    Some((deployment, _)) => ("Deployment".into(), deployment.into()),
                    None => ("ReplicaSet".into(), name.clone()),
                },
            },
            "Job" => match above("Job") {
                Some((kind, name)) if is_owner(kind) => (kind.clone(), name.clone()),
                _ => ("Job".into(), name.clone()),
            },
            kind if is_owner(kind) => (kind.into(), name.clone()),
            _ => ("Pod".into(), pod.into()),
        }
    }
}

fn owner(row: &Row) -> (String, String) {
    (
        row.label("owner_kind").to_owned(),
        row.label("owner_name").to_owned(),
    )
}

/// kube-state-metrics writes `<none>` or nothing where there is none.
fn is_owner(kind: &str) -> bool {
    !kind.is_empty() && kind != "<none>"
}

/// Letters of the parts that Kubernetes makes up: apimachinery, `util/rand`.
const MADE_UP: &str = "bcdfghjklmnpqrstvwxz2456789";

fn by_name(pod: &str) -> (String, String) {
    let made_up = |part: &str, least: usize, most: usize| {
        (least..=most).contains(&part.len()) && part.chars().all(|c| MADE_UP.contains(c))
    };
    if let Some((rest, last)) = pod.rsplit_once('-') {
        if made_up(last, 5, 5)
            && let Some((name, hash)) = rest.rsplit_once('-')
            && made_up(hash, 8, 10)
        {
            return ("Deployment".into(), name.into());
        }
        if !last.is_empty() && last.len() <= 3 && last.chars().all(|c| c.is_ascii_digit()) {
            return ("StatefulSet".into(), rest.into());
        }
    }
    ("Pod".into(), pod.into())
}

#[cfg(test)]
mod tests {
    use super::by_name;

    #[test]
    fn owners_by_the_names_of_their_pods() {
        for (pod, kind, name) in [
            ("chat-7d9c5b8f4-x2vkq", "Deployment", "chat"),
            ("my-chat-66bcf7d4b9-bb2lm", "Deployment", "my-chat"),
            ("db-0", "StatefulSet", "db"),
            ("jupyter-alice", "Pod", "jupyter-alice"),
            ("train-2024", "Pod", "train-2024"),
            ("x", "Pod", "x"),
        ] {
            assert_eq!(by_name(pod), (kind.into(), name.into()), "{pod}");
        }
    }
}
