//! Fleets as tables and pictures.

use gpuwise_domain::placement::{
    Domain, DomainId, Fleet, FleetGpu, GpuId, GpuKind, Health, Holding, Home, IslandId, Isolation,
    JobId, KindId, Level, MigGeometry, MigShape, Moment, Node, NodeId, Part, Uid,
};
use gpuwise_view::{
    Style,
    fleet::{Scene, kinds, nodes, page, summary},
    svg,
};

/// Nodes with four GPUs, two to a rack; the last GPU of each is cut.
fn fleet(count: u32) -> Fleet {
    let mut fleet = Fleet {
        name: "lab <1>".into(),
        kinds: vec![GpuKind {
            features: Vec::new(),
            name: "H100 & co".into(),
            memory_mib: Some(81_559),
            units: None,
            bandwidth_gbs: None,
            tflops: None,
            price: None,
            mig: Some(MigGeometry {
                compute_slices: 7,
                memory_slices: 8,
                shapes: vec![MigShape {
                    profile: "3g.40gb".into(),
                    memory_mib: None,
                    units: None,
                    compute: 3,
                    size: 4,
                    starts: 0b1_0001,
                    most: 2,
                    media: false,
                }],
            }),
        }],
        ..Fleet::default()
    };
    for node in 0..count {
        if node % 2 == 0 {
            fleet.domains.push(Domain {
                name: format!("r{}", node / 2),
                level: Level::Rack,
                parent: None,
            });
        }
        fleet.islands.push(format!("n{node}"));
        let first = fleet.gpus.len() as u32;
        for index in 0..4 {
            fleet.gpus.push(FleetGpu {
                kind: KindId(0),
                uid: Uid::default(),
                home: Home::Node(NodeId(node)),
                index,
                numa: Some(index / 2),
                switch: None,
                island: Some(IslandId(node)),
                rail: None,
                health: Health::Up,
                mig_on: index == 3,
            });
        }
        fleet.nodes.push(Node {
            name: format!("n{node}"),
            cpu_milli: 64_000,
            memory_mib: 524_288,
            gpus: (first..first + 4).map(GpuId).collect(),
            domain: Some(DomainId(node / 2)),
            ..Node::default()
        });
    }
    fleet
}

fn holding(gpu: u32, part: Part, name: &str, tenant: &str) -> Holding {
    Holding {
        gpu: GpuId(gpu),
        part,
        job: JobId(gpu / 2),
        name: name.into(),
        tenant: tenant.into(),
    }
}

fn moment() -> Moment {
    let quarter = Part::Fraction {
        milli: 250,
        memory_mib: 0,
        isolation: Isolation::Mps,
    };
    Moment {
        holdings: vec![
            holding(0, Part::Whole, "train-llama", "ann"),
            holding(1, Part::Whole, "train-llama", "ann"),
            holding(2, quarter, "note", "bob"),
            holding(3, Part::Slice { shape: 0, start: 4 }, "serve", "<cy>"),
        ],
        idle: vec![(GpuId(3), 0, 0)],
        attached: Vec::new(),
    }
}

#[test]
fn tables_show_alike_nodes_together_and_each_for_programs() {
    let mut fleet = fleet(6);
    fleet.nodes[5].health = Health::Maintenance;
    let moment = moment();
    let scene = Scene::new(&fleet, &moment);
    insta::assert_snapshot!(format!(
        "{}\n\n{}\n{}",
        summary(&scene),
        nodes(&scene, true).to_text(Style::default()),
        kinds(&scene).to_text(Style::default())
    ));
    assert_eq!(nodes(&scene, false).rows().len(), 6);
}

#[test]
fn a_held_share_is_what_parts_take() {
    let (fleet, moment) = (fleet(2), moment());
    let scene = Scene::new(&fleet, &moment);
    let held: Vec<u32> = (0..5).map(|gpu| scene.held_milli(GpuId(gpu))).collect();
    // 3 of 7 compute slices.
    assert_eq!(held, [1000, 1000, 250, 428, 0]);
}

/// Every element is closed in order, and no name of the fleet is markup.
fn well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in svg.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap();
        let name = tag
            .trim_start_matches('/')
            .split([' ', '\n'])
            .next()
            .unwrap();
        match tag {
            _ if tag.starts_with('?') || tag.ends_with('/') => {}
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "{svg}"),
            _ => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn few_nodes_have_names_and_tenants() {
    let mut fleet = fleet(4);
    fleet.gpus[9].health = Health::Lost { xid: 79 };
    fleet.nodes[3].health = Health::Draining;
    let moment = moment();
    let picture = svg::fleet(&Scene::new(&fleet, &moment), "f").to_svg();
    well_formed(&picture);
    for said in [
        "lab &lt;1&gt;",
        "rack r1",
        ">n3<",
        ">train-l",
        "&lt;cy&gt;, 0.428",
        "n2 GPU 1, H100 &amp; co: lost (XID 79)",
        "3g.40gb, idle",
        ">draining<",
        "2.68 of 16 GPUs held",
    ] {
        assert!(
            picture.contains(said),
            "{said}
{picture}"
        );
    }
    let page = page(
        &Scene::new(&fleet, &moment),
        &[],
        &["odd <b>".into()],
        "made",
    );
    assert!(page.contains("odd &lt;b&gt;") && page.len() < 300_000);
}

#[test]
fn many_nodes_stay_small() {
    for (count, least) in [(1_213, 100_000), (3_700, 300_000), (60_000, 20_000)] {
        let mut fleet = fleet(count);
        if count == 60_000 {
            fleet.domains.truncate(100);
            for node in &mut fleet.nodes {
                node.domain = node.domain.map(|id| DomainId(id.0 % 100));
            }
        }
        let moment = Moment {
            holdings: (0..count * 4)
                .map(|gpu| holding(gpu, Part::Whole, "j", ["a", "b", "c"][gpu as usize % 3]))
                .collect(),
            ..Moment::default()
        };
        let picture = svg::fleet(&Scene::new(&fleet, &moment), "f").to_svg();
        well_formed(&picture);
        assert!(
            (least..1_000_000).contains(&picture.len()),
            "{count}: {}",
            picture.len()
        );
    }
}
