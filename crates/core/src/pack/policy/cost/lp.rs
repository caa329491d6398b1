//! The linear program over patterns: carry all pods at the least cost, nodes taken in fractions. A revised simplex with the
//! inverse of the basis kept whole: there are as many rows as shapes.
//!
//! Say there are ten pods each of two shapes. Alone a node holds two of either and costs $1: ten nodes for $10, so a pod of
//! either is worth $0.50. Then a node is found that holds one of each for $0.60. Its pods are worth $1, which is $0.40 more
//! than it costs, so it enters: ten such nodes for $6, and two pods, one of each, are worth $0.60 together. A pattern that is
//! worth less than it costs now cannot make the answer cheaper, whatever else is known.

use super::{NodePrice, Pattern};
use crate::pack::model::ids::{IndexVec, ShapeId};

/// Least value of a step; smaller is noise.
const EPSILON: f64 = 1e-9;

/// The program and its present basis.
#[derive(Debug)]
pub(super) struct Master {
    rows: usize,
    /// Patterns with the price of their nodes.
    columns: Vec<(Pattern, f64)>,
    /// Cost of a node beside its price.
    node: NodePrice,
    /// Column that is basic in each row; `None` for the row's surplus.
    basis: Vec<Option<usize>>,
    inverse: Vec<f64>,
    level: Vec<f64>,
    duals: IndexVec<ShapeId, f64>,
}

impl Master {
    /// Starts with one pattern a row, which holds that row's shape only: its count on a node and the node's price. `node` is
    /// the cost of each node beside its price.
    pub fn new(counts: &[u32], singles: &[(u32, f64)], node: NodePrice) -> Self {
        let rows = counts.len();
        let mut master = Self {
            rows,
            columns: Vec::with_capacity(rows * 4),
            node,
            basis: (0..rows).map(Some).collect(),
            inverse: vec![0.0; rows * rows],
            level: vec![0.0; rows],
            duals: IndexVec::from_elem(0.0, rows),
        };
        // With only such patterns the inverse is a diagonal, and each row is at its count divided by what its node
        // holds.
        for (row, (held, price)) in singles.iter().enumerate() {
            master.columns.push((vec![(ShapeId::from(row), *held)], *price));
            master.inverse[row * rows + row] = 1.0 / f64::from(*held);
            master.level[row] = f64::from(counts[row]) / f64::from(*held);
        }
        master.price();
        master
    }

    /// Worth of a pod of each shape at the present basis, in dollars an hour.
    pub fn duals(&self) -> &IndexVec<ShapeId, f64> {
        &self.duals
    }

    /// Sets the cost of a node beside its price, and finds the best mix of the patterns known.
    pub fn reprice(&mut self, node: NodePrice) {
        self.node = node;
        self.price();
        for _ in 0..self.rows * 2 {
            let gain =
                |at: &usize| self.gain(&self.columns[*at].0, self.columns[*at].1) / node.with(self.columns[*at].1);
            // Patterns made for another price of a node are still patterns: no new ones are made here.
            let gains = (0..self.columns.len()).map(|at| (gain(&at), at));
            let best = gains.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
            let Some((_, at)) = best.filter(|(gain, _)| *gain > 1e-4) else { break };
            if !self.bring(at) {
                break;
            }
        }
        self.price();
    }

    /// Worth of a pattern's pods beyond its cost.
    fn gain(&self, pattern: &Pattern, price: f64) -> f64 {
        pattern.iter().map(|(row, count)| self.duals[*row] * f64::from(*count)).sum::<f64>() - self.node.with(price)
    }

    /// Brings a pattern into the basis if that gains anything, and then surplus as long as that does; true if the pattern came
    /// in.
    pub fn enter(&mut self, pattern: Pattern, price: f64) -> bool {
        // A pattern whose pods are worth what it costs already changes nothing.
        if self.gain(&pattern, price) <= EPSILON * self.node.with(price) {
            return false;
        }
        self.columns.push((pattern, price));
        self.bring(self.columns.len() - 1)
    }

    fn bring(&mut self, column: usize) -> bool {
        let (pattern, price) = &self.columns[column];
        let gain = self.gain(pattern, *price);
        let mut direction = vec![0.0; self.rows];
        // Amounts of the basic columns that one node of the new pattern replaces.
        for (row, slot) in direction.iter_mut().enumerate() {
            let inverse = &self.inverse[row * self.rows..(row + 1) * self.rows];
            *slot = pattern.iter().map(|(at, count)| inverse[at.index()] * f64::from(*count)).sum();
        }
        if !self.pivot(&direction, Some(column), gain) {
            return false;
        }
        for _ in 0..self.rows {
            // A pod worth less than nothing means that more pods than there are would be cheaper. Then its row
            // keeps a surplus, until no pod is worth less than nothing.
            let worst = self.duals.ids().min_by(|a, b| self.duals[*a].total_cmp(&self.duals[*b]));
            let Some(worst) = worst.filter(|row| self.duals[*row] < -EPSILON) else { break };
            let direction: Vec<f64> =
                (0..self.rows).map(|row| -self.inverse[row * self.rows + worst.index()]).collect();
            if !self.pivot(&direction, None, -self.duals[worst]) {
                break;
            }
        }
        true
    }

