//! The linear program over patterns: carry all pods at the least cost, nodes taken in fractions. A revised simplex
//! with the inverse of the basis kept whole: there are as many rows as shapes.

use super::Pattern;

/// Least value of a step; smaller is noise.
const EPSILON: f64 = 1e-9;

/// The program and its present basis.
#[derive(Debug)]
pub(super) struct Master {
    rows: usize,
    columns: Vec<(Pattern, f64)>,
    /// For each row the column that is basic in it; `None` for the row's surplus.
    basis: Vec<Option<usize>>,
    inverse: Vec<f64>,
    level: Vec<f64>,
    duals: Vec<f64>,
}

impl Master {
    /// Starts with one pattern a row, which holds that row's shape only: its count on a node and the node's cost.
    pub fn new(counts: &[u32], singles: &[(u32, f64)]) -> Self {
        let rows = counts.len();
        let mut master = Self {
            rows,
            columns: Vec::with_capacity(rows * 4),
            basis: (0..rows).map(Some).collect(),
            inverse: vec![0.0; rows * rows],
            level: vec![0.0; rows],
            duals: vec![0.0; rows],
        };
        for (row, (held, cost)) in singles.iter().enumerate() {
            master.columns.push((vec![(row as u32, *held)], *cost));
            master.inverse[row * rows + row] = 1.0 / f64::from(*held);
            master.level[row] = f64::from(counts[row]) / f64::from(*held);
        }
        master.price();
        master
    }

    /// What a pod of each shape is worth at the present basis.
    pub fn duals(&self) -> &[f64] {
        &self.duals
    }

    /// What a pattern's pods are worth beyond its cost.
    pub fn gain(&self, pattern: &Pattern, cost: f64) -> f64 {
        pattern.iter().map(|(row, count)| self.duals[*row as usize] * f64::from(*count)).sum::<f64>() - cost
    }

    /// Brings a pattern into the basis if that gains anything, and then surplus as long as that does.
    pub fn enter(&mut self, pattern: Pattern, cost: f64) -> bool {
        if self.gain(&pattern, cost) <= EPSILON * cost {
            return false;
        }
        let mut direction = vec![0.0; self.rows];
        for (row, slot) in direction.iter_mut().enumerate() {
            let inverse = &self.inverse[row * self.rows..(row + 1) * self.rows];
            *slot = pattern.iter().map(|(at, count)| inverse[*at as usize] * f64::from(*count)).sum();
        }
        self.columns.push((pattern, cost));
        if !self.pivot(&direction, Some(self.columns.len() - 1)) {
            return false;
        }
        for _ in 0..self.rows {
            let worst = (0..self.rows).min_by(|a, b| self.duals[*a].total_cmp(&self.duals[*b]));
            let Some(worst) = worst.filter(|row| self.duals[*row] < -EPSILON) else { break };
            let direction: Vec<f64> = (0..self.rows).map(|row| -self.inverse[row * self.rows + worst]).collect();
            if !self.pivot(&direction, None) {
                break;
            }
        }
        true
    }

    /// One step: the entering column takes the place of the basic one that reaches zero first.
    fn pivot(&mut self, direction: &[f64], entering: Option<usize>) -> bool {
        let mut leaving: Option<(f64, usize)> = None;
        for (row, step) in direction.iter().enumerate() {
            if *step > EPSILON {
                let ratio = self.level[row] / step;
                if leaving.is_none_or(|(least, _)| ratio < least) {
                    leaving = Some((ratio, row));
                }
            }
        }
        let Some((ratio, out)) = leaving else { return false };
        let rows = self.rows;
        let pivot = direction[out];
        self.inverse[out * rows..(out + 1) * rows].iter_mut().for_each(|value| *value /= pivot);
        let scaled: Vec<f64> = self.inverse[out * rows..(out + 1) * rows].to_vec();
        for row in (0..rows).filter(|row| *row != out && direction[*row] != 0.0) {
            let factor = direction[row];
            let slots = &mut self.inverse[row * rows..(row + 1) * rows];
            slots.iter_mut().zip(&scaled).for_each(|(slot, value)| *slot -= factor * value);
            self.level[row] = (self.level[row] - factor * ratio).max(0.0);
        }
        self.level[out] = ratio;
        self.basis[out] = entering;
        self.price();
        true
    }

    fn price(&mut self) {
        self.duals.fill(0.0);
        for (row, column) in self.basis.iter().enumerate() {
            let Some(column) = column else { continue };
            let cost = self.columns[*column].1;
            let inverse = &self.inverse[row * self.rows..(row + 1) * self.rows];
            self.duals.iter_mut().zip(inverse).for_each(|(dual, value)| *dual += cost * value);
        }
    }

    /// The patterns in use and how often, the most often first.
    pub fn solution(&self) -> Vec<(&Pattern, f64)> {
        let mut used: Vec<(usize, f64)> = self
            .basis
            .iter()
            .zip(&self.level)
            .filter_map(|(column, level)| Some(((*column)?, *level)))
            .filter(|(_, level)| *level > EPSILON)
            .collect();
        used.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        used.into_iter().map(|(column, level)| (&self.columns[column].0, level)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_shapes_that_share_a_node_are_worth_its_cost_together() {
        // Ten of each; alone a node holds two and costs 1, together one of each costs 0.6.
        let mut master = Master::new(&[10, 10], &[(2, 1.0), (2, 1.0)]);
        assert!(master.enter(vec![(0, 1), (1, 1)], 0.6));
        let together = master.duals()[0] + master.duals()[1];
        assert!((together - 0.6).abs() < 1e-9 || master.gain(&vec![(0, 1), (1, 1)], 0.6) < 1e-9);
        let total: f64 = master.duals().iter().map(|dual| dual * 10.0).sum();
        assert!((total - 6.0).abs() < 1e-6, "{total}");
        let used: f64 = master.solution().iter().map(|(_, level)| level).sum();
        assert!((used - 10.0).abs() < 1e-6, "{used}");
    }

    #[test]
    fn what_gains_nothing_does_not_enter() {
        let mut master = Master::new(&[10], &[(2, 1.0)]);
        assert!(!master.enter(vec![(0, 1)], 0.5));
        assert!(master.enter(vec![(0, 4)], 1.0));
    }
}
