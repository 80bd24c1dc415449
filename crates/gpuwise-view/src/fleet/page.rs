//! A fleet as a page: the picture and the tables.

use super::{Scene, kinds, nodes, pending, summary};
use crate::{
    html::{Page, Section, figure},
    markup::escape,
    svg,
};
use gpuwise_domain::placement::Job;
use std::fmt::Write as _;

/// The page; `waiting` are jobs without a place, `doubts` are what may be a mistake in the fleet's file, `made` says by what it was made.
pub fn page(scene: &Scene<'_>, waiting: &[&Job], doubts: &[String], made: &str) -> String {
    let picture = svg::fleet(scene, "fleet");
    let mut sections = vec![
        Section {
            id: "picture",
            title: "Racks, nodes, GPUs",
            body: figure(
                &picture,
                "Each box is a GPU; what is held is coloured by who uses it. Point at one for more.",
            ),
        },
        Section {
            id: "gpus",
            title: "Kinds of GPU",
            body: kinds(scene).to_html("Kinds of GPU"),
        },
        Section {
            id: "nodes",
            title: "Nodes",
            body: nodes(scene, true).to_html("Nodes, alike neighbours together"),
        },
    ];
    if !waiting.is_empty() {
        let section = Section {
            id: "pending",
            title: "Pending",
            body: pending(scene.fleet, waiting).to_html("Jobs that wait for a place"),
        };
        sections.insert(1, section);
    }
    if !doubts.is_empty() {
        let mut body = String::from("<ul>\n");
        for doubt in doubts {
            let _ = writeln!(body, "<li>{}</li>", escape(doubt));
        }
        body += "</ul>\n";
        sections.insert(
            0,
            Section {
                id: "doubts",
                title: "What may be a mistake",
                body,
            },
        );
    }
    let title = match scene.fleet.name.as_str() {
        "" => "A fleet of GPUs".to_owned(),
        name => format!("Fleet {name}"),
    };
    Page {
        title,
        answer: format!("{}.", summary(scene)),
        head: String::new(),
        sections,
    }
    .finish(made)
}