    /// One step: the entering column, worth `gain` beyond its cost, takes the place of the basic one that reaches zero first.
    fn pivot(&mut self, direction: &[f64], entering: Option<usize>, gain: f64) -> bool {
        let mut leaving: Option<(f64, usize)> = None;
        for (row, step) in direction.iter().enumerate() {
            if *step > EPSILON {
                let ratio = self.level[row] / step;
                if leaving.is_none_or(|(least, _)| ratio < least) {
                    leaving = Some((ratio, row));
                }
            }
        }
        // Nothing bounds the step: the numbers have become too poor to go on with.
        let Some((ratio, out)) = leaving else { return false };
        let rows = self.rows;
        let pivot = direction[out];
        self.inverse[out * rows..(out + 1) * rows].iter_mut().for_each(|value| *value /= pivot);
        let scaled: Vec<f64> = self.inverse[out * rows..(out + 1) * rows].to_vec();
        // Most patterns have few shapes, so most rows stay as they are.
        for row in (0..rows).filter(|row| *row != out && direction[*row] != 0.0) {
            let factor = direction[row];
            let slots = &mut self.inverse[row * rows..(row + 1) * rows];
            slots.iter_mut().zip(&scaled).for_each(|(slot, value)| *slot -= factor * value);
            // A level below zero is noise, and would grow.
            self.level[row] = (self.level[row] - factor * ratio).max(0.0);
        }
        self.level[out] = ratio;
        self.basis[out] = entering;
        self.duals.iter_mut().zip(&scaled).for_each(|(dual, value)| *dual -= gain * value);
        true
    }

    /// Computes the worth of pods from the basis: steps only update it, and lose a little each time.
    pub fn price(&mut self) {
        self.duals.fill(0.0);
        for (row, column) in self.basis.iter().enumerate() {
            // A row with a surplus costs nothing, so it adds nothing to what pods are worth.
            let Some(column) = column else { continue };
            let cost = self.node.with(self.columns[*column].1);
            let inverse = &self.inverse[row * self.rows..(row + 1) * self.rows];
            self.duals.iter_mut().zip(inverse).for_each(|(dual, value)| *dual += cost * value);
        }
    }

    /// The patterns in use with the price of their nodes and the number of nodes, the largest number first.
    pub fn solution(&self) -> Vec<(&Pattern, f64, f64)> {
        let mut used: Vec<(usize, f64)> = self
            .basis
            .iter()
            .zip(&self.level)
            .filter_map(|(column, level)| Some(((*column)?, *level)))
            .filter(|(_, level)| *level > EPSILON)
            .collect();
        used.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        used.into_iter().map(|(column, level)| (&self.columns[column].0, self.columns[column].1, level)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at: usize) -> ShapeId {
        ShapeId::from(at)
    }

    #[test]
    fn two_shapes_that_share_a_node_are_worth_its_cost_together() {
        // Ten of each; alone a node holds two and costs 1, together one of each costs 0.6.
        let mut master = Master::new(&[10, 10], &[(2, 1.0), (2, 1.0)], NodePrice::default());
        assert!(master.enter(vec![(row(0), 1), (row(1), 1)], 0.6));
        let together = master.duals()[row(0)] + master.duals()[row(1)];
        assert!((together - 0.6).abs() < 1e-9 || master.gain(&vec![(row(0), 1), (row(1), 1)], 0.6) < 1e-9);
        let total: f64 = master.duals().iter().map(|dual| dual * 10.0).sum();
        assert!((total - 6.0).abs() < 1e-6, "{total}");
        let used: f64 = master.solution().iter().map(|(_, _, level)| level).sum();
        assert!((used - 10.0).abs() < 1e-6, "{used}");
    }

    #[test]
    fn a_dearer_node_makes_large_patterns_worth_more() {
        // One on a node for 1, ten on a node for 11: the small ones are cheaper until a node itself costs.
        let mut master = Master::new(&[100], &[(1, 1.0)], NodePrice::default());
        assert!(!master.enter(vec![(row(0), 10)], 11.0));
        let mut master = Master::new(&[100], &[(1, 1.0)], NodePrice::default().and(0.5));
        assert!(master.enter(vec![(row(0), 10)], 11.0));
        master.reprice(NodePrice::default());
        assert!((master.duals()[row(0)] - 1.0).abs() < 1e-9, "{}", master.duals()[row(0)]);
        master.reprice(NodePrice::default().and(2.0));
        assert!((master.duals()[row(0)] - 1.3).abs() < 1e-9, "{}", master.duals()[row(0)]);
    }

    #[test]
    fn what_gains_nothing_does_not_enter() {
        let mut master = Master::new(&[10], &[(2, 1.0)], NodePrice::default());
        assert!(!master.enter(vec![(row(0), 1)], 0.5));
        assert!(master.enter(vec![(row(0), 4)], 1.0));
    }
}
