//! Trees and forests.

use gpuwise_measure::learn::{
    Table,
    forest::{Forest, ForestSettings},
    tree::{Node, Tree, TreeSettings},
};
use gpuwise_units::RandomStream;
use proptest::prelude::*;

const TREE: TreeSettings = TreeSettings {
    depth: 6,
    leaf: 3,
    shrinkage: 0.0,
    features: 1.0,
};

/// Rows of two features, and of one that says nothing.
fn rows(count: u64) -> Vec<[f64; 3]> {
    let mut chance = RandomStream::new(3, "test rows", 0);
    (0..count)
        .map(|_| [chance.uniform(), chance.uniform(), chance.uniform()])
        .collect()
}

fn table(rows: &[[f64; 3]]) -> Table {
    let mut table = Table::new(&["a", "b", "noise"]);
    for row in rows {
        table.push(row);
    }
    table
}

fn forest(rows: &[[f64; 3]], target: &[f64], group: &[u32], seed: u64) -> Forest {
    let settings = ForestSettings {
        trees: 30,
        ..ForestSettings::default()
    };
    Forest::grow(&table(rows), target, group, &settings, seed)
}

#[test]
fn a_tree_finds_a_step_exactly() {
    let rows = rows(200);
    let target: Vec<f64> = rows
        .iter()
        .map(|row| if row[1] > 0.4 { 5.0 } else { -1.0 })
        .collect();
    let mut all: Vec<u32> = (0..200).collect();
    let mut chance = RandomStream::new(1, "tree", 0);
    let tree = Tree::grow(
        &table(&rows).binned(),
        &target,
        &mut all,
        &TREE,
        &mut chance,
    );
    for (row, target) in rows.iter().zip(&target) {
        assert!((tree.predict(row) - target).abs() < 1e-12);
    }
}

#[test]
fn a_tree_that_leads_round_in_a_circle_ends() {
    let node = |children| Node {
        feature: 0,
        threshold: 0.5,
        children,
        value: 1.0,
    };
    for nodes in [
        vec![node((0, 1)), node((0, 1))],
        vec![node((1, 7)), node((1, 1))],
        vec![],
    ] {
        let tree = Tree { nodes };
        let _ = tree.predict(&[0.2]);
        let _ = tree.predict(&[0.9]);
        let _ = tree.predict(&[]);
    }
}

#[test]
fn a_forest_is_the_same_for_the_same_seed_and_another_for_another() {
    let rows = rows(120);
    let target: Vec<f64> = rows.iter().map(|row| row[0] * row[1]).collect();
    let group: Vec<u32> = (0..120).collect();
    assert_eq!(
        forest(&rows, &target, &group, 7),
        forest(&rows, &target, &group, 7)
    );
    assert_ne!(
        forest(&rows, &target, &group, 7).trees,
        forest(&rows, &target, &group, 8).trees
    );
}

#[test]
fn rows_of_one_group_do_not_vouch_for_each_other() {
    // Each group has a target of its own that no feature tells but by knowing the group.
    let mut chance = RandomStream::new(5, "groups", 0);
    let (mut all, mut target, mut together, mut apart) = (vec![], vec![], vec![], vec![]);
    for group in 0..40u32 {
        let (place, value) = (chance.uniform(), chance.uniform());
        for copy in 0..10u32 {
            all.push([place, place, chance.uniform()]);
            target.push(value);
            together.push(group);
            apart.push(group * 10 + copy);
        }
    }
    let width = |group: &[u32]| {
        let (low, high) = forest(&all, &target, group, 1).range;
        high - low
    };
    assert!(width(&together) > 0.4, "{}", width(&together));
    assert!(width(&apart) < 0.6 * width(&together), "{}", width(&apart));
}

#[test]
fn what_lies_outside_what_was_learned_is_said() {
    let rows = rows(100);
    let target: Vec<f64> = rows.iter().map(|row| row[0]).collect();
    let group: Vec<u32> = (0..100).collect();
    let forest = forest(&rows, &target, &group, 1);
    assert_eq!(
        forest.predict(&[0.5, 0.5, 0.5]).outside,
        Vec::<usize>::new()
    );
    assert_eq!(forest.predict(&[0.5, 1.5, -2.0]).outside, vec![1, 2]);
}

proptest! {
    #[test]
    fn contributions_sum_to_what_the_forest_says(a in 0.0..1.0f64, b in 0.0..1.0f64) {
        let rows = rows(80);
        let target: Vec<f64> = rows.iter().map(|row| row[0] - 3.0 * row[1]).collect();
        let group: Vec<u32> = (0..80).collect();
        let forest = forest(&rows, &target, &group, 2);
        let row = [a, b, 0.5];
        let (base, moved) = forest.contributions(&row);
        let sum = base + moved.iter().sum::<f64>();
        prop_assert!((sum - forest.predict(&row).value).abs() < 1e-9);
    }
}
