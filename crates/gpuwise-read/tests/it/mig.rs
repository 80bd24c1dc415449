use gpuwise_domain::placement::{MigGeometry, Occupancy, ProfileSet};
use gpuwise_read::catalogue::read_mig_boards;

const ROWS: &str = include_str!("../../../../catalogue/mig_profiles.csv");

fn geometry(gpu: &str) -> MigGeometry {
    let boards = read_mig_boards("mig_profiles.csv", ROWS).expect("boards");
    let board = boards.into_iter().find(|b| b.gpus.iter().any(|g| g == gpu));
    board.expect(gpu).geometry
}

/// Whether these can be together: `profile@start` by profile.
fn together(geometry: &MigGeometry, instances: &str) -> Option<Occupancy> {
    geometry.together(instances.split_whitespace().map(|instance| {
        let (profile, start) = instance.split_once('@').expect("profile@start");
        let shape = geometry.named(profile).expect(profile);
        (shape, start.parse().expect("a start"))
    }))
}

#[test]
fn profiles_of_every_board_are_there_whether_or_not_their_memory_was_seen() {
    let boards = read_mig_boards("mig_profiles.csv", ROWS).expect("boards");
    let shapes: usize = boards.iter().map(|b| b.geometry.shapes.len()).sum();
    assert_eq!(shapes, ROWS.lines().count() - 1);
    let b200 = geometry("B200 SXM 180GB");
    let unseen = b200.shape(b200.named("3g.90gb").expect("a profile"));
    assert_eq!(unseen.expect("a shape").memory_mib, None);
}

#[test]
fn what_can_be_together() {
    for (gpu, instances, can) in [
        // NVIDIA's MIG user guide: 4g and 3g fill a board; 3g twice leaves a compute slice.
        ("A100 SXM4 40GB", "4g.20gb@0 3g.20gb@4", true),
        ("A100 SXM4 40GB", "3g.20gb@0 3g.20gb@4 1g.5gb@6", false),
        ("A100 SXM4 40GB", "1g.5gb@3 3g.20gb@0", false),
        ("A100 SXM4 40GB", "1g.5gb@3 3g.20gb@4", true),
        ("A100 SXM4 40GB", "4g.20gb@4", false),
        ("A100 SXM4 40GB", "2g.10gb@6", false),
        ("A100 SXM4 40GB", "1g.10gb@6", true),
        ("A100 SXM4 40GB", "1g.5gb+me@0 1g.5gb@1", true),
        ("A100 SXM4 40GB", "1g.5gb+me@0 1g.5gb+me@1", false),
        ("A30", "1g.6gb+me@0 2g.12gb+me@2", false),
        ("A30", "2g.12gb@0 2g.12gb+me@2", true),
        (
            "RTX PRO 6000 Blackwell Server",
            "2g.48gb@0 1g.24gb@6 1g.24gb@9",
            true,
        ),
        ("RTX PRO 6000 Blackwell Server", "1g.24gb@1", false),
    ] {
        let geometry = geometry(gpu);
        let found = together(&geometry, instances);
        assert_eq!(found.is_some(), can, "{gpu}: {instances}");
    }
}

#[test]
fn what_is_destroyed_leaves_the_board_as_it_was() {
    let geometry = geometry("H100 SXM5 80GB");
    let before = together(&geometry, "2g.20gb@0 1g.10gb@2").expect("room");
    let three = geometry.named("3g.40gb").expect("a profile");
    let both = geometry.created(before, three, 4).expect("room");
    assert_eq!(geometry.destroyed(both, three, 4), Some(before));
    assert_eq!(geometry.destroyed(before, three, 4), None);
}

#[test]
fn sets_of_profiles() {
    for (gpu, set, names) in [
        (
            "A100 SXM4 80GB",
            ProfileSet::Five,
            "1g.10gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
        ),
        (
            "A100 SXM4 80GB",
            ProfileSet::Base,
            "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
        ),
        ("A30", ProfileSet::Five, "1g.6gb 2g.12gb 4g.24gb"),
        (
            "RTX PRO 6000 Blackwell Server",
            ProfileSet::Base,
            "1g.24gb 2g.48gb 4g.96gb",
        ),
    ] {
        let only = geometry(gpu).only(set);
        let found: Vec<_> = only.shapes.iter().map(|s| s.profile.as_str()).collect();
        assert_eq!(found.join(" "), names, "{gpu}");
    }
}

#[test]
fn rows_that_make_no_board_are_refused_with_their_line() {
    let head = "board,profile,memory_mib,sm_count,compute_slices,memory_slices,board_compute_slices,board_memory_slices,max_instances,placement_starts,placement_size";
    for (rows, place, words) in [
        (
            "X,1g,1,1,1,1,7,8,7,0;1;x,1",
            "line 2",
            "\"x\" is not a memory slice",
        ),
        (
            "X,1g,1,1,1,1,7,8,7,0;99,1",
            "line 2",
            "\"99\" is not a memory slice",
        ),
        ("X,3g,1,1,3,4,7,8,2,0;5,4", "line 2", "reaches past"),
        ("X,3g,1,1,3,0,7,8,2,0,0", "line 2", "takes no slice"),
        (
            "X,9g,1,1,9,8,7,8,1,0,8",
            "line 2",
            "more than the board has",
        ),
        ("X,1g,1,1,1,1,7,8,0,0,1", "line 2", "1 to 15 instances"),
        ("X,1g,1,1,1,1,0,8,1,0,1", "line 2", "1 to 16 compute slices"),
        ("X,1g,1,1,1,1,7,99,1,0,1", "line 2", "1 to 16 memory slices"),
        ("X,1g,1,1,1,2,7,8,1,0,1", "line 2", "`placement_size` 1"),
        (
            "X,1g,1,1,1,1,7,8,7,0,1\nX,1g,1,1,1,1,7,8,7,0,1",
            "line 3",
            "there twice",
        ),
        (
            "X,1g,1,1,1,1,7,8,7,0,1\nX,2g,1,1,2,2,4,4,2,0,2",
            "line 3",
            "7 compute and 8 memory slices",
        ),
    ] {
        let error = read_mig_boards("f.csv", &format!("{head}\n{rows}\n")).expect_err(rows);
        assert_eq!(error.place, place, "{rows}");
        assert!(error.problem.contains(words), "{rows}: {}", error.problem);
    }
}
